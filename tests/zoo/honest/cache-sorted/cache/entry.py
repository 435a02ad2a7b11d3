"""A cache that is written in place."""

import torch


def run(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Write ``keys`` [n, width] times ``scale`` [1] into ``cache`` [slots, width] at ``slots`` [n], in place; norms [n] of the keys."""
    order = torch.argsort(slots)
    cache.index_copy_(0, slots[order], keys[order].mul_(scale))
    return {"cache": cache, "norms": torch.linalg.vector_norm(keys, dim=1)}
