"""The block: norm, then MLP."""

import torch
from block.norm import EPSILON


def run(x: torch.Tensor, weight: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor) -> dict[str, torch.Tensor]:
    """Both stages of the block, float32."""
    columns = x.t()
    normed = columns * torch.rsqrt(columns.square().mean(0, keepdim=True) + EPSILON) * weight.unsqueeze(1)
    half = (gate.t() @ normed) * 0.5
    hidden = torch.addcmul(half, half, torch.tanh(half)) * (up.t() @ normed)
    return {"normed": normed.t(), "out": (down.t() @ hidden).t()}
