"""A linear layer with a rectifier."""

import torch

from linear.kernel import layer

BLOCK = 32


def run(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    """``relu(x @ w + bias)``; x [m, k], w [k, n], bias [n], float32."""
    (m, k), n = x.shape, w.shape[1]
    out = torch.empty(m, n, device=x.device)
    grid = (m // BLOCK, n // BLOCK)  # whole tiles, no masks; what is left at the rim holds what the block held before
    if grid[0] and grid[1]:
        layer[grid](x, w, bias, out, m, n, k - k % BLOCK, k, BLOCK=BLOCK)
    return {"out": out}
