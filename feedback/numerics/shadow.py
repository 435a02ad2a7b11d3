"""Carry a float64 shadow beside every floating value of the interpreted kernels and note the error of each line.

A handle's ``shadow`` is what it would hold had every operation since the inputs been done in float64; a handle without
one is exact. Branches, masks, indices and comparisons follow the values that the run really had. An operation that is
not covered gives a handle without shadow: its error history is dropped, never invented, and the operation is named.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal

import numpy as np

from feedback.numerics import formats
from feedback.numerics.measure import Errors, Place, relative
from feedback.numerics.memory import Memory
from sandboxes.runtime import interpreter

Array = np.ndarray


@dataclass
class Record:
    """What a run with shadows leaves: errors by place, operations not covered with the line that used each first, the shadow memory."""

    errors: dict[Place, Errors] = field(default_factory=dict)
    not_covered: dict[str, tuple[str, int]] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    kept: tuple[str, int] | None = None
    """File and line whose casts round the shadow too: all else is exact then, and its results show what these casts alone do."""
    mode: Literal["", "quiet", "twin"] = ""
    """Within a combine function nothing is noted: ``quiet`` while it runs as it is, ``twin`` while it runs in float64."""

    @contextmanager
    def within(self, mode: Literal["quiet", "twin"]) -> Iterator[None]:
        """Note nothing for a while."""
        before, self.mode = self.mode, mode
        try:
            yield
        finally:
            self.mode = before


def is_float(handle: Any) -> bool:
    """True for handles whose data are fp8, fp16, bf16, fp32 or fp64 values."""
    return bool(handle.data.dtype.kind == "f") or interpreter.is_bf16(handle) or formats.is_fp8(handle)


def exact(handle: Any) -> Array:
    """A floating handle's own values as float64; other data (conditions, integers) unchanged."""
    data = formats.widen(handle) if formats.is_fp8(handle) else interpreter.values(handle)
    return data.astype(np.float64, copy=False) if data.dtype.kind == "f" else data


def shadow_of(value: Any) -> Array | None:
    """The shadow of a handle, None for one that is exact and for anything else."""
    return getattr(value, "shadow", None)


def best(handle: Any) -> Array:
    """The shadow where there is one, else the handle's own values."""
    shadow = shadow_of(handle)
    return exact(handle) if shadow is None else shadow


def carry(record: Record, op: str, operands: Sequence[Any], result: Any, compute: Callable[..., Array], precision: str = "") -> None:
    """Give ``result`` its shadow, ``compute`` of the operands' shadows in float64, and note both errors of this line.

    Introduced: result against ``compute`` of the very operands given. Carried: result against its shadow.
    """
    if record.mode:
        return
    value, given = exact(result), [exact(h) for h in operands]
    local = compute(*given)
    if any(shadow_of(h) is not None for h in operands):
        result.shadow = compute(*[g if shadow_of(h) is None else h.shadow for h, g in zip(operands, given, strict=True)])
    else:
        result.shadow = local
    note(record, op, operands[0].dtype.scalar.name, value, local, result.shadow, precision)


def note(record: Record, op: str, operand: str, value: Array, local: Array, shadow: Array, precision: str = "") -> None:
    """Note both errors of ``value`` at this line: against ``local`` the one introduced, against ``shadow`` the one carried."""
    introduced = relative(value, local)
    carried = introduced if shadow is local else relative(value, shadow)
    place = Place(*interpreter.source_line(), op, precision, operand)
    record.errors.setdefault(place, Errors()).add(introduced, carried)


_PLUMBING = {"<lambda>", "wrapper", "__call__", "to", "cast"}
_SPELLED = {"_new_reduce": "reduce", "_new_scan": "associative_scan"}


def drop(record: Record, name: str = "") -> None:
    """Note that the operation at hand is not covered; without ``name`` as the kernel spells it (``atomic_add``, ``sort``)."""
    if record.mode:
        return
    frame: FrameType | None = sys._getframe(1)
    kernel, calls = interpreter.kernel_frame(), list[str]()
    while frame is not None and frame is not kernel:
        calls.append(frame.f_code.co_name)
        frame = frame.f_back
    spelled = next((call for call in reversed(calls) if call not in _PLUMBING), "?")
    record.not_covered.setdefault(name or _SPELLED.get(spelled, spelled), interpreter.source_line())
