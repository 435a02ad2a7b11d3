"""A linear layer with a rectifier."""

import torch
import triton
from linear.kernel import layer
from linear.tiles import tile


def run(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """``relu(x @ w + bias)``; x [m, k], w [k, n], bias [n], float32."""
    (m, k), n = x.shape, w.shape[1]
    rows, columns, depth = tile(m), tile(n), tile(k)
    out = torch.empty(m, n, device=x.device)
    grid = (triton.cdiv(m, rows), triton.cdiv(n, columns))
    layer[grid](x, w, bias, out, m, n, k, ROWS=rows, COLUMNS=columns, DEPTH=depth, num_warps=8 if rows * columns == 4096 else 4)
    return {"out": out}
