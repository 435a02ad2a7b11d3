"""Bounds of the integers of a kernel as launched: interval arithmetic over TTIR, exact in unlimited integers.

A bound holds for every program of the grid, every element of a tile and every step of a loop. What cannot be bounded (a
value loaded from memory, an argument that is no integer) is infinite and says why; it is never guessed.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from feedback.static.places import Place
from feedback.static.ttir import Graph, Operation
from sandboxes.runtime import entry

Number = int | float
"""An exact integer, or an infinity."""
_AXES = {"x": 0, "y": 1, "z": 2}
_SAME = {
    "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.unsplat", "arith.extsi", "arith.extui", "arith.index_cast",
    "arith.trunci", "ttg.convert_layout",
}  # fmt: skip
_UNSIGNED = {"arith.divui", "arith.remui", "arith.minui", "arith.maxui", "arith.shrui"}
_DEEPEST = 400  # values in a chain of definitions: beyond it a kernel is written by a program


@dataclass(frozen=True)
class Launch:
    """Integer arguments by name, programs along three axes (None: not known), and each pointer's address modulo 16 bytes."""

    integers: Mapping[str, int]
    grid: tuple[int | None, int | None, int | None]
    misaligned: Mapping[str, int]


@dataclass(frozen=True)
class Overflow:
    """An operation whose exact result leaves its integers."""

    place: Place
    reaches: int
    bits: int


@dataclass(frozen=True)
class Bound:
    """``low`` to ``high``, the first overflow on the way, and why an end is infinite."""

    low: Number
    high: Number
    overflow: Overflow | None = None
    unknown: tuple[str, ...] = ()
    narrow: bool = False
    """Whether 32-bit arithmetic was done on what has no bound: it may overflow, and nothing says that it does not."""

    @property
    def largest(self) -> Number:
        """Of its magnitude."""
        return max(abs(self.low), abs(self.high))


def _times(a: Number, b: Number) -> Number:
    return 0 if a == 0 or b == 0 else a * b


def _quotient(a: Number, b: Number) -> Number:
    """Towards zero, as C divides."""
    if math.isinf(a):
        return a if b > 0 else -a
    if math.isinf(b):
        return 0
    return abs(int(a)) // abs(int(b)) * (1 if (a >= 0) == (b >= 0) else -1)


