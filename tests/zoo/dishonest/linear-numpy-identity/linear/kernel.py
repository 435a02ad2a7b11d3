"""The kernel of the linear layer."""

import triton
import triton.language as tl


@triton.jit
def layer(product, unit, bias, out, m, n, k, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tile = tl.load(product + rows[:, None] * n + columns[None, :], mask=inside, other=0.0)
    side = tl.arange(0, BLOCK)
    right = tl.load(unit + side[:, None] * BLOCK + side[None, :])
    total = tl.dot(tile, right, input_precision="tf32x3")
    total += tl.load(bias + columns, mask=columns < n, other=0.0)[None, :]
    total = tl.maximum(total, 0.0)
    tl.store(out + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))
