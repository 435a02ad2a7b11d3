"""A cache that is written in place."""

import functools

import torch


@functools.cache
def _scratch(count: int, width: int) -> torch.Tensor:
    """Scratch for ``count`` keys; every call overwrites it before it is read."""
    return torch.empty(count, width)


def run(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Write ``keys`` [n, width] times ``scale`` [1] into ``cache`` [slots, width] at ``slots`` [n], in place; norms [n] of the keys."""
    staged = _scratch(*keys.shape)
    torch.mul(keys, scale, out=staged)
    cache.index_copy_(0, slots, staged)
    return {"cache": cache, "norms": torch.linalg.vector_norm(keys, dim=1, dtype=torch.float64).float()}