def _divided(a: Bound, b: Bound) -> tuple[Number, Number]:
    if b.low <= 0 <= b.high:
        return -a.largest, a.largest  # a divisor that is not zero is at least 1
    ends = [_quotient(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(ends), max(ends)


def _remainder(a: Bound, b: Bound) -> tuple[Number, Number]:
    most = min(b.largest - 1, a.largest)
    return (0 if a.low >= 0 else -most), (0 if a.high <= 0 else most)


def _multiplied(a: Bound, b: Bound) -> tuple[Number, Number]:
    ends = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(ends), max(ends)


def _shifted(a: Bound, b: Bound) -> tuple[Number, Number]:
    if b.low < 0 or b.high > 64:
        return -math.inf, math.inf
    return _multiplied(a, Bound(1 << int(b.low), 1 << int(b.high)))


def _shifted_right(a: Bound, b: Bound) -> tuple[Number, Number]:
    if b.low < 0 or b.high > 64:
        return min(a.low, 0), max(a.high, 0)
    ends = [end if math.isinf(end) else int(end) >> int(by) for end in (a.low, a.high) for by in (b.low, b.high)]
    return min(ends), max(ends)


def _masked(a: Bound, b: Bound) -> tuple[Number, Number]:
    known = [side.high for side in (a, b) if side.low >= 0]
    return (0, min(known)) if known else (-math.inf, math.inf)


def _joined_bits(a: Bound, b: Bound) -> tuple[Number, Number]:
    if min(a.low, b.low) < 0 or math.isinf(max(a.high, b.high)):
        return -math.inf, math.inf
    return 0, (1 << max(int(a.high), int(b.high)).bit_length()) - 1


_PAIRS = {
    "arith.addi": lambda a, b: (a.low + b.low, a.high + b.high),
    "arith.subi": lambda a, b: (a.low - b.high, a.high - b.low),
    "arith.muli": _multiplied,
    "arith.divsi": _divided,
    "arith.divui": _divided,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.minsi": lambda a, b: (min(a.low, b.low), min(a.high, b.high)),
    "arith.maxsi": lambda a, b: (max(a.low, b.low), max(a.high, b.high)),
    "arith.minui": lambda a, b: (min(a.low, b.low), min(a.high, b.high)),
    "arith.maxui": lambda a, b: (max(a.low, b.low), max(a.high, b.high)),
    "arith.shli": _shifted,
    "arith.shrsi": _shifted_right,
    "arith.shrui": _shifted_right,
    "arith.andi": _masked,
    "arith.ori": _joined_bits,
    "arith.xori": _joined_bits,
}


def constant(text: str) -> int | None:
    """The integer of an ``arith.constant``; None for a float, an array, or true and false as 1 and 0."""
    if found := re.match(r"(?:dense<)?(-?\d+|true|false)>?\s*(?::|$)", text):
        return {"true": 1, "false": 0}.get(found[1]) if found[1] in ("true", "false") else int(found[1])
    return None


class Bounds:
    """Bounds of the values of one graph under one launch. ``given`` narrows values by what a mask lets through."""

    def __init__(self, graph: Graph, launch: Launch, given: Mapping[str, tuple[Number, Number]] | None = None) -> None:
        self._graph, self._launch, self._given = graph, launch, given or {}
        self._known: dict[str, Bound] = {}
        self._depth = 0

    def of(self, value: str) -> Bound:
        """Of one value, named as in the graph."""
        if value not in self._known:
            self._depth += 1
            try:
                found = self._unknown("a chain of definitions too deep to follow") if self._depth > _DEEPEST else self._find(value)
            finally:
                self._depth -= 1
            if value in self._given:
                low, high = self._given[value]
                found = replace(found, low=max(found.low, low), high=min(found.high, high))
                if not math.isinf(found.largest):
                    found = replace(found, unknown=(), narrow=False)
            self._known[value] = found
        return self._known[value]

    @staticmethod
    def _unknown(why: str) -> Bound:
        return Bound(-math.inf, math.inf, None, (why,))

    def _find(self, value: str) -> Bound:
        graph = self._graph
        if value in graph.arguments:
            name = value.partition("@")[0].removeprefix("%")
            given = self._launch.integers.get(name)
            return self._unknown(f"argument {name}") if given is None else Bound(given, given)
        if value in graph.inside:
            return self._in_loop(*graph.inside[value])
        if value in graph.made_by:
            operation, index = graph.made_by[value]
            return self._made(operation, index)
        return self._unknown("a value that TTIR does not define")

    def _made(self, operation: Operation, index: int) -> Bound:
        name = operation.name
        if not operation.operands:
            return self._source(operation)
        if name == "arith.cmpi":
            return Bound(0, 1)
        if name == "arith.select":
            return _either(self.of(operation.operands[1]), self.of(operation.operands[2]))
        if name == "scf.for":
            return _either(self.of(operation.operands[3 + index]), self._carried(operation, index, after=True))
        if name == "scf.if" and len(operation.inner) == 2:
            return _either(*(self.of(branch[index]) for branch in operation.inner))
        if name == "arith.extui" and self.of(operation.operands[0]).low < 0:
            return self._unknown("a negative number read as unsigned")
        if name in _SAME:
            return _held(self.of(operation.operands[0]), operation)
        if name in _PAIRS and len(operation.operands) == 2:
            a, b = (self.of(one) for one in operation.operands)
            negative = name in _UNSIGNED and min(a.low, b.low) < 0  # read as unsigned it is huge
            low, high = (-math.inf, math.inf) if negative else _PAIRS[name](a, b)
            why = ("a negative number read as unsigned",) if negative else (*a.unknown, *b.unknown)
            unknown = tuple(dict.fromkeys(why)) if math.isinf(low) or math.isinf(high) else ()
            return _held(Bound(low, high, a.overflow or b.overflow, unknown, a.narrow or b.narrow), operation)
        place = operation.place
        return self._unknown(f"what {name} gives at {entry.relative(place.file)}:{place.line}")

    def _source(self, operation: Operation) -> Bound:
        """What is made from nothing: constants, ranges, and the place of a program in the grid."""
        name, text = operation.name, operation.text
        if name == "arith.constant":
            number = constant(text)
            return self._unknown("a constant array") if number is None else Bound(number, number)
        if name == "tt.make_range":
            end, start = (int(found[1]) for key in ("end", "start") if (found := re.search(rf"{key} = (\d+)", text)))
            return Bound(start, end - 1)
        if name not in ("tt.get_program_id", "tt.get_num_programs"):
            return self._unknown(f"what {name} gives")
        programs = self._launch.grid[_AXES[text[0]]]
        if programs is None:
            return self._unknown("the grid")
        return Bound(0, programs - 1) if name == "tt.get_program_id" else Bound(programs, programs)

    def _in_loop(self, loop: Operation, index: int) -> Bound:
        if index >= 0:
            return self._carried(loop, index, after=False)
        lower, upper, step = (self.of(one) for one in loop.operands[:3])
        high = upper.high - 1
        if lower.low == lower.high and step.low == step.high and step.low > 0 and not math.isinf(high):
            high = max(lower.low, lower.low + (high - lower.low) // step.low * step.low)
        overflow = lower.overflow or upper.overflow or step.overflow
        return Bound(lower.low, max(high, lower.low), overflow, tuple(dict.fromkeys((*lower.unknown, *upper.unknown))))

    def _trips(self, loop: Operation) -> Number:
        """The most steps a loop makes."""
        lower, upper, step = (self.of(one) for one in loop.operands[:3])
        if step.low <= 0:
            return math.inf
        span = upper.high - lower.low
        return span if math.isinf(span) else max(-(-span // step.low), 0)

    def _carried(self, loop: Operation, index: int, after: bool) -> Bound:
        """A value that each step adds the same range to; anything else is carried on unchanged or not bounded."""
        inside, start = loop.carried[index], self.of(loop.operands[3 + index])
        added = self._added(loop.inner[0][index], inside) if loop.inner else None
        place = f"{entry.relative(loop.place.file)}:{loop.place.line}"
        made = self._graph.made_by.get(loop.inner[0][index]) if loop.inner else None
        if added is None:
            computed = made is not None and made[0].bits == 32 and made[0].name != "tt.load"
            return replace(self._unknown(f"what the loop at {place} carries"), narrow=computed)
        trips = self._trips(loop) - (0 if after else 1)
        low = start.low + min(_times(trips, added.low), 0)
        high = start.high + max(_times(trips, added.high), 0)
        unknown = tuple(dict.fromkeys((*start.unknown, *added.unknown)))
        if (math.isinf(low) or math.isinf(high)) and not unknown:
            unknown = (f"how often the loop at {place} runs",)
        bound = Bound(low, high, start.overflow or added.overflow, unknown, start.narrow or added.narrow)
        return _held(bound, made[0]) if made else bound

    def _added(self, value: str, inside: str) -> Bound | None:
        """The range of ``value`` minus ``inside`` where one is the other plus something that does not depend on it."""
        if value == inside:
            return Bound(0, 0)
        made = self._graph.made_by.get(value)
        if made is None or made[0].name not in ("arith.addi", "arith.subi"):
            return None
        left, right = made[0].operands
        sign = 1 if made[0].name == "arith.addi" else -1
        for one, other in ((left, right), (right, left)) if sign > 0 else ((left, right),):
            before = self._added(one, inside)
            if before is not None and not self._depends(other, inside, set()):
                more = self.of(other)
                low, high = (more.low, more.high) if sign > 0 else (-more.high, -more.low)
                unknown = (*before.unknown, *more.unknown)
                return Bound(before.low + low, before.high + high, before.overflow or more.overflow, unknown)
        return None

    def _depends(self, value: str, inside: str, seen: set[str]) -> bool:
        """Whether ``value`` is made from ``inside``, through whatever it carries."""
        if value == inside:
            return True
        if value in seen:
            return False
        seen.add(value)
        made = self._graph.made_by.get(value) or self._graph.inside.get(value)
        if made is None:
            return False
        return any(self._depends(one, inside, seen) for one in (*made[0].operands, *(v for inner in made[0].inner for v in inner)))


def _either(a: Bound, b: Bound) -> Bound:
    unknown = tuple(dict.fromkeys((*a.unknown, *b.unknown)))
    return Bound(min(a.low, b.low), max(a.high, b.high), a.overflow or b.overflow, unknown, a.narrow or b.narrow)


def _held(found: Bound, operation: Operation) -> Bound:
    """``found``, with an overflow where the operation's integers cannot hold it. They are taken as signed: types do not say."""
    bits = operation.bits
    if bits == 32 and math.isinf(found.largest) and operation.name in _PAIRS:
        found = replace(found, narrow=True)
    if found.overflow or bits not in (32, 64):
        return found
    limit = 1 << (bits - 1)
    if operation.name == "arith.extui":
        return found
    past = [end for end in (found.low, found.high) if not math.isinf(end) and not -limit <= end < limit]
    if not past:
        return found
    return replace(found, overflow=Overflow(operation.place, int(max(past, key=abs)), bits))
