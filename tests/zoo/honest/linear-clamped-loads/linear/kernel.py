"""The kernel of the linear layer."""

import triton
import triton.language as tl


@triton.jit
def layer(x, w, bias, out, m, n, k, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    depth = tl.arange(0, BLOCK)
    lefts = x + (rows % m)[:, None] * k + depth[None, :]
    rights = w + depth[:, None] * n + (columns % n)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for left_over in range(k, 0, -BLOCK):
        left = tl.load(lefts, mask=depth[None, :] < left_over, other=0.0)
        right = tl.load(rights, mask=depth[:, None] < left_over, other=0.0)
        total += tl.dot(left, right, input_precision="tf32x3")
        lefts += BLOCK
        rights += BLOCK * n
    total = tl.maximum(total + tl.load(bias + columns % n)[None, :], 0.0)
    tl.store(out + rows[:, None] * n + columns[None, :], total, mask=(rows < m)[:, None] & (columns < n)[None, :])
