"""Gated MLP."""

import torch


def gated_mlp(x: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """``(silu(x @ gate) * (x @ up)) @ down`` for ``x`` [tokens, width]; up, gate [width, hidden]; down [hidden, width]."""
    opened = x @ gate
    return (opened * torch.sigmoid(opened) * (x @ up)) @ down
