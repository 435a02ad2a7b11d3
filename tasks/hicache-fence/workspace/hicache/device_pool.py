"""The device's KV and indexer buffers, and how the forward pass gets at them."""

import torch
from feedback.events.device import Buffer, Stream
from feedback.events.runtime import Runtime

from hicache.layer_counter import SLOTS, LayerCounter


class DevicePool:
    """Buffers by slot and layer. Accessors return the buffers of the current load, ready to be read on the forward stream."""

    def __init__(self, runtime: Runtime, layers: int, counter: LayerCounter, forward: Stream) -> None:
        self._counter, self._forward = counter, forward
        self._slot = 0
        self._key = self._buffers(runtime, "key", layers)
        self._value = self._buffers(runtime, "value", layers)
        self._index_key = self._buffers(runtime, "index_key", layers)
        self._index_scale = self._buffers(runtime, "index_scale", layers)

    @staticmethod
    def _buffers(runtime: Runtime, name: str, layers: int) -> list[list[Buffer]]:
        return [[runtime.buffer(f"{name}[{slot}][{layer}]") for layer in range(layers)] for slot in range(SLOTS)]

    def use(self, slot: int) -> None:
        """The forward pass reads this slot from now on."""
        self._slot = slot

    def reset(self, slot: int, shapes: dict[str, tuple[torch.Size, torch.dtype]]) -> None:
        """Give the slot to another request: pages of this size, with nothing in them yet."""
        for name, rows in self._named().items():
            for buffer in rows[slot]:
                shape, dtype = shapes[name]
                buffer.value = torch.zeros(shape, dtype=dtype)

    def targets(self, slot: int, layer: int) -> dict[str, Buffer]:
        """Where the loader writes a layer."""
        return {name: rows[slot][layer] for name, rows in self._named().items()}

    def _named(self) -> dict[str, list[list[Buffer]]]:
        return {"key": self._key, "value": self._value, "index_key": self._index_key, "index_scale": self._index_scale}

    def key_buffer(self, layer: int) -> Buffer:
        """Keys of a layer."""
        self._counter.wait_until(self._forward, layer)
        return self._key[self._slot][layer]

    def value_buffer(self, layer: int) -> Buffer:
        """Values of a layer."""
        self._counter.wait_until(self._forward, layer)
        return self._value[self._slot][layer]

    def index_key_buffer(self, layer: int) -> Buffer:
        """Index keys of a layer, for the ragged scores of a prefill."""
        return self._index_key[self._slot][layer]

    def index_scale_buffer(self, layer: int) -> Buffer:
        """Scales of the index keys of a layer."""
        return self._index_scale[self._slot][layer]

    def index_key_and_scale(self, layer: int) -> tuple[Buffer, Buffer]:
        """Both, as the paged scores of a decode step take them."""
        return self._index_key[self._slot][layer], self._index_scale[self._slot][layer]
