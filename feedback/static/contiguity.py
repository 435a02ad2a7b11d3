"""Whether the elements that an access touches could be moved 16 bytes at a time, with the arguments as launched.

The addresses of a tile are worked out in three places of the launch: the first program and the first step of each loop, the
first program and the second step, the last program and the last step. An access qualifies when in all of them each aligned
group of 16 bytes along one axis of the tile is contiguous in memory and masked alike, and the tile holds 16 bytes for each thread.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from feedback.static.intervals import Launch, constant
from feedback.static.ttir import Access, Graph, Operation

WIDE = 16  # bytes: the widest access of a thread on every target
_AXES = {"x": 0, "y": 1, "z": 2}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal, "ne": np.not_equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal,
    "ult": np.less, "ule": np.less_equal, "ugt": np.greater, "uge": np.greater_equal,
}  # fmt: skip
_PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply, "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor, "arith.minsi": np.minimum, "arith.maxsi": np.maximum,
    "arith.divsi": lambda a, b: np.trunc(a / b).astype(np.int64), "arith.remsi": lambda a, b: np.fmod(a, b), "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift, "tt.addptr": np.add,
}  # fmt: skip
_SAME = {"arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "tt.bitcast"}
_SHAPE = re.compile(r"tensor<((?:\d+x)+)[^<>]*(?:<[^<>]*>)?>\s*$")


class UnknownError(Exception):
    """A value that only a run would give."""


class _Moment(NamedTuple):
    """Where in a launch: the last program or the first, and which step of every loop (-1: the last)."""

    last_program: bool
    step: int


_MOMENTS = (_Moment(False, 0), _Moment(False, 1), _Moment(True, -1))


class _Values:
    """Values of a graph at one moment: int64 arrays; a pointer is its distance, in elements, from the argument it starts from."""

    def __init__(self, graph: Graph, launch: Launch, moment: _Moment) -> None:
        self._graph, self._launch, self._moment = graph, launch, moment
        self._known: dict[str, Any] = {}

    def of(self, value: str) -> Any:
        """One value; raises UnknownError."""
        if value not in self._known:
            self._known[value] = self._find(value)
        return self._known[value]

    def _find(self, value: str) -> Any:
        graph = self._graph
        if value in graph.arguments:
            name = value.partition("@")[0].removeprefix("%")
            if graph.arguments[value].startswith("!tt.ptr"):
                return np.int64(0)
            if name not in self._launch.integers:
                raise UnknownError(name)
            return np.int64(self._launch.integers[name])
        if value in graph.inside:
            return self._in_loop(*graph.inside[value])
        if value not in graph.made_by:
            raise UnknownError(value)
        return self._made(*graph.made_by[value])

    def _in_loop(self, loop: Operation, index: int) -> Any:
        lower, upper, step = (int(self.of(one)) for one in loop.operands[:3])
        steps = max(-(-(upper - lower) // max(step, 1)), 1)
        at = steps - 1 if self._moment.step < 0 else min(self._moment.step, steps - 1)
        if index < 0:
            return np.int64(lower + at * step)
        start = self.of(loop.operands[3 + index])
        # what a step adds: worked out from the start, which is exact where it adds the same each time
        self._known[loop.carried[index]] = start
        after = self.of(loop.inner[0][index]) if at and loop.inner else start
        self._known.pop(loop.carried[index])
        return start + at * (after - start)

    def _made(self, operation: Operation, index: int) -> Any:
        name, text = operation.name, operation.text
        if not operation.operands:
            return self._source(operation)
        if name in ("tt.splat", "tt.broadcast"):
            return _spread(self.of(operation.operands[0]), text)
        if name == "tt.expand_dims":
            axis = re.search(r"axis = (\d+)", text)
            return np.expand_dims(self.of(operation.operands[0]), int(axis[1]) if axis else 0)
        if name in _SAME:
            return self.of(operation.operands[0])
        if name == "arith.cmpi":
            return _COMPARE[text.partition(",")[0]](*(self.of(one) for one in operation.operands)).astype(np.int64)
        if name == "arith.select":
            return np.where(*(self.of(one) for one in operation.operands))
        if name in _PAIRS:
            return _PAIRS[name](*(self.of(one) for one in operation.operands))
        raise UnknownError(name)

    def _source(self, operation: Operation) -> Any:
        """What is made from nothing: constants, ranges, and the place of a program in the grid."""
        name, text = operation.name, operation.text
        if name == "arith.constant":
            number = constant(text)
            if number is None:
                raise UnknownError(text)
            return _spread(np.int64(number), text)
        if name == "tt.make_range":
            end, start = (int(found[1]) for key in ("end", "start") if (found := re.search(rf"{key} = (\d+)", text)))
            return np.arange(start, end, dtype=np.int64)
        if name not in ("tt.get_program_id", "tt.get_num_programs"):
            raise UnknownError(name)
        programs = self._launch.grid[_AXES[text[0]]]
        if programs is None:
            raise UnknownError("grid")
        last = np.int64(programs - 1 if self._moment.last_program else 0)
        return last if name == "tt.get_program_id" else np.int64(programs)


def _spread(value: Any, text: str) -> Any:
    found = _SHAPE.search(text)
    return np.broadcast_to(value, tuple(int(n) for n in found[1].split("x") if n)) if found else value


def allows_wide(graph: Graph, launch: Launch, access: Access, pointer: str, threads: int) -> bool:
    """Whether it could; False as well where a run would have to say."""
    elements = int(np.prod(access.shape)) if access.shape else 0
    group = WIDE // access.element_bytes
    if group < 2 or elements * access.element_bytes < WIDE * threads or pointer not in launch.misaligned:
        return False
    axes = set(range(len(access.shape)))
    for moment in _MOMENTS:
        values = _Values(graph, launch, moment)
        try:
            at = np.broadcast_to(values.of(access.pointer), access.shape) * access.element_bytes + launch.misaligned[pointer]
            mask = np.broadcast_to(values.of(access.mask), access.shape) if access.mask else np.ones(access.shape, np.int64)
        except (UnknownError, RecursionError, ZeroDivisionError, ValueError, TypeError):
            return False
        axes = {axis for axis in axes if _grouped(at, mask, axis, group, access.element_bytes)}
    return bool(axes)


def _grouped(at: Any, mask: Any, axis: int, group: int, size: int) -> bool:
    if at.shape[axis] % group:
        return False
    at, mask = (np.moveaxis(one, axis, -1).reshape(-1, group) for one in (at, mask))
    contiguous = (at == at[:, :1] + np.arange(group) * size) & (at[:, :1] % WIDE == 0)
    return bool(np.all(contiguous) and np.all(mask == mask[:, :1]))
