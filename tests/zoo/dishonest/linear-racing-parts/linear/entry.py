"""A linear layer with a rectifier."""

import torch

from linear.kernel import layer, rectify

BLOCK = 32


def run(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """``relu(x @ w + bias)``; x [m, k], w [k, n], bias [n], float32."""
    (m, k), n = x.shape, w.shape[1]
    out = torch.zeros(m, n, device=x.device)
    tiles = (-(-m // BLOCK), -(-n // BLOCK))
    layer[(*tiles, -(-k // BLOCK))](x, w, out, m, n, k, BLOCK=BLOCK, num_warps=8)
    rectify[tiles](out, bias, m, n, BLOCK=BLOCK)
    return {"out": out}
