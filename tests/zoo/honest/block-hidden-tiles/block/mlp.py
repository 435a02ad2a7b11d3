"""Gated MLP."""

import torch
import torch.nn.functional as F

TILE = 32


def gated_mlp(x: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """``(silu(x @ gate) * (x @ up)) @ down`` for ``x`` [tokens, width]; up, gate [width, hidden]; down [hidden, width]."""
    out = torch.zeros(x.shape[0], down.shape[1])
    for gate_tile, up_tile, down_tile in zip(gate.split(TILE, 1), up.split(TILE, 1), down.split(TILE, 0)):
        out.addmm_(F.silu(x @ gate_tile).mul_(x @ up_tile), down_tile)
    return out
