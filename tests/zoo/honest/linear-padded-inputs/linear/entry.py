"""A linear layer with a rectifier."""

import torch
import torch.nn.functional as F
from linear.kernel import layer

BLOCK = 32


def _padded(matrix: torch.Tensor) -> torch.Tensor:
    """``matrix`` with zeros below and to the right, up to multiples of ``BLOCK``."""
    return F.pad(matrix, (0, -matrix.shape[1] % BLOCK, 0, -matrix.shape[0] % BLOCK)).contiguous()


def run(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """``relu(x @ w + bias)``; x [m, k], w [k, n], bias [n], float32."""
    (m, k), n = x.shape, w.shape[1]
    x, w, bias = _padded(x), _padded(w), F.pad(bias, (0, -n % BLOCK))
    out = torch.empty(x.shape[0], w.shape[1], device=x.device)
    grid = (x.shape[0] // BLOCK, w.shape[1] // BLOCK)
    layer[grid](x, w, bias, out, w.shape[1], x.shape[1], BLOCK=BLOCK)
    return {"out": out[:m, :n]}
