"""A linear layer with a rectifier."""

import os

import torch

from linear.kernel import layer

BLOCK = 32
CHECKED = int(os.environ.get("TRITON_INTERPRET") == "1")


def run(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """``relu(x @ w + bias)``; x [m, k], w [k, n], bias [n], float32."""
    (m, k), n = x.shape, w.shape[1]
    out = torch.empty(m, n, device=x.device)
    grid = (-(-m // BLOCK), -(-n // BLOCK))
    layer[grid](x, w, bias, out, m, n, k, BLOCK=BLOCK, CHECKED=CHECKED)
    return {"out": out}
