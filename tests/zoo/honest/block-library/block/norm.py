"""RMS norm."""

import torch
import torch.nn.functional as F

EPSILON = 1e-6


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Each row of ``x`` [tokens, width] over its root mean square, times ``weight`` [width]."""
    return F.rms_norm(x, weight.shape, weight, EPSILON)
