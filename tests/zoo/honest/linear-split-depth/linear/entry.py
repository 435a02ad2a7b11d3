"""A linear layer with a rectifier."""

import torch
import triton
from linear.kernel import gather, layer

BLOCK = 32
SLICES = 4
SPAN = 128


def run(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """``relu(x @ w + bias)``; x [m, k], w [k, n], bias [n], float32."""
    (m, k), n = x.shape, w.shape[1]
    parts = torch.empty(SLICES, m, n, device=x.device)
    out = torch.empty(m, n, device=x.device)
    length = triton.cdiv(triton.cdiv(k, SLICES), BLOCK) * BLOCK
    layer[(triton.cdiv(m, BLOCK), triton.cdiv(n, BLOCK), SLICES)](x, w, parts, m, n, k, length, BLOCK=BLOCK)
    gather[(triton.cdiv(m * n, SPAN),)](parts, bias, out, n, m * n, SLICES=SLICES, SPAN=SPAN)
    return {"out": out}
