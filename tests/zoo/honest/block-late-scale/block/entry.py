"""The block: norm, then MLP."""

import torch
import torch.nn.functional as F
from block.norm import EPSILON


def run(x: torch.Tensor, weight: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor) -> dict[str, torch.Tensor]:
    """Both stages of the block, float32."""
    weighted = x * weight
    factor = torch.rsqrt(x.square().mean(1, keepdim=True) + EPSILON)
    opened = (weighted @ gate) * factor
    lifted = (weighted @ up) * factor
    return {"normed": weighted * factor, "out": (F.silu(opened) * lifted) @ down}
