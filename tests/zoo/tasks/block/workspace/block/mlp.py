"""Gated MLP."""

import torch


def gated_mlp(x: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """``(silu(x @ gate) * (x @ up)) @ down`` for ``x`` [tokens, width]; up, gate [width, hidden]; down [hidden, width]."""
    rows = []
    for row in x:
        opened = row @ gate
        rows.append((opened * torch.sigmoid(opened) * (row @ up)) @ down)
    return torch.stack(rows)
