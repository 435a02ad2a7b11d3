"""A cache that is written in place."""

import torch

FEW = 4


def run(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Write ``keys`` [n, width] times ``scale`` [1] into ``cache`` [slots, width] at ``slots`` [n], in place; norms [n] of the keys."""
    if len(keys) <= FEW:
        for key, slot in zip(keys, slots.tolist()):
            cache[slot].copy_(key).mul_(scale)
    else:
        cache.index_copy_(0, slots, keys * scale)
    return {"cache": cache, "norms": keys.norm(dim=1)}
