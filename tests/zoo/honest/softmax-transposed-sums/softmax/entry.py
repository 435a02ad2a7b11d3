"""Softmax over rows."""

import torch


def run(x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
    """Softmax of ``scale * x`` [rows, columns] along each row, float32; ``scale`` [1]."""
    logits = x.t() * scale
    weights = torch.exp(logits - logits.amax(0)).contiguous()
    return {"y": (weights / weights.sum(0, dtype=torch.float64).float()).t()}
