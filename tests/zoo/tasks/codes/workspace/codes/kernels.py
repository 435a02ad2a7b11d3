"""Kernels of the product of codes."""

import triton
import triton.language as tl


@triton.jit
def quantise(x, scale, codes, k, BLOCK: tl.constexpr):
    """Scale and codes of a row. One program per row."""
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * k + at, mask=at < k, other=0.0)
    step = tl.max(tl.abs(value), axis=0) / 127.0
    tl.store(scale + row, step)
    tl.store(codes + row * k + at, (value / step).to(tl.int8), mask=at < k)


@triton.jit
def multiply(codes, weight, sums, m, n, k, BLOCK: tl.constexpr):
    """Sums of products over k, in int32. One program per tile."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.int32)
    for start in range(0, k, BLOCK):
        depth = start + tl.arange(0, BLOCK)
        left = tl.load(codes + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0)
        right = tl.load(weight + columns[None, :] * k + depth[:, None], mask=(columns[None, :] < n) & (depth[:, None] < k), other=0)
        total = tl.dot(left, right, total, out_dtype=tl.int32)
    tl.store(sums + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))
