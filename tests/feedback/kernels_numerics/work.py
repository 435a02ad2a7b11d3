"""Kernels and entries of the numerics tests: the workspace's one module."""

import torch
import triton
import triton.language as tl

NAMES: tuple[str, ...] = ()
"""What ``uncovered`` chooses from; the test appends its own."""


@triton.jit
def recurrence(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def scan_kernel(a_ptr, b_ptr, o_ptr, R: tl.constexpr, N: tl.constexpr, reverse: tl.constexpr):
    at = tl.arange(0, R)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(a_ptr + at) * 1.1
    _, s = tl.associative_scan((a, tl.load(b_ptr + at)), 1, recurrence, reverse=reverse)  # SCAN
    tl.store(o_ptr + at, s)


def scans(a, b):
    forth, back = torch.empty_like(b), torch.empty_like(b)
    scan_kernel[(1,)](a, b, forth, R=a.shape[0], N=a.shape[1], reverse=False)
    scan_kernel[(1,)](a, b, back, R=a.shape[0], N=a.shape[1], reverse=True)
    return {"forth": forth, "back": back}


@triton.jit
def wide(a, b):
    return (a.to(tl.float16) + b.to(tl.float16)).to(tl.float32)


@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def reduce_kernel(x_ptr, o_ptr, top_ptr, sum_ptr, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at) * 1.1
    tl.store(o_ptr + tl.arange(0, N), tl.reduce(x, 1, wide))  # REDUCE
    tl.store(top_ptr + tl.arange(0, N), tl.reduce(x, 1, larger))
    tl.store(sum_ptr + tl.arange(0, N), tl.sum(x.to(tl.bfloat16), 1).to(tl.float32) + tl.max(x, 1))


def reduces(x):
    o, top, total = (torch.empty(x.shape[0]) for _ in range(3))
    reduce_kernel[(1,)](x, o, top, total, N=x.shape[0])
    return {"o": o, "top": top, "total": total}


@triton.jit
def add_kernel(x_ptr, where_ptr, total_ptr, old_ptr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    x = tl.load(x_ptr + i).to(tl.float16).to(tl.float32)
    old = tl.atomic_add(total_ptr + tl.load(where_ptr + i), x, mask=x > -1.0)  # ATOMIC
    tl.store(old_ptr + i, old, mask=x > -1.0)


def adds(x, where):
    total, old = torch.zeros(8), torch.zeros_like(x)
    add_kernel[(4,)](x, where.to(torch.int32), total, old, N=x.numel() // 4)
    return {"total": total, "old": old}


@triton.jit
def to_fp8_kernel(x_ptr, y_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y_ptr + i, tl.load(x_ptr + i).to(y_ptr.dtype.element_ty))  # NARROW


@triton.jit
def from_kernel(y_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(y_ptr + i).to(tl.float32))


def through(x, dtype):
    y, o = torch.empty(x.shape, dtype=dtype), torch.empty_like(x)
    to_fp8_kernel[(1,)](x, y, N=x.numel())
    from_kernel[(1,)](y, o, N=x.numel())
    return o


def formats(x):
    names = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16")
    return {name: through(x, getattr(torch, name)) for name in names}


@triton.jit
def two_casts_kernel(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i).to(tl.float16)  # SLIGHT
    y = x.to(tl.float32) * 3.0
    z = y.to(tl.bfloat16).to(tl.float32)  # COARSE
    tl.store(o_ptr + i, z + 1.0)


def two_casts(x):
    o = torch.empty_like(x)
    two_casts_kernel[(1,)](x, o, N=x.numel())
    return {"o": o}


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, o_ptr, L, scale, D: tl.constexpr, B: tl.constexpr):
    r, d = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, D)
    q = tl.load(q_ptr + r[:, None] * D + d[None, :])
    m, weight = tl.full((B,), float("-inf"), tl.float32), tl.zeros((B,), tl.float32)
    acc = tl.zeros((B, D), tl.float32)
    for start in range(0, L, B):
        c = start + tl.arange(0, B)
        k, v = tl.load(k_ptr + c[:, None] * D + d[None, :]), tl.load(v_ptr + c[:, None] * D + d[None, :])
        s = tl.dot(q, tl.trans(k)) * scale
        top = tl.maximum(m, tl.max(s, 1))
        p, alpha = tl.exp(s - top[:, None]), tl.exp(m - top)
        weight = weight * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(tl.bfloat16), v)  # PROBABILITIES
        m = top
    tl.store(o_ptr + r[:, None] * D + d[None, :], (acc / weight[:, None]).to(tl.bfloat16).to(tl.float32))  # OUTPUT


def attention(q, k, v):
    o = torch.empty_like(q)
    narrow = [x.to(torch.bfloat16) for x in (q, k, v)]
    attention_kernel[(q.shape[0] // 64,)](*narrow, o, q.shape[0], q.shape[1] ** -0.5, D=q.shape[1], B=64)
    return {"o": o}


@triton.jit
def fancy(x_ptr, o_ptr, what: tl.constexpr, N: tl.constexpr):  # noqa: C901  # one branch for each operation
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i) * 1.1
    y = x
    if what == "bitcast":
        y = x.to(tl.int32, bitcast=True).to(tl.float32, bitcast=True)
    elif what == "sort":
        y = tl.sort(x)
    elif what == "atomic_max":
        tl.atomic_max(o_ptr + i, x)
    elif what == "atomic_cas":
        y = tl.atomic_cas(o_ptr + i, x, x)
    elif what == "inline_asm":
        y = tl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
    elif what == "atomic_xchg":
        tl.atomic_xchg(o_ptr + i, x)
    elif what == "bf16 sum":
        tl.atomic_add(o_ptr.to(tl.pointer_type(tl.bfloat16)) + i, x.to(tl.bfloat16))
    elif what == "fp8e4b15":
        y = x.to(tl.float8e4b15).to(tl.float32)
    elif what == "arithmetic in fp8e5":
        y = (x.to(tl.float8e5) + x.to(tl.float8e5)).to(tl.float32)
    elif what == "dot_scaled":
        a = tl.reshape(x.to(tl.float8e5), (32, 32))
        y = tl.reshape(tl.dot_scaled(a, None, "e5m2", a, None, "e5m2"), (N,))
    if what != "atomic_max" and what != "atomic_xchg":
        tl.store(o_ptr + i, y)


def uncovered(x, what):
    o = torch.zeros_like(x)
    fancy[(1,)](x, o, what=NAMES[int(what[0])], N=x.numel())
    return {"o": o}


@triton.jit
def gather_kernel(x_ptr, o_ptr, N: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, shape=[N, N], strides=[N, 1], block_shape=[1, N])
    o = tl.make_tensor_descriptor(o_ptr, shape=[N, N], strides=[N, 1], block_shape=[1, N])
    rows = tl.arange(0, 8)
    o.scatter(x.gather(rows, 0), rows, 0)


def gathers(x):
    o = torch.zeros_like(x)
    gather_kernel[(1,)](x, o, N=x.shape[0])
    return {"o": o}


def host(x):
    o = torch.empty_like(x)
    from_kernel[(1,)](x, o, N=x.numel())
    return {"o": o * 2}
