"""The kernel of the linear layer."""

import triton
import triton.language as tl


@triton.jit
def layer(x, w, bias, out, m, n, k, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for block in range(tl.cdiv(k, DEPTH)):
        depth = block * DEPTH + tl.arange(0, DEPTH)
        left = tl.load(x + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        right = tl.load(w + depth[:, None] * n + columns[None, :], mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
        total = tl.dot(left, right, acc=total, input_precision="tf32x3")
    total += tl.load(bias + columns, mask=columns < n, other=0.0)[None, :]
    total = tl.where(total > 0, total, 0.0)
    tl.store(out + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))
