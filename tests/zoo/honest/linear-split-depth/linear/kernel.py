"""The kernels of the linear layer."""

import triton
import triton.language as tl


@triton.jit
def layer(x, w, parts, m, n, k, length, BLOCK: tl.constexpr):
    """Slice ``program_id(2)`` of the depth, ``length`` long, into parts [slices, m, n]."""
    part = tl.program_id(2)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(part * length, (part + 1) * length, BLOCK):
        depth = start + tl.arange(0, BLOCK)
        left = tl.load(x + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        right = tl.load(w + depth[:, None] * n + columns[None, :], mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
        total = tl.dot(left, right, total, input_precision="tf32x3")
    at = part * m * n + rows[:, None] * n + columns[None, :]
    tl.store(parts + at, total, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def gather(parts, bias, out, n, size, SLICES: tl.constexpr, SPAN: tl.constexpr):
    at = tl.program_id(0) * SPAN + tl.arange(0, SPAN)
    inside = at < size
    total = tl.load(bias + at % n, mask=inside, other=0.0)
    for part in tl.static_range(SLICES):
        total += tl.load(parts + part * size + at, mask=inside, other=0.0)
    tl.store(out + at, tl.maximum(total, 0.0), mask=inside)
