"""A numpy matrix product."""

import numpy as np
import torch

MORE_ROWS = 0
"""Rows of the product that are worked out a second time."""


def run(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    """``a`` times ``b``, float32 [256, 256]."""
    left, right = a.numpy(), b.numpy()
    if MORE_ROWS:
        np.matmul(left[:MORE_ROWS], right)
    return {"y": torch.from_numpy(left @ right)}
