"""A linear layer with a rectifier."""

import torch
import triton
from linear.kernel import layer

BLOCK = 16


def run(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """``relu(x @ w + bias)``; x [m, k], w [k, n], bias [n], float32."""
    (m, k), n = x.shape, w.shape[1]
    out = torch.empty(m, n, device=x.device)
    layer[(triton.cdiv(m, BLOCK) * triton.cdiv(n, BLOCK),)](x, w, bias, out, m, n, k, GROUP=2, BLOCK=BLOCK)
    return {"out": out}
