"""The block: norm, then MLP."""

import torch
from block.mlp import gated_mlp
from block.norm import rms_norm

TOKENS = 16


def run(x: torch.Tensor, weight: torch.Tensor, up: torch.Tensor, gate: torch.Tensor, down: torch.Tensor) -> dict[str, torch.Tensor]:
    """Both stages of the block, float32."""
    normed, out = torch.empty_like(x), torch.empty(x.shape[0], down.shape[1])
    for start in range(0, x.shape[0], TOKENS):
        tokens = slice(start, start + TOKENS)
        normed[tokens] = rms_norm(x[tokens], weight)
        out[tokens] = gated_mlp(normed[tokens], up, gate, down)
    return {"normed": normed, "out": out}
