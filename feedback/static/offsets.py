"""The largest offset that each load and store adds to its pointer, for one launch, and whether 32 bits hold it.

An offset is counted in elements: Triton multiplies by their size in 64 bits. What a mask leaves out is not counted, where the
mask compares with something that can be bounded.
"""

import math
import re
from collections.abc import Iterator
from typing import TypedDict

from feedback.static.intervals import Bound, Bounds, Launch, Number
from feedback.static.ttir import Access, Graph, Operation
from sandboxes.runtime import entry

_THROUGH = {"tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.bitcast"}
_MOST = 1 << 100  # what the host reads as an integer
_COMPARES = re.compile(r"(slt|sle|sgt|sge|ult|ule|eq),")
_TURNED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle", "eq": "eq"}


class Offset(TypedDict):
    """One access. ``largest``: in elements, None where it is not bounded, and ``unbounded`` says by what.

    ``narrow``: 32-bit arithmetic was done on what is not bounded, so that it may overflow.
    ``computed_file`` and ``computed_line`` are where an integer of ``bits`` bits first cannot hold its value, which reaches
    ``reaches``; line 0 when all fit.
    """

    file: str
    line: int
    kind: str
    pointer: str
    largest: int | None
    unbounded: list[str]
    narrow: bool
    computed_file: str
    computed_line: int
    bits: int
    reaches: int


def _before(operation: Operation, index: int) -> list[str]:
    """The pointers that an operation makes a pointer from; none where it makes one from something else."""
    if operation.name == "tt.addptr" or operation.name in _THROUGH:
        return [operation.operands[0]]
    if operation.name == "arith.select":
        return list(operation.operands[1:])
    inner = [branch[index] for branch in operation.inner] if operation.name in ("scf.for", "scf.if") else []
    return [operation.operands[3 + index], *inner] if operation.name == "scf.for" else inner


def pointer_of(graph: Graph, value: str) -> tuple[str, list[str]]:
    """The argument that a pointer starts from ("" when it is not one) and every offset that is added on the way."""
    offsets: list[str] = []
    seen: set[str] = set()
    todo, base = [value], ""
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        if one in graph.arguments:
            base = one.partition("@")[0].removeprefix("%")
        elif one in graph.inside:
            loop, index = graph.inside[one]
            todo += [loop.operands[3 + index], *(inner[index] for inner in loop.inner)] if index >= 0 else []
        elif one in graph.made_by:
            operation, index = graph.made_by[one]
            offsets += operation.operands[1:] if operation.name == "tt.addptr" else ()
            todo += _before(operation, index)
    return base, offsets


def _root(graph: Graph, value: str) -> str:
    """The value itself, before it was spread over a tile."""
    while (made := graph.made_by.get(value)) and made[0].name in _THROUGH:
        value = made[0].operands[0]
    return value


def _conditions(graph: Graph, mask: str) -> Iterator[tuple[str, str, str]]:
    """(predicate, left, right) of each comparison that must hold for the mask to."""
    made = graph.made_by.get(_root(graph, mask))
    if made is None:
        return
    operation = made[0]
    if operation.name == "arith.andi":
        for one in operation.operands:
            yield from _conditions(graph, one)
    elif operation.name == "arith.cmpi" and (found := _COMPARES.match(operation.text)):
        left, right = (_root(graph, one) for one in operation.operands)
        yield found[1], left, right
        if found[1] in _TURNED:
            yield _TURNED[found[1]], right, left


def _let_through(graph: Graph, launch: Launch, mask: str | None) -> dict[str, tuple[Number, Number]]:
    """Value -> range, of the values that the mask compares."""
    free, allowed = Bounds(graph, launch), dict[str, tuple[Number, Number]]()
    for predicate, left, right in _conditions(graph, mask) if mask else ():
        other = free.of(right)
        if other.overflow:
            continue
        low, high = allowed.get(left, (-math.inf, math.inf))
        if predicate in ("slt", "sle", "eq"):
            high = min(high, other.high - (predicate == "slt"))
        if predicate in ("sgt", "sge", "eq"):
            low = max(low, other.low + (predicate == "sgt"))
        if predicate in ("ult", "ule") and other.low >= 0:
            low, high = max(low, 0), min(high, other.high - (predicate == "ult"))
        if low <= high:
            allowed[left] = (low, high)
    return allowed


def of_launch(graph: Graph, launch: Launch) -> list[Offset]:
    """The accesses of a kernel in the order of its TTIR."""
    return [_offset(graph, launch, access) for access in graph.accesses]


def _offset(graph: Graph, launch: Launch, access: Access) -> Offset:
    pointer, values = pointer_of(graph, access.pointer)
    bounds = Bounds(graph, launch, _let_through(graph, launch, access.mask))
    found = [bounds.of(value) for value in values]
    finite = [bound for bound in found if not math.isinf(bound.largest)]
    worst: Bound | None = max((bound for bound in found if bound.overflow), key=lambda bound: bound.largest, default=None)
    overflow = worst.overflow if worst else None
    unbounded = list(dict.fromkeys(why for bound in found for why in bound.unknown))
    return {
        "file": entry.relative(access.place.file),
        "line": access.place.line,
        "kind": access.kind,
        "pointer": pointer,
        "largest": None if len(finite) < len(found) else min(int(max((bound.largest for bound in finite), default=0)), _MOST),
        "unbounded": unbounded,
        "narrow": any(bound.narrow for bound in found),
        "computed_file": entry.relative(overflow.place.file) if overflow else "",
        "computed_line": overflow.place.line if overflow else 0,
        "bits": overflow.bits if overflow else 0,
        "reaches": max(min(overflow.reaches, _MOST), -_MOST) if overflow else 0,
    }
