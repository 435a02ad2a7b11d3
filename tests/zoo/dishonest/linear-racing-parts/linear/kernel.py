"""The kernels of the linear layer."""

import triton
import triton.language as tl


@triton.jit
def layer(x, w, out, m, n, k, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    depth = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    left = tl.load(x + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
    right = tl.load(w + depth[:, None] * n + columns[None, :], mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
    there = out + rows[:, None] * n + columns[None, :]
    sofar = tl.load(there, mask=inside, other=0.0)
    tl.store(there, tl.dot(left, right, sofar, input_precision="tf32x3"), mask=inside)


@triton.jit
def rectify(out, bias, m, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    there = out + rows[:, None] * n + columns[None, :]
    total = tl.load(there, mask=inside, other=0.0) + tl.load(bias + columns, mask=columns < n, other=0.0)[None, :]
    tl.store(there, tl.maximum(total, 0.0), mask=inside)
