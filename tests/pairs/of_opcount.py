"""Kernels that load, compute or launch more than they must; the healthy twin differs in the waste alone."""

import random
import textwrap
from collections.abc import Callable

from tests.pairs.pair import Pair

_HEAD = '"""Kernels."""\n\nimport torch\nimport triton\nimport triton.language as tl\n\n'
_NAMES = ("tile", "block", "part", "piece", "chunk")
_PRODUCTS = ("product-96", "product-128", "product-192", "product-256")
_POINTS = ("points-500", "points-768", "points-1024")
_IMAGES = ("image-64x64", "image-96x80", "image-60x110")
_CAUSAL = ("causal-128", "causal-192", "causal-250")


def pair(seed: int) -> Pair:
    """One of seven kinds of waste; names, shapes, tiles and where the line stands are drawn."""
    rng = random.Random(seed)
    return _FAMILIES[seed % len(_FAMILIES)](rng)


def _pair(
    rng: random.Random, body: str, edges: dict[str, str], kinds: tuple[str, ...], marks: tuple[str, ...], case: str, about: str
) -> Pair:
    """``body`` is healthy and holds each line of ``edges`` once; the faulty twin has the other one. ``marks``: what may be named there."""
    padding = "".join(f"SETTING_{n} = {rng.randrange(100)}\n" for n in range(rng.randrange(12)))
    healthy = faulty = _HEAD + padding + textwrap.dedent(body)
    for right, wrong in edges.items():
        assert healthy.count(right) == 1, right
        faulty = faulty.replace(right, wrong)
    lines = [n for n, line in enumerate(faulty.splitlines(), 1) if any(mark in line for mark in marks)]
    assert len(lines) == len(marks), (lines, marks)
    places = "|".join(f"work/entry.py:{line}\\b" for line in lines)
    trees = [{"work/__init__.py": b"", "work/entry.py": text.encode()} for text in (faulty, healthy)]
    return Pair("opcount", trees[0], trees[1], kinds, f"^({places})", {"case": case}, f"{about}, {case}")


def _rows_by_columns(rng: random.Random, function: str) -> str:
    """Each program keeps its rows of x and walks over the columns of w; x is put through ``function`` first."""
    name, rows, columns = rng.choice(_NAMES), rng.choice((32, 64)), rng.choice((16, 32))
    return f"""
    @triton.jit
    def kernel(x, w, y, m, n, K: tl.constexpr, KP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
        row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        depth = tl.arange(0, KP)
        at = x + row[:, None] * K + depth[None, :]
        inside = (row[:, None] < m) & (depth[None, :] < K)
        {name} = tl.load(at, mask=inside, other=0.0)  # loads
        {name}_2 = {function.format(name)}  # applies
        for start in range(0, n, COLUMNS):
            pass  # repeats
            column = start + tl.arange(0, COLUMNS)
            right = tl.load(w + depth[:, None] * n + column[None, :], mask=(depth[:, None] < K) & (column[None, :] < n), other=0.0)
            total = tl.dot({name}_2, right)
            tl.store(y + row[:, None] * n + column[None, :], total, mask=(row[:, None] < m) & (column[None, :] < n))


    def run(x: torch.Tensor, w: torch.Tensor) -> dict[str, torch.Tensor]:
        (m, k), n = x.shape, w.shape[1]
        y = torch.empty(m, n)
        kernel[(triton.cdiv(m, {rows}),)](x, w, y, m, n, k, triton.next_power_of_2(k), ROWS={rows}, COLUMNS={columns})
        return {{"y": y}}
    """


def _invariant_load(rng: random.Random) -> Pair:
    body = _rows_by_columns(rng, "{} * 2.0")
    load = next(line.strip() for line in body.splitlines() if "# loads" in line)
    apply = next(line.strip() for line in body.splitlines() if "# applies" in line)
    edges = {load: "pass", apply: "pass", "pass  # repeats": f"{load}; {apply.split('  #')[0]}".replace("  # loads", "", 1) + "  # loads"}
    return _pair(rng, body, edges, ("redundant_load",), ("# loads",), rng.choice(_PRODUCTS), "rows loaded again for every tile of columns")


