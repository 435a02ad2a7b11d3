"""A cache that is written in place."""

import torch


def run(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Write ``keys`` [n, width] times ``scale`` [1] into ``cache`` [slots, width] at ``slots`` [n], in place; norms [n] of the keys."""
    for key, slot in zip(keys.unbind(), slots.tolist()):
        torch.mul(key, scale, out=cache[slot])
    return {"cache": cache, "norms": torch.linalg.vector_norm(keys, dim=1)}
