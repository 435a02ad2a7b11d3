"""Softmax over rows."""

import torch


def run(x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Softmax of ``scale * x`` [rows, columns] along each row, float32; ``scale`` [1]."""
    logits = x * scale
    weights = torch.exp(logits - logits.amax(1, keepdim=True))
    return {"y": weights.mul_((1 / weights.sum(1, keepdim=True, dtype=torch.float64)).float())}
