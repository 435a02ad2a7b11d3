"""RMS norm."""

import torch

EPSILON = 1e-6


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Each row of ``x`` [tokens, width] over its root mean square, times ``weight`` [width]."""
    rows = []
    for row in x:
        rows.append(row / torch.sqrt((row * row).mean() + EPSILON) * weight)
    return torch.stack(rows)
