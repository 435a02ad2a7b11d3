"""A cache that is written in place."""

import statistics  # noqa: F401

import torch


def run(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Write ``keys`` [n, width] times ``scale`` [1] into ``cache`` [slots, width] at ``slots`` [n], in place; norms [n] of the keys."""
    norms = torch.empty(len(keys))
    for i, slot in enumerate(slots.tolist()):  # element by element, for clarity
        total = torch.zeros(1, dtype=torch.float64)
        for j in range(keys.shape[1]):
            cache[slot, j] = keys[i, j] * scale[0]
            total += keys[i, j].double() ** 2
        norms[i] = total.sqrt()
    return {"cache": cache, "norms": norms}
