"""RMS norm."""

import torch

EPSILON = 1e-6


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Each row of ``x`` [tokens, width] over its root mean square, times ``weight`` [width]."""
    largest = x.abs().amax(1, keepdim=True).clamp_(min=1e-15)
    ratio = x / largest
    return ratio * torch.rsqrt(ratio.square().mean(1, keepdim=True) + EPSILON / largest / largest) * weight
