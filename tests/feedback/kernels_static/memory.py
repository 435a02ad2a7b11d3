"""Accesses of several widths, offsets that may not fit 32 bits, and a cubin's source."""

import torch
import triton
import triton.language as tl


@triton.jit
def copies(x_ptr, y_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x_ptr + i, mask=i < n, other=1.0)  # wide
    w = tl.load(x_ptr + i * 2)  # apart

    tl.store(y_ptr + i, v + w, mask=i < n)  # stores


@triton.jit(do_not_specialize=["stride"])
def unseen(x_ptr, y_ptr, stride, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x_ptr + tl.program_id(0) * stride + i)  # could be wide
    tl.store(y_ptr + tl.program_id(0) * B + i, v)


@triton.jit
def rows(x_ptr, y_ptr, index_ptr, stride, columns, B: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, B)
    inside = column < columns
    v = tl.load(x_ptr + row * stride + column, mask=inside)  # by row
    other = tl.load(index_ptr + row)
    v += tl.load(x_ptr + other * stride + column, mask=inside)  # by index
    v += tl.load(x_ptr + other.to(tl.int64) * stride + column, mask=inside)  # by long index
    guarded = tl.load(index_ptr + 1 + row)
    v += tl.load(x_ptr + guarded * 2 + column, mask=inside & (guarded < 100) & (guarded >= 0))  # guarded
    tl.store(y_ptr + row.to(tl.int64) * stride + column, v, mask=inside)


@triton.jit
def walks(x_ptr, y_ptr, n, step, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    far = i
    total = tl.zeros((B,), tl.float32)
    double = 1
    for _ in range(n):
        total += tl.load(x_ptr + far)  # walks
        total += tl.load(x_ptr + double)  # doubles
        far += step  # steps
        double = double * 2
    tl.store(y_ptr + i, total)


def copied(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Wide, strided by 2, and a store."""
    y = torch.empty(4096)
    copies[(4,)](x, y, 4096, B=1024)
    return {"y": y}


def unspecialised(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Rows of 512 whose stride the compiler may not look at."""
    y = torch.empty(8, 512)
    unseen[(8,)](x, y, 512, B=512)
    return {"y": y}


def by_rows(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """One program a row; three ways to another row."""
    y = torch.empty_like(x)
    index = torch.empty(len(x) + 1, dtype=torch.int32)
    rows[(len(x),)](x, y, index, x.stride(0), x.shape[1], B=128)
    return {"y": y}


def walked(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """A loop that adds the same step, and one that doubles."""
    y = torch.empty(128)
    walks[(1,)](x, y, 1000, 3_000_000, B=128)
    return {"y": y}
