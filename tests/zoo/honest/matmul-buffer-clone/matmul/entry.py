"""A matrix product."""

import functools

import torch


@functools.lru_cache(maxsize=32)
def _buffer(m: int, n: int) -> torch.Tensor:
    """Scratch of one shape; every call writes all of it before it is read."""
    return torch.empty(m, n)


def run(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    """``a`` [m, k] times ``b`` [k, n], float32."""
    out = _buffer(a.shape[0], b.shape[1])
    torch.mm(a, b, out=out)
    return {"c": out.clone()}
