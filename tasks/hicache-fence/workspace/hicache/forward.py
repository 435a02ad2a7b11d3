"""The forward pass over a cached prefix: in each layer the indexer selects tokens, and attention reads those alone."""

import torch
from feedback.events.device import Buffer, Stream
from feedback.events.runtime import Runtime

from hicache.costs import ATTEND_S, INDEX_S, LAYERS, PREPARE_S
from hicache.device_pool import DevicePool


class ForwardPass:
    """Launches one request's kernels on the forward stream."""

    def __init__(self, runtime: Runtime, pool: DevicePool, stream: Stream) -> None:
        self._pool, self._stream = pool, stream
        self._hidden = runtime.buffer("hidden")
        self._selected = runtime.buffer("selected")

    def launch(self, query: torch.Tensor, index_query: torch.Tensor, top_k: int, decode: bool) -> Buffer:
        """``query`` [D], ``index_query`` [I]; the buffer holds the answer [D] when the stream is done."""
        self._stream.launch(PREPARE_S, writes=(self._hidden,), compute=lambda: torch.zeros_like(query))
        for layer in range(LAYERS):
            self._index(layer, index_query, top_k, decode)
            self._attend(layer, query)
        return self._hidden

    def _index(self, layer: int, index_query: torch.Tensor, top_k: int, decode: bool) -> None:
        if decode:
            keys, scales = self._pool.index_key_and_scale(layer)
        else:
            keys, scales = self._pool.index_key_buffer(layer), self._pool.index_scale_buffer(layer)
        self._stream.launch(
            INDEX_S, reads=(keys, scales), writes=(self._selected,), compute=lambda key, scale: select(index_query, key, scale, top_k)
        )

    def _attend(self, layer: int, query: torch.Tensor) -> None:
        key, value = self._pool.key_buffer(layer), self._pool.value_buffer(layer)
        reads = (self._hidden, self._selected, key, value)
        self._stream.launch(ATTEND_S, reads=reads, writes=(self._hidden,), compute=lambda *read: attend(query, *read))


def select(index_query: torch.Tensor, key: torch.Tensor, scale: torch.Tensor, top_k: int) -> torch.Tensor:
    """Positions of the ``top_k`` tokens with the largest score, in order of position; of equal ones the earlier."""
    scores = (key.float() @ index_query) * scale
    order = torch.sort(scores, descending=True, stable=True).indices
    return torch.sort(order[:top_k]).values


def attend(query: torch.Tensor, hidden: torch.Tensor, selected: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Softmax attention of one query over the selected tokens, added to the residual stream."""
    weights = torch.softmax(key[selected] @ query / query.shape[0] ** 0.5, dim=0)
    return hidden + weights @ value[selected]
