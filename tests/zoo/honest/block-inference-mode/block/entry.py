"""The block: norm, then MLP."""

import torch
import torch.nn.functional as F
from block.norm import EPSILON


@torch.inference_mode()
def run(x: torch.Tensor, weight: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor) -> dict[str, torch.Tensor]:
    """Both stages of the block, float32."""
    normed = F.rms_norm(x, weight.shape, weight, EPSILON)
    hidden = F.silu(normed @ gate, inplace=True).mul_(normed @ up)
    return {"normed": normed, "out": hidden @ down}
