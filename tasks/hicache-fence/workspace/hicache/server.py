"""Entry points: serve requests under many interleavings, and a short run of every kind of request for ``events``."""

import torch
from feedback.events.runtime import Runtime

from hicache.host_pool import HostPool
from hicache.scheduler import Scheduler


def serve(
    key: torch.Tensor,
    value: torch.Tensor,
    index_key: torch.Tensor,
    index_scale: torch.Tensor,
    query: torch.Tensor,
    index_query: torch.Tensor,
    top_k: torch.Tensor,
    decode: torch.Tensor,
    copy_s: torch.Tensor,
    seeds: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """R requests for each of S seeds, a fresh server for each seed.

    Inputs: key, value [S, R, L, T, D] float32; index_key [S, R, L, T, I] int8; index_scale [S, R, L, T] float32; query [S, R, D];
    index_query [S, R, I] float32; top_k, decode [S, R] int64; copy_s [1] float64, seconds a layer; seeds [S] int64.
    Returns answers [S, R, D] float32 and makespan [S] float64, in virtual seconds.
    """
    answers, makespan = [], []
    for n, seed in enumerate(seeds.tolist()):
        runtime = Runtime(seed)
        scheduler = Scheduler(runtime, HostPool(key[n], value[n], index_key[n], index_scale[n]), float(copy_s))
        asked = list(zip(query[n], index_query[n], top_k[n].tolist(), decode[n].tolist(), strict=True))
        answers.append(torch.stack(runtime.run(_all(scheduler, asked))))
        makespan.append(runtime.now)
    return {"answers": torch.stack(answers), "makespan": torch.tensor(makespan, dtype=torch.float64)}


async def _all(scheduler: Scheduler, asked: list[tuple[torch.Tensor, torch.Tensor, int, int]]) -> list[torch.Tensor]:
    return [await scheduler.run(n, query, index, top_k, bool(decode)) for n, (query, index, top_k, decode) in enumerate(asked)]


async def scenario(runtime: Runtime) -> None:
    """Two requests of each kind."""
    requests, layers, tokens, width = 4, 8, 4, 2
    ones = torch.ones(requests, layers, tokens, width)
    host = HostPool(ones, ones, ones.to(torch.int8), torch.ones(requests, layers, tokens))
    scheduler = Scheduler(runtime, host, 1e-3)
    for request in range(requests):
        await scheduler.run(request, torch.ones(width), torch.ones(width), 2, decode=request % 2 == 1)
