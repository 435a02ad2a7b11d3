"""A Triton kernel of several matrix products and sums, all in float32, and its twin in which one of them is in less."""

import random
from collections.abc import Callable

from tests.pairs.pair import Pair

_KINDS = ("what_if", "cast_alone", "rounding")
_HEAD = '"""Kernels."""\n\nimport torch\nimport triton\nimport triton.language as tl\n\n\n'
_RUN = """

def run(a, b, c, x):
    y, z = torch.empty_like(x), torch.empty_like(x)
{launches}
    return {{"y": y, "z": z}}
"""
_NARROW = ("float16", "bfloat16")


def pair(seed: int) -> Pair:
    """One of five faults; how many operations there are, which of them is at fault and their order are drawn."""
    rng = random.Random(seed)
    return _FAMILIES[seed % len(_FAMILIES)](rng)


def _pair(healthy: str, line: int, wrong: str, about: str) -> Pair:
    """``line`` counts from 0 and becomes ``wrong`` in the faulty tree, in its place."""
    lines = healthy.splitlines()
    indent = len(lines[line]) - len(lines[line].lstrip())
    faulty = "\n".join([*lines[:line], " " * indent + wrong, *lines[line + 1 :]]) + "\n"
    trees = [{"work/__init__.py": b"", "work/entry.py": text.encode()} for text in (faulty, healthy)]
    return Pair("numerics", trees[0], trees[1], _KINDS, rf"^work/entry\.py:{line + 1}:", {}, about)


def _kernel(name: str, body: list[str], stores: tuple[str, ...] = ("y", "z")) -> str:
    """A kernel over whole 32 x 32 tiles: ``a``, ``b``, ``c`` and ``x`` are loaded, ``y`` and ``z`` stored."""
    pointers = ", ".join(f"{p}_ptr" for p in ("a", "b", "c", "x", "y", "z"))
    loads = [f"{p} = tl.load({p}_ptr + at)" for p in ("a", "b", "c", "x")]
    tile = ["r = tl.arange(0, N)", "at = r[:, None] * N + r[None, :]"]
    lines = [*tile, *loads, *body, *(f"tl.store({p}_ptr + at, {p})" for p in stores)]
    return f"@triton.jit\ndef {name}({pointers}, N: tl.constexpr):\n" + "".join(f"    {line}\n" for line in lines)


def _source(rng: random.Random, kernels: list[str]) -> str:
    padding = "".join(f"SETTING_{n} = {rng.randrange(100)}\n" for n in range(rng.randrange(9)))
    names = [kernel.split("def ")[1].split("(")[0] for kernel in kernels]
    launches = "\n".join(f"    {name}[(1,)](a, b, c, x, y, z, N=x.shape[0])" for name in names)
    return _HEAD + padding + "\n\n" + "\n\n".join(kernels) + _RUN.format(launches=launches)


def _exact(left: str, right: str) -> str:
    return f'tl.dot({left}, {right}, input_precision="ieee")'


def _chain(rng: random.Random) -> list[str]:
    """Three to six products, one after another, with sums between them; the last is ``y``, and ``z`` a sum on the way."""
    body, now = [], "x"
    for step in range(rng.randrange(3, 7)):
        body.append(f"s{step} = {_exact(rng.choice('abc'), now)}")
        if rng.random() < 0.5:
            body.append(f"s{step} = s{step} * {rng.uniform(0.5, 1.5):.3f} + {rng.choice('abcx')}")
        now = f"s{step}"
    return [*body, f"y = {now} + x", f"z = {now} - x * 0.25"]


def _pick(rng: random.Random, text: str, mark: str) -> tuple[int, str]:
    """A line of the text that holds ``mark``: its number and itself, without indentation."""
    number, line = rng.choice([(n, line) for n, line in enumerate(text.splitlines()) if mark in line])
    return number, line.strip()


def _low_dot(rng: random.Random) -> Pair:
    text = _source(rng, [_kernel("products", _chain(rng))])
    number, line = _pick(rng, text, "ieee")
    return _pair(text, number, line.replace("ieee", rng.choice(("tf32", "bf16x3"))), "one dot at low precision among several")


def _low_cast(rng: random.Random) -> Pair:
    text = _source(rng, [_kernel("products", _chain(rng))])
    number, line = _pick(rng, text, "ieee")
    target, value = line.split(" = ")
    wrong = f"{target} = ({value}).to(tl.{rng.choice(_NARROW)}).to(tl.float32)"
    return _pair(text, number, wrong, "one result cast down and up again among several")


def _low_operands(rng: random.Random) -> Pair:
    """Operands that are cast to fp16 or bf16, in a loop whose other dots are exact."""
    body = ["y = x", f"for step in range({rng.randrange(4, 12)}):"]
    body += [f"    h = {_exact('b', 'c')}", f"    y = {_exact('a', 'y')} + h * {rng.uniform(0.05, 0.2):.3f}", f"z = {_exact('c', 'y')}"]
    text = _source(rng, [_kernel("loop", body)])
    number, line = _pick(rng, text, "y = tl.dot" if rng.random() < 0.5 else "z = tl.dot")
    operand = rng.choice(_NARROW)
    left, right = line.split("tl.dot(")[1].split(", ")[:2]
    target, rest = line.split(" = ")[0], line.split('"ieee")')[1]
    return _pair(
        text, number, f"{target} = tl.dot({left}.to(tl.{operand}), {right}.to(tl.{operand})){rest}", "operands of one dot cast down"
    )


def _low_launch(rng: random.Random) -> Pair:
    """The fault in one launch, what it does in the stages of a later one."""
    first = _kernel("first", [f"z = {_exact('a', 'x')}", f"y = {_exact('b', 'x')} + z"])
    body = ["u = tl.load(y_ptr + at)", "v = tl.load(z_ptr + at)", f"y = {_exact('c', 'u')} + v", f"z = {_exact('a', 'v')} * 0.5 - u"]
    second = _kernel("second", body)
    text = _source(rng, [first, second])
    number, line = _pick(rng, text, "ieee")
    return _pair(text, number, line.replace("ieee", "tf32"), "one dot of one of two launches")


def _low_sum(rng: random.Random) -> Pair:
    """A reduction or a scan, in another format than the rest."""
    fold = rng.choice(("tl.sum({}, 1)", "tl.cumsum({}, 1)"))
    spread = "[:, None] + x" if "sum(" in fold and "cum" not in fold else " + x"
    body = [f"p = {_exact('a', 'x')}", f"w = {fold.format('x')}", f"q = {_exact('b', 'p')}", f"y = w{spread}", f"z = q + w{spread}"]
    text = _source(rng, [_kernel("folds", body)])
    number, _ = _pick(rng, text, "w = ")
    narrow = rng.choice(_NARROW)
    return _pair(text, number, f"w = {fold.format(f'x.to(tl.{narrow})')}.to(tl.float32)", "a sum in a narrow format")


_FAMILIES: tuple[Callable[[random.Random], Pair], ...] = (_low_dot, _low_cast, _low_operands, _low_launch, _low_sum)
