"""Gated MLP."""

import torch
from block.workspace import workspace


def gated_mlp(x: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """``(silu(x @ gate) * (x @ up)) @ down`` for ``x`` [tokens, width]; up, gate [width, hidden]; down [hidden, width]."""
    opened, lifted = workspace(x.shape[0], up.shape[1])
    torch.mm(x, gate, out=opened)
    torch.mm(x, up, out=lifted)
    lifted.mul_(opened)
    lifted.mul_(opened.sigmoid_())
    return lifted @ down