def _recomputed(rng: random.Random) -> Pair:
    body = _rows_by_columns(rng, rng.choice(("tl.exp({})", "tl.log({} + 1.0)", "1.0 / (1.0 + {})", "tl.sqrt({})", "tl.sigmoid({})")))
    apply = next(line.strip() for line in body.splitlines() if "# applies" in line)
    edges = {apply: "pass", "pass  # repeats": apply}
    return _pair(rng, body, edges, ("recomputed",), ("# applies",), rng.choice(_PRODUCTS), "a function applied again for every tile")


def _small_tiles(rng: random.Random) -> Pair:
    depth = rng.choice((16, 32))
    body = f"""
    TILE = 64  # sets


    @triton.jit
    def kernel(x, w, y, m, n, k, TILE: tl.constexpr, DEPTH: tl.constexpr):
        row, column = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.program_id(1) * TILE + tl.arange(0, TILE)
        total = tl.zeros((TILE, TILE), tl.float32)
        for start in range(0, k, DEPTH):
            depth = start + tl.arange(0, DEPTH)
            left = tl.load(x + row[:, None] * k + depth[None, :], mask=(row[:, None] < m) & (depth[None, :] < k), other=0.0)  # left
            right = tl.load(w + depth[:, None] * n + column[None, :], mask=(depth[:, None] < k) & (column[None, :] < n), other=0.0)  # right
            total = tl.dot(left, right, total)
        tl.store(y + row[:, None] * n + column[None, :], total, mask=(row[:, None] < m) & (column[None, :] < n))


    def run(x: torch.Tensor, w: torch.Tensor) -> dict[str, torch.Tensor]:
        (m, k), n = x.shape, w.shape[1]
        y = torch.empty(m, n)
        kernel[(triton.cdiv(m, TILE), triton.cdiv(n, TILE))](x, w, y, m, n, k, TILE=TILE, DEPTH={depth})
        return {{"y": y}}
    """
    edges = {"TILE = 64  # sets": "TILE = 16  # sets"}
    return _pair(rng, body, edges, ("low_reuse",), ("# left", "# right"), rng.choice(_PRODUCTS), "tiles too small to use what they load")


def _pairwise(rng: random.Random, measure: str, other: str, sizes: tuple[int, int]) -> tuple[str, dict[str, str]]:
    name, step = rng.choice(_NAMES), rng.choice((64, 128, 256))
    body = f"""
    POINTS = {sizes[0]}  # sets


    @triton.jit
    def kernel(x, w, y, m, n, POINTS: tl.constexpr, STEP: tl.constexpr):
        mine = tl.program_id(0) * POINTS + tl.arange(0, POINTS)
        {name} = tl.load(x + mine, mask=mine < m, other=0.0)
        total = tl.zeros((POINTS,), tl.float32)
        for start in range(0, n, STEP):
            theirs = start + tl.arange(0, STEP)
            point = tl.load(w + theirs, mask=theirs < n, other=0.0)  # loads
            apart = tl.abs({name}[:, None] - point[None, :]) + 0.5
            force = {measure}  # measures
            total += tl.sum(tl.where(theirs[None, :] < n, force, 0.0), axis=1)
        tl.store(y + mine, total, mask=mine < m)


    def run(x: torch.Tensor, w: torch.Tensor) -> dict[str, torch.Tensor]:
        m, n = x.shape[0], w.shape[1]
        y = torch.empty(m, 1)
        kernel[(triton.cdiv(m, POINTS),)](x, w, y, m, n, POINTS=POINTS, STEP={step})
        return {{"y": y}}
    """
    edges = {f"POINTS = {sizes[0]}  # sets": f"POINTS = {sizes[1]}  # sets", f"force = {measure}  #": f"force = {other}  #"}
    return body, {right: wrong for right, wrong in edges.items() if right != wrong}


def _few_points(rng: random.Random) -> Pair:
    measure = rng.choice(("apart", "apart * apart", "tl.minimum(apart, 1.0)"))
    body, edges = _pairwise(rng, measure, measure, (rng.choice((64, 128)), rng.choice((1, 2))))
    return _pair(rng, body, edges, ("low_reuse",), ("# loads",), rng.choice(_POINTS), "points loaded anew for one or two others")


def _power(rng: random.Random) -> Pair:
    factors = rng.randrange(2, 5)
    measure, other = " * ".join(["apart"] * factors), rng.choice(("tl.exp({}.0 * tl.log(apart))", "tl.exp2({}.0 * tl.log2(apart))"))
    points = rng.choice((32, 64))
    body, edges = _pairwise(rng, measure, other.format(factors), (points, points))
    return _pair(rng, body, edges, ("special",), ("# measures",), rng.choice(_POINTS), "a power by exponential and logarithm")


