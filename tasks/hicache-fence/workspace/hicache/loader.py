"""Copies prefixes back to the device, layer by layer, on a stream of its own."""

from feedback.events.device import Stream
from feedback.events.runtime import Runtime

from hicache.costs import LAYERS
from hicache.device_pool import DevicePool
from hicache.host_pool import HostPages
from hicache.layer_counter import LayerCounter

_PARTS = ("key", "value", "index_key", "index_scale")


class Loader:
    """``copy_s``: seconds that a layer of a request takes over the host link."""

    def __init__(self, runtime: Runtime, pool: DevicePool, counter: LayerCounter, copy_s: float) -> None:
        self.stream: Stream = runtime.stream("load")
        self._pool, self._counter, self._copy_s = pool, counter, copy_s

    def load(self, pages: HostPages) -> int:
        """Begin to copy every layer; returns the slot. Nothing waits here."""
        slot = self._counter.next_slot()
        self._pool.reset(slot, {part: (getattr(pages, part)[0].shape, getattr(pages, part).dtype) for part in _PARTS})
        for layer in range(LAYERS):
            targets = self._pool.targets(slot, layer)
            for part in _PARTS:
                source = getattr(pages, part)[layer]
                self.stream.launch(self._copy_s / len(_PARTS), writes=(targets[part],), compute=source.clone)
            self.stream.record(self._counter.done(slot, layer))
        return slot
