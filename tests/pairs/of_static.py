"""Kernels that compile to something worse: spills, dots off the tensor cores, narrow accesses, short offsets, too much shared memory."""

import random
import textwrap
from collections.abc import Callable
from typing import Any

from tests.pairs.pair import Pair

_HEAD = '"""A kernel."""\n\nimport torch\nimport triton\nimport triton.language as tl\n\n'
_NAMES = ("product", "project", "mix", "blend", "gather_rows", "apply", "stage")
_TILES = ("block", "tile", "part", "piece")


def pair(seed: int) -> Pair:
    """One of eight families; names, sizes, targets and where the lines stand are drawn."""
    rng = random.Random(seed)
    return _FAMILIES[seed % len(_FAMILIES)](rng)


def _pair(
    rng: random.Random,
    body: str,
    edges: dict[str, str],
    kinds: tuple[str, ...],
    mark: str,
    about: str,
    arguments: dict[str, Any] | None = None,
) -> Pair:
    """``body`` holds each text of ``edges`` once; the faulty twin has the other one. ``mark``: "" for any line of the kernel's body."""
    padding = "".join(f"SETTING_{n} = {rng.randrange(100)}\n" for n in range(rng.randrange(12)))
    healthy = faulty = _HEAD + padding + textwrap.dedent(body)
    for right, wrong in edges.items():
        assert healthy.count(right) == 1, right
        faulty = faulty.replace(right, wrong)
    text = faulty.splitlines()
    first = next(n for n, line in enumerate(text, 1) if line.startswith("@triton.jit"))
    last = next(n for n, line in enumerate(text, 1) if line.startswith("def run"))
    lines = [n for n, line in enumerate(text, 1) if mark in line] if mark else list(range(first + 1, last))
    assert lines, mark
    places = "|".join(f"work/entry.py:{line}" for line in lines)
    trees = [{"work/__init__.py": b"", "work/entry.py": one.encode()} for one in (faulty, healthy)]
    return Pair("static", trees[0], trees[1], kinds, f"^({places}): ", arguments or {}, about)


def _matmul(rng: random.Random, tile: tuple[int, int, int], half: bool, options: str, precision: str) -> str:
    name, part = rng.choice(_NAMES), rng.choice(_TILES)
    m, n, k = tile
    cast = ".half()" if half else ""
    return f"""
    @triton.jit
    def {name}(x, w, y, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):  # kernel
        row = tl.program_id(0) * M + tl.arange(0, M)
        column = tl.program_id(1) * N + tl.arange(0, N)
        depth = tl.arange(0, K)
        {part} = tl.zeros((M, N), tl.float32)
        for start in range(0, k, K):
            left = tl.load(x + row[:, None] * k + (start + depth)[None, :])
            right = tl.load(w + (start + depth)[:, None] * n + column[None, :])
            {part} = tl.dot(left, right, {part}, input_precision="{precision}")  # multiplies
        tl.store(y + row[:, None] * n + column[None, :], {part})


    def run(x: torch.Tensor, w: torch.Tensor) -> dict[str, torch.Tensor]:
        (m, k), n = x.shape, w.shape[1]
        y = torch.empty(m, n)
        {name}[(m // {m}, n // {n})](x{cast}, w{cast}, y, m, n, k, M={m}, N={n}, K={k}, {options})
        return {{"y": y}}
    """


def _few_warps(rng: random.Random) -> Pair:
    tile = rng.choice(((128, 256, 64), (256, 128, 64), (128, 256, 32)))
    body = _matmul(rng, tile, True, "num_warps=8", "tf32")
    return _pair(rng, body, {"num_warps=8": f"num_warps={rng.choice((2, 4))}"}, ("slower",), "", "too few warps for the tile")


def _large_tile(rng: random.Random) -> Pair:
    name, part, rows, columns = rng.choice(_NAMES), rng.choice(_TILES), rng.choice((4, 8)), rng.choice((128, 256))
    body = f"""
    ROWS = {rows}


    @triton.jit
    def {name}(x, y, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
        row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, COLUMNS)
        at = row[:, None] * columns + column[None, :]
        {part} = tl.load(x + at)
        total = tl.cumsum({part}, axis=1)
        largest = tl.max({part}, axis=1)
        tl.store(y + at, ({part} - largest[:, None]) * total)


    def run(x: torch.Tensor, w: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.empty_like(x)
        {name}[(x.shape[0] // ROWS,)](x, y, x.shape[1], ROWS=ROWS, COLUMNS={columns}, num_warps={rng.choice((1, 2))})
        return {{"y": y}}
    """
    return _pair(
        rng, body, {f"ROWS = {rows}\n": f"ROWS = {rng.choice((128, 256))}\n"}, ("slower",), "", "a tile too large for its registers"
    )


