"""Kernels that do not compile, and entries that do not end well."""

import torch
import triton
import triton.language as tl


@triton.jit
def sound(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * 2.0)


@triton.jit
def misfit(x, N: tl.constexpr):
    half = tl.arange(0, N // 2)
    return x + half


@triton.jit
def refused_by_triton(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x_ptr + i, misfit(tl.load(x_ptr + i), N))


@triton.jit
def refused_by_ptxas(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = tl.inline_asm_elementwise("no.such.instruction $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(x_ptr + i, y)


def two_refused(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Two kernels that cannot be compiled, one of them twice, then one that can."""
    for _ in range(2):
        refused_by_triton[(1,)](x, N=128)
    refused_by_ptxas[(1,)](x, N=128)
    sound[(1,)](x, N=128)
    return {"x": x}


def raises_midway(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """One launch, then an exception, then a launch that is never reached."""
    sound[(1,)](x, N=512)
    raise RuntimeError(f"no plan for {len(x)} elements")
    sound[(1,)](x, N=64)
