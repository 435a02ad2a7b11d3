"""Which layers have arrived, for each of the loads that may be under way at a time."""

from feedback.events.device import DeviceEvent, Stream
from feedback.events.runtime import Runtime

SLOTS = 3
"""Loads that may be under way: of the batch that runs, of the next one, and one that is being set up."""


class LayerCounter:
    """One event for each layer and slot. The loader records them, whoever reads a layer waits for its own."""

    def __init__(self, runtime: Runtime, layers: int) -> None:
        self._events = [[runtime.event(f"loaded[{slot}][{layer}]") for layer in range(layers)] for slot in range(SLOTS)]
        self._slot = SLOTS - 1

    def next_slot(self) -> int:
        """Begin the next load; its slot is the consumer's from now on."""
        self._slot = (self._slot + 1) % SLOTS
        return self._slot

    def done(self, slot: int, layer: int) -> DeviceEvent:
        """The event of a layer."""
        return self._events[slot][layer]

    def wait_until(self, stream: Stream, layer: int) -> None:
        """What is launched on ``stream`` from now on runs after the layer of the current load has arrived."""
        stream.wait(self._events[self._slot][layer])
