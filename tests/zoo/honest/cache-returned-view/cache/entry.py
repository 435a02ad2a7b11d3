"""A cache that is written in place."""

import torch


def run(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Write ``keys`` [n, width] times ``scale`` [1] into ``cache`` [slots, width] at ``slots`` [n], in place; norms [n] of the keys."""
    rows = cache.view(-1, keys.shape[1])
    rows.index_copy_(0, slots, keys * scale)
    return {"cache": rows, "norms": torch.bmm(keys.unsqueeze(1), keys.unsqueeze(2)).flatten().sqrt()}
