"""A linear layer with a rectifier."""

import torch
import triton
from linear.kernel import layer

TILE = 64


def run(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """``relu(x @ w + bias)``; x [m, k], w [k, n], bias [n], float32."""
    (m, k), n = x.shape, w.shape[1]
    out = torch.empty(m, n, device=x.device)
    grid = (triton.cdiv(m, TILE), triton.cdiv(n, TILE))
    layer[grid](x, w, bias, out, m, n, k, TILE=TILE, DEPTH=16, num_warps=8)
    return {"out": out}
