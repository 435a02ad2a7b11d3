"""The kernel of the linear layer."""

import triton
import triton.language as tl
from linear.loads import tile


@triton.jit
def layer(x, w, bias, out, m, n, k, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Programs go down ``GROUP`` row tiles before they move on to the next column tile."""
    down, across = tl.cdiv(m, BLOCK), tl.cdiv(n, BLOCK)
    first = tl.program_id(0) // (GROUP * across) * GROUP
    height = tl.minimum(down - first, GROUP)
    place = tl.program_id(0) % (GROUP * across)
    rows = (first + place % height) * BLOCK + tl.arange(0, BLOCK)
    columns = place // height * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in tl.range(0, k, BLOCK, num_stages=2):
        depth = start + tl.arange(0, BLOCK)
        total = tl.dot(tile(x, rows, depth, m, k), tile(w, depth, columns, k, n), total, input_precision="tf32x3")
    total = tl.maximum(total + tl.load(bias + columns, mask=columns < n, other=0.0)[None, :], 0.0)
    tl.store(out + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))
