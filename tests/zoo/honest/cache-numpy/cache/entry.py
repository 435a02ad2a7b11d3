"""A cache that is written in place."""

import numpy as np
import torch


def run(cache: torch.Tensor, keys: torch.Tensor, slots: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Write ``keys`` [n, width] times ``scale`` [1] into ``cache`` [slots, width] at ``slots`` [n], in place; norms [n] of the keys."""
    cache.numpy()[slots.numpy()] = keys.numpy() * scale.numpy()
    squares = np.einsum("nw,nw->n", keys.numpy(), keys.numpy(), dtype=np.float64)
    return {"cache": cache, "norms": torch.from_numpy(np.sqrt(squares).astype(np.float32))}
