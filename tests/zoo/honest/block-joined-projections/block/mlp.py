"""Gated MLP."""

import torch
import torch.nn.functional as F


def gated_mlp(x: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """``(silu(x @ gate) * (x @ up)) @ down`` for ``x`` [tokens, width]; up, gate [width, hidden]; down [hidden, width]."""
    opened, lifted = (x @ torch.cat((gate, up), 1)).chunk(2, 1)
    return (F.silu(opened) * lifted) @ down