def _halo(rng: random.Random) -> Pair:
    reach = rng.randrange(1, 3)
    tile = rng.choice((8, 16)) if reach == 1 else 16  # around a tile of 8 a halo of 2 is itself half as much again as the floor
    body = f"""
    @triton.jit
    def kernel(x, y, height, width, TILE: tl.constexpr, SPAN: tl.constexpr, REACH: tl.constexpr):
        lane, span = tl.arange(0, TILE), tl.arange(0, SPAN)
        row, column = tl.program_id(0) * TILE - REACH + span, tl.program_id(1) * TILE - REACH + span
        wanted = (span[:, None] < TILE + 2 * REACH) & (span[None, :] < TILE + 2 * REACH)
        inside = (row[:, None] >= 0) & (row[:, None] < height) & (column[None, :] >= 0) & (column[None, :] < width)
        window = tl.load(x + row[:, None] * width + column[None, :], mask=inside & wanted, other=0.0)  # loads
        total = tl.cumsum(window, axis=0)
        low, high = lane[:, None] + 0 * span[None, :], lane[:, None] + 2 * REACH + 0 * span[None, :]
        total = tl.gather(total, high, 0) - tl.gather(total, low, 0)
        total = tl.cumsum(total, axis=1)
        low, high = lane[None, :] + 0 * lane[:, None], lane[None, :] + 2 * REACH + 0 * lane[:, None]
        total = tl.gather(total, high, 1) - tl.gather(total, low, 1)
        r, c = tl.program_id(0) * TILE + lane, tl.program_id(1) * TILE + lane
        tl.store(y + r[:, None] * width + c[None, :], total, mask=(r[:, None] < height) & (c[None, :] < width))


    def run(x: torch.Tensor, w: torch.Tensor) -> dict[str, torch.Tensor]:
        height, width = x.shape
        y = torch.empty(height, width)
        kernel[(triton.cdiv(height, {tile}), triton.cdiv(width, {tile}))](x, y, height, width, TILE={tile}, SPAN={2 * tile}, REACH={reach})
        return {{"y": y}}
    """
    edges = {"mask=inside & wanted": "mask=inside"}
    return _pair(rng, body, edges, ("excess_bytes",), ("# loads",), rng.choice(_IMAGES), "a padded halo loaded in full")


def _causal(rng: random.Random) -> Pair:
    tile, case = rng.choice((16, 32)), rng.choice(_CAUSAL)
    body = f"""
    @triton.jit
    def kernel(x, w, y, n, d, TILE: tl.constexpr, D: tl.constexpr):
        first = tl.program_id(0) * TILE
        row, depth = first + tl.arange(0, TILE), tl.arange(0, D)
        left = tl.load(x + row[:, None] * d + depth[None, :], mask=(row[:, None] < n) & (depth[None, :] < d), other=0.0)
        last = tl.minimum(first + TILE, n)  # ends
        for start in range(0, last, TILE):
            column = start + tl.arange(0, TILE)
            right = tl.load(w + depth[:, None] * n + column[None, :], mask=(depth[:, None] < d) & (column[None, :] < n), other=0.0)
            score = tl.dot(left, right)  # multiplies
            score = tl.where(row[:, None] >= column[None, :], score, 0.0)
            tl.store(y + row[:, None] * n + column[None, :], score, mask=(row[:, None] < n) & (column[None, :] < n))


    def run(x: torch.Tensor, w: torch.Tensor) -> dict[str, torch.Tensor]:
        n, d = x.shape
        y = torch.zeros(n, n)
        kernel[(triton.cdiv(n, {tile}),)](x, w, y, n, d, TILE={tile}, D=triton.next_power_of_2(d))
        return {{"y": y}}
    """
    edges = {"last = tl.minimum(first + TILE, n)  # ends": "last = n"}
    return _pair(rng, body, edges, ("excess_flops",), ("# multiplies",), case, "a triangle worked out as a square")


_FAMILIES: tuple[Callable[[random.Random], Pair], ...] = (
    _invariant_load, _recomputed, _small_tiles, _few_points, _power, _halo, _causal,
)  # fmt: skip