def _off_tensor_cores(rng: random.Random) -> Pair:
    side, target = rng.choice((32, 64)), rng.choice(("sm_80", "sm_90", "sm_100"))
    body = _matmul(
        rng, (side, rng.choice((32, 64)), rng.choice((32, 64))), False, f"num_warps={rng.choice((4, 8))}", rng.choice(("tf32", "tf32x3"))
    )
    right = next(text for text in ('"tf32"', '"tf32x3"') if text in body)
    return _pair(rng, body, {right: '"ieee"'}, ("lost_tensor_cores",), "# multiplies", f"ieee on {target}", {"target": target})


def _copy(rng: random.Random, jit: str, index: str, block: int, warps: int) -> str:
    name, part = rng.choice(_NAMES), rng.choice(_TILES)
    work = rng.choice(("{} * 2.0", "tl.exp({})", "tl.maximum({}, 0.0)", "{} + 1.5")).format(part)
    return f"""
    @triton.jit{jit}
    def {name}(x, y, stride, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        row = tl.program_id(1)
        {part} = tl.load(x + row * stride + {index})  # loads
        tl.store(y + row * stride + i, {work})


    def run(x: torch.Tensor, w: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.empty_like(x)
        {name}[(1, x.shape[0])](x, y, x.stride(0), BLOCK={block}, num_warps={warps})
        return {{"y": y}}
    """


def _strided(rng: random.Random) -> Pair:
    warps = rng.choice((1, 2))
    block = 128 * warps
    step = rng.choice((f"i * {rng.choice((2, 3, 5))}", f"(i % {rng.choice((16, 32))}) * {block // 32} + i // 16", f"({block - 1} - i)"))
    body = _copy(rng, "", "i", block, warps)
    return _pair(rng, body, {" + i)  # loads": f" + {step})  # loads"}, ("narrow_access",), "# loads", "elements apart")


def _unspecialised(rng: random.Random) -> Pair:
    warps = rng.choice((1, 2))
    body = _copy(rng, "", "i", 128 * warps, warps)
    wrong = '@triton.jit(do_not_specialize=["stride"])'
    return _pair(rng, body, {"@triton.jit": wrong}, ("narrow_access",), "tl.", "a stride whose divisor the compiler does not see")


def _few_elements(rng: random.Random) -> Pair:
    warps = rng.choice((1, 2))
    body = _copy(rng, "", "i", 128 * warps, warps)
    return _pair(
        rng, body, {f"num_warps={warps}": f"num_warps={warps * 4}"}, ("narrow_access",), "tl.", "more threads than the tile has work for"
    )


def _short_offset(rng: random.Random) -> Pair:
    name, block = rng.choice(_NAMES), rng.choice((64, 128, 256))
    rows, columns = rng.choice(((1 << 17, 1 << 15), (70000, 40000), (1 << 20, 4096), (3, 1 << 30)))
    way = rng.randrange(3)
    right, at = (
        ("row = tl.program_id(0).to(tl.int64)", "at = row * stride + column  # computes"),
        ("first = tl.program_id(0).to(tl.int64) * stride  # computes", "at = first + column"),
        ("row = (tl.num_programs(0) - 1 - tl.program_id(0)).to(tl.int64)", "at = stride * row + column  # computes"),
    )[way]
    body = f"""
    @triton.jit
    def {name}(x, y, w, stride, columns, BLOCK: tl.constexpr):
        {right}
        for start in range(0, columns, BLOCK):
            column = start + tl.arange(0, BLOCK)
            {at}
            tl.store(y + at, tl.load(x + at, mask=column < columns) + 1.0, mask=column < columns)


    def run(x: torch.Tensor, w: torch.Tensor) -> dict[str, torch.Tensor]:
        y = torch.empty_like(x)
        {name}[(x.shape[0],)](x, y, w, x.stride(0), x.shape[1], BLOCK={block})
        return {{"y": y}}
    """
    shapes = {"shapes": f"x={rows}x{columns}"}
    return _pair(
        rng,
        body,
        {right: right.replace(".to(tl.int64)", "")},
        ("offset_overflow",),
        "# computes",
        f"int32 offsets of {rows}x{columns}",
        shapes,
    )


def _shared(rng: random.Random) -> Pair:
    target = rng.choice(("sm_80", "sm_90"))
    stages = rng.choice((2, 3))
    body = _matmul(rng, rng.choice(((128, 128, 64), (128, 64, 64), (64, 128, 64))), False, f"num_stages={stages}", "tf32")
    about = f"more stages than the shared memory of {target} holds"
    return _pair(
        rng, body, {f"num_stages={stages}": f"num_stages={rng.choice((9, 10, 12))}"}, ("crashed",), "# kernel", about, {"target": target}
    )


_FAMILIES: tuple[Callable[[random.Random], Pair], ...] = (
    _few_warps, _large_tile, _off_tensor_cores, _strided, _unspecialised, _few_elements, _short_offset, _shared,
)  # fmt: skip
