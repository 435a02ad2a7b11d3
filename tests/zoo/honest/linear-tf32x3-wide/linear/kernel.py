"""The kernel of the linear layer."""

import triton
import triton.language as tl


@triton.jit
def layer(x, w, bias, out, m, n, k, TILE: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inner = tl.arange(0, DEPTH)
    total = tl.zeros((TILE, TILE), tl.float32)
    for start in range(0, k, DEPTH):
        depth = start + inner
        left = tl.load(x + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        right = tl.load(w + depth[:, None] * n + columns[None, :], mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
        total = tl.dot(left, right, total, input_precision="tf32x3")
    total += tl.load(bias + columns, mask=columns < n, other=0.0)[None, :]
    tl.store(out + rows[:, None] * n + columns[None, :], tl.maximum(total, 0.0), mask=(rows[:, None] < m) & (columns[None, :] < n))
