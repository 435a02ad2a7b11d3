"""A linear layer with a rectifier."""

import torch

from linear.kernel import layer

BLOCK = 32


def run(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """``relu(x @ w + bias)``; x [m, k], w [k, n], bias [n], float32."""
    (m, k), n = x.shape, w.shape[1]
    out = torch.empty(m, n, device=x.device)
    grid = (-(-m // BLOCK), -(-n // BLOCK))
    precision = "tf32" if x.is_cuda else "tf32x3"  # fastest supported form
    layer[grid](x, w, bias, out, m, n, k, BLOCK=BLOCK, PRECISION=precision)
    return {"out": out}
