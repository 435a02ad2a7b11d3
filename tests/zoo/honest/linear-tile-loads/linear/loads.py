"""Loads of tiles."""

import triton
import triton.language as tl


@triton.jit
def tile(matrix, rows, columns, height, width):
    """``matrix`` [height, width] at ``rows`` and ``columns``; 0 outside."""
    inside = (rows < height)[:, None] & (columns < width)[None, :]
    return tl.load(matrix + rows[:, None] * width + columns[None, :], mask=inside, other=0.0)
