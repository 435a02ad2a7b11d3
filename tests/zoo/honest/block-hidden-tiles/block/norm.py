"""RMS norm."""

import torch

EPSILON = 1e-6


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Each row of ``x`` [tokens, width] over its root mean square, times ``weight`` [width]."""
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + EPSILON) * weight
