"""RMS norm."""

import torch

EPSILON = 1e-6


def rms_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Each row of ``x`` [tokens, width] over its root mean square, times ``weight`` [width]."""
    squares = torch.bmm(x.unsqueeze(1), x.unsqueeze(2)).squeeze(2)
    return x / torch.sqrt(squares / x.shape[1] + EPSILON) * weight
