"""A cache that is written in place."""

import torch


def run(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Write ``keys`` [n, width] times ``scale`` [1] into ``cache`` [slots, width] at ``slots`` [n], in place; norms [n] of the keys."""
    norms = torch.empty(len(keys))
    for i, slot in enumerate(slots.tolist()):
        cache[slot] = keys[i] * scale
        norms[i] = keys[i].norm()
    return {"cache": cache, "norms": norms}
