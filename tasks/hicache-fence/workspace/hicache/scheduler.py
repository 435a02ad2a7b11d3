"""One request after the other: its load begins when it is scheduled, and its forward pass runs beside it."""

import torch
from feedback.events.runtime import Runtime

from hicache.costs import LAYERS
from hicache.device_pool import DevicePool
from hicache.forward import ForwardPass
from hicache.host_pool import HostPool
from hicache.layer_counter import LayerCounter
from hicache.loader import Loader


class Scheduler:
    """Owns the device: its streams, its pool, and what runs on them."""

    def __init__(self, runtime: Runtime, host: HostPool, copy_s: float) -> None:
        self._host = host
        self._forward = runtime.stream("forward")
        counter = LayerCounter(runtime, LAYERS)
        self._pool = DevicePool(runtime, LAYERS, counter, self._forward)
        self._loader = Loader(runtime, self._pool, counter, copy_s)
        self._model = ForwardPass(runtime, self._pool, self._forward)

    async def run(self, request: int, query: torch.Tensor, index_query: torch.Tensor, top_k: int, decode: bool) -> torch.Tensor:
        """The answer [D] of a request whose prefix is in host memory."""
        self._pool.use(self._loader.load(self._host.pages(request)))
        answer = self._model.launch(query, index_query, top_k, decode)
        await self._forward.synchronize()
        await self._loader.stream.synchronize()
        return answer.value
