"""Faults in one of four small stages, planted in the code beside its right form: where they show follows from the fault."""

import random
from collections.abc import Callable
from typing import NamedTuple

from tests.pairs.pair import TASKS, Pair

_ENTRY = (TASKS / "accuracy" / "workspace" / "work" / "entry.py").read_text()


class Shape(NamedTuple):
    """A public case of the task."""

    case: str
    heads: int
    rows: int
    columns: int


_SHAPES = (Shape("small", 3, 45, 40), Shape("wide", 4, 41, 133), Shape("tall", 5, 203, 24), Shape("even", 6, 77, 64))


def pair(seed: int) -> Pair:
    """One of seven faults; which case, block, head or factor is drawn."""
    rng = random.Random(seed)
    return _FAMILIES[seed % len(_FAMILIES)](rng, rng.choice(_SHAPES))


def _pair(shape: Shape, edits: dict[str, str], kind: str, where: str, about: str, healthy: str = _ENTRY) -> Pair:
    faulty = healthy
    for right, wrong in edits.items():
        assert healthy.count(right) == 1, right
        faulty = faulty.replace(right, wrong)
    trees = [{"work/__init__.py": b"", "work/entry.py": text.encode()} for text in (faulty, healthy)]
    return Pair("accuracy", trees[0], trees[1], (kind,), f"^{shape.case}: {where}", {"cases": shape.case}, about)


def _last_tile(rng: random.Random, shape: Shape) -> Pair:
    """The rows left over after whole blocks: not written, divided by the norm of a whole block, or a row late."""
    block = rng.choice([b for b in (8, 16, 32) if shape.rows % b])
    rest = shape.rows % block
    wrong = rng.choice((
        "out[:, start:stop] = block / (block * block).mean(-1, keepdim=True).sqrt() if stop - start == BLOCK else 0.0",
        "out[:, start:stop] = block / ((block * block).mean(-1, keepdim=True) * (BLOCK / (stop - start))).sqrt()",
        "out[:, start:stop] = block / (block * block).mean(-1, keepdim=True).sqrt() * (1.0 if stop - start == BLOCK else float('nan'))",
    ))  # fmt: skip
    edits = {"out[:, start:stop] = block / (block * block).mean(-1, keepdim=True).sqrt()": wrong}
    some = f"the last {rest} of {shape.rows} rows" if rest > 1 else f"one whole row, the last of {shape.rows}"
    healthy = _ENTRY.replace("BLOCK = 16", f"BLOCK = {block}")
    return _pair(shape, edits, "region", f"stage normed.*{some}", "a wrong mask of the last tile", healthy)


def _border(rng: random.Random, shape: Shape) -> Pair:
    """A neighbour beyond the edge is counted, or the one beside it is not."""
    size, name, line, wrong = rng.choice((
        (shape.rows, "row", "out[:, 1:, :] += x[:, :-1, :]", "out[:, 1:-1, :] += x[:, :-2, :]"),
        (shape.rows, "row", "out[:, :-1, :] += x[:, 1:, :]", "out += torch.cat([x[:, 1:, :], x[:, -1:, :]], 1)"),
        (shape.columns, "column", "out[:, :, 1:] += x[:, :, :-1]", "out[:, :, 1:-1] += x[:, :, :-2]"),
        (shape.columns, "column", "out[:, :, :-1] += x[:, :, 1:]", "out += torch.cat([x[:, :, 1:], x[:, :, -1:]], 2)"),
    ))  # fmt: skip
    return _pair(shape, {line: wrong}, "region", f"stage smooth.*one whole {name}, the last of {size}", "a border off by one")


def _frame(rng: random.Random, shape: Shape) -> Pair:
    """The average over the neighbours that there are, where the task asks for zeros beyond the edge."""
    factor = rng.uniform(0.5, 0.9)
    wrong = f"out[:, [0, -1], :] *= {factor:.3f}\n    out[:, 1:-1, [0, -1]] *= {factor:.3f}\n    return out / 5"
    where = rf"stage smooth.*a border: .*first 1 of {shape.rows} rows.*last 1 of {shape.rows} rows.*first 1 of {shape.columns} columns"
    return _pair(shape, {"return out / 5": wrong}, "region", where, "another rule at the edges")


def _swapped(rng: random.Random, shape: Shape) -> Pair:
    first, second = rng.sample(("scaled(x, gain)", "smooth(x)", "normed(x)", "state(x, decay)"), 2)
    names = [call.split("(")[0] for call in (first, second)]
    edits = {f'"{names[0]}": {first}': f'"{names[0]}": {second}', f'"{names[1]}": {second}': f'"{names[1]}": {first}'}
    where = f"stage ({names[0]}.*truth of stage {names[1]}|{names[1]}.*truth of stage {names[0]})"
    return _pair(shape, edits, "other_stage", where, "two stages swapped")


def _drift(rng: random.Random, shape: Shape) -> Pair:
    """A decay that is a little off: every step adds to it."""
    wrong = f"s = decay[:, None] * {1 - 10 ** rng.uniform(-4, -2.7):.6f} * s + x[:, t]"
    edits = {"s = decay[:, None] * s + x[:, t]": wrong}
    return _pair(shape, edits, "growth", r"stage state.*error grows .*along axis 1\b", "drift along the rows")


def _head(rng: random.Random, shape: Shape) -> Pair:
    head = rng.randrange(shape.heads)
    factor, shrunk = 1 + rng.choice((-1, 1)) * 10 ** rng.uniform(-4, -1), rng.uniform(0.9, 0.99)
    scale, step = "x[head] * gain[head] for", "s = decay[:, None] * s + x[:, t]"
    stage, line, wrong = rng.choice((
        ("scaled", scale, f"x[head] * gain[head] * ({factor:.6f} if head == {head} else 1.0) for"),
        ("scaled", scale, f"x[head] * gain[head if head != {head} else head - 1] for"),
        ("state", step, f"{step}\n        s[{head}, :] *= {shrunk:.4f}"),
    ))  # fmt: skip
    place = f"stage {stage}.*one whole head.*index {head}\\b"
    return _pair(shape, {line: wrong}, "region", place, "one head scaled")


def _every_kth(rng: random.Random, shape: Shape) -> Pair:
    step = rng.randrange(2, 7)
    first = rng.randrange(step)
    axis, size, name = rng.choice((("[:, first::step]", shape.rows, "rows"), ("[:, :, first::step]", shape.columns, "columns")))
    place = axis.replace("first", str(first)).replace("step", str(step))
    wrong = f"out{place} = out{place}{rng.choice(('.half().float()', ' * 1.001', ' * 0.0'))}\n    return out / 5"
    where = rf"stage smooth.*every {step}(nd|rd|th) of {size} {name}, from {first} on"
    return _pair(shape, {"return out / 5": wrong}, "region", where, "every k-th element")


_FAMILIES: tuple[Callable[[random.Random, Shape], Pair], ...] = (_last_tile, _border, _frame, _swapped, _drift, _head, _every_kth)
