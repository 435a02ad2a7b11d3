"""The kernel of the linear layer."""

import triton
import triton.language as tl


@triton.jit
def layer(x, w, bias, out, n, k, BLOCK: tl.constexpr):
    """All sides are multiples of ``BLOCK``."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        depth = start + tl.arange(0, BLOCK)
        left = tl.load(x + rows[:, None] * k + depth[None, :])
        right = tl.load(w + depth[:, None] * n + columns[None, :])
        total = tl.dot(left, right, total, input_precision="tf32x3")
    total = tl.maximum(total + tl.load(bias + columns)[None, :], 0.0)
    tl.store(out + rows[:, None] * n + columns[None, :], total)
