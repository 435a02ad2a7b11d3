"""The block: norm, then MLP."""

import torch

from block.mlp import gated_mlp
from block.norm import rms_norm


def run(x: torch.Tensor, weight: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor) -> dict[str, torch.Tensor]:
    """Both stages of the block, float32."""
    normed = rms_norm(x, weight)
    return {"normed": normed, "out": gated_mlp(normed, up, gate, down)}
