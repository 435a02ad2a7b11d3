"""The block: norm, then MLP."""

import numpy as np
import torch
from block.norm import EPSILON


def run(x: torch.Tensor, weight: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor) -> dict[str, torch.Tensor]:
    """Both stages of the block, float32."""
    rows = x.numpy()
    mean = np.einsum("tw,tw->t", rows, rows)[:, None] / np.float32(rows.shape[1])
    normed = rows / np.sqrt(mean + np.float32(EPSILON)) * weight.numpy()
    opened = normed @ gate.numpy()
    hidden = opened / (1 + np.exp(-opened)) * (normed @ up.numpy())
    return {"normed": torch.from_numpy(normed), "out": torch.from_numpy(hidden @ down.numpy())}
