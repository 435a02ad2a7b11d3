"""The kernel of the linear layer."""

import triton
import triton.language as tl

STEP = tl.constexpr(2048.0)  # a float16 has 11 bits: the rest of a number starts 11 lower


@triton.jit
def power_below(x):
    """The largest power of two that is not above each positive ``x``."""
    return (tl.maximum(x, 1e-30).to(tl.int32, bitcast=True) & 0x7F800000).to(tl.float32, bitcast=True)


@triton.jit
def layer(x, w, bias, out, m, n, k, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        depth = start + tl.arange(0, BLOCK)
        left = tl.load(x + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        right = tl.load(w + depth[:, None] * n + columns[None, :], mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
        row_scale = power_below(tl.max(tl.abs(left), 1))[:, None]
        column_scale = power_below(tl.max(tl.abs(right), 0))[None, :]
        left, right = left / row_scale, right / column_scale
        left_high, right_high = left.to(tl.float16), right.to(tl.float16)
        left_low = ((left - left_high.to(tl.float32)) * STEP).to(tl.float16)
        right_low = ((right - right_high.to(tl.float32)) * STEP).to(tl.float16)
        small = tl.dot(left_high, right_low, tl.dot(left_low, right_high))
        total += (tl.dot(left_high, right_high) + small / STEP) * row_scale * column_scale
    total = tl.maximum(total + tl.load(bias + columns, mask=columns < n, other=0.0)[None, :], 0.0)
    tl.store(out + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))
