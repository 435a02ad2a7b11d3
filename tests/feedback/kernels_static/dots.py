"""Dots at each precision, in helper functions, unrolled, and in an expression over several lines."""

import torch
import triton
import triton.language as tl


@triton.jit
def square(a_ptr, b_ptr, c_ptr, PRECISION: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tile = i[:, None] * N + i[None, :]
    c = tl.dot(tl.load(a_ptr + tile), tl.load(b_ptr + tile), input_precision=PRECISION)
    tl.store(c_ptr + tile, c)


@triton.jit
def blocks(
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rm[:, None] * sam + (k + rk)[None, :] * sak)
        b = tl.load(b_ptr + (k + rk)[:, None] * sbk + rn[None, :] * sbn)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    tl.store(c_ptr + rm[:, None] * scm + rn[None, :] * scn, acc)


@triton.jit
def crowded(a_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tile = i[:, None] * N + i[None, :]
    a = tl.load(a_ptr + tile)
    c = tl.cumsum(a, axis=1)
    tl.store(c_ptr + tile, a * c)


@triton.jit
def multiply(a, b, PRECISION: tl.constexpr):
    return tl.dot(a, b, input_precision=PRECISION)


@triton.jit
def nested(a_ptr, c_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tile = i[:, None] * N + i[None, :]
    a = tl.load(a_ptr + tile)
    c = tl.zeros((N, N), dtype=tl.float32)
    for _ in range(n):
        c = (
            c * 0.5
            + tl.dot(a, a)
        )  # fmt: skip
        c = multiply(a, c, "ieee")
        c = multiply(a, c, "tf32")
        for _ in tl.static_range(2):
            c = tl.dot(a, c)
        a = a + tl.sum(c, axis=1)[:, None]
    tl.store(c_ptr + tile, c)


@triton.jit
def mixed(a_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tile = i[:, None] * N + i[None, :]
    a = tl.load(a_ptr + tile)
    c = a
    for step in tl.static_range(2):
        c = tl.dot(a, c, input_precision="ieee" if step == 0 else "tf32")
    tl.store(c_ptr + tile, c)


def one_dot_each(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    """A 64×64×64 dot at four precisions; the first launch is repeated."""
    c = torch.empty(64, 64)
    for precision in ("ieee", "tf32", "tf32x3", "bf16x3", "ieee"):
        square[(1,)](a, b, c, PRECISION=precision, N=64)
    return {"c": c}


def blocks_of_32(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    """The loop of a matmul in blocks of 64×64×32 at three precisions."""
    c = torch.empty(64, 64)
    for precision in ("ieee", "tf32", "tf32x3"):
        blocks[(1, 1)](a, b, c, 64, 64, 64, 64, 1, 64, 1, 64, 1, BM=64, BN=64, BK=32, PRECISION=precision)
    return {"c": c}


def spilling(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    """Blocks of 128×256×64 at four warps, which spill, and at eight, which do not."""
    c = torch.empty(128, 256)
    for warps in (4, 8):
        blocks[(1, 1)](a, b, c, 128, 256, 64, 64, 1, 256, 1, 256, 1, BM=128, BN=256, BK=64, PRECISION="tf32", num_warps=warps)
    return {"c": c}


def spilling_in_library_code(a: torch.Tensor) -> dict[str, torch.Tensor]:
    """Too few registers for a scan, whose code is in Triton's library."""
    c = torch.empty(64, 64)
    crowded[(1,)](a, c, N=64, num_warps=1, maxnreg=32)
    return {"c": c}


def in_helpers(a: torch.Tensor) -> dict[str, torch.Tensor]:
    """One line of a helper is a tensor-core dot for one caller and an FMA dot for another."""
    c = torch.empty(64, 64)
    nested[(1,)](a, c, 5, N=64)
    return {"c": c}


def unrolled_at_two_precisions(a: torch.Tensor) -> dict[str, torch.Tensor]:
    """One tl.dot in the source, two in the code."""
    c = torch.empty(64, 64)
    mixed[(1,)](a, c, N=64)
    return {"c": c}
