"""Counts by source line, gathered program by program and launch by launch."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from feedback.opcount.traffic import Array, Place, Traffic
from sandboxes.runtime import interpreter


@dataclass
class Row:
    """What one line did. Bytes: ``loaded``, ``fresh``, ``distinct``, ``stored``; the others are operations.

    ``fresh`` leaves out what the same program had loaded on this line before, with nothing stored there in between;
    ``distinct`` counts each address once a launch. ``special_again`` and ``dot_again``: on operands that this program had
    already put through the same operation on this line.
    """

    loaded: int = 0
    fresh: int = 0
    distinct: int = 0
    stored: int = 0
    flops: int = 0
    dot_flops: int = 0
    special: int = 0
    special_again: int = 0
    dot_again: int = 0
    calls: Counter[tuple[int, str]] = field(default_factory=Counter)
    """By instruction and operation."""

    @property
    def times(self) -> int:
        """How often the line ran: each of its instructions ran as often, and one may be several operations."""
        return min(self.calls.values(), default=0)


@dataclass
class Kernel:
    """Launches of one kernel. ``touched``: bytes that each launch must load or store at least once, summed."""

    launches: int = 0
    programs: int = 0
    touched: int = 0


class Ledger:
    """Everything that was counted. Wrapped operations write to it; ``launching`` holds while a kernel runs."""

    def __init__(self) -> None:
        self.not_covered: set[str] = set()
        self.launching = False
        self._rows: dict[Place, Row] = {}
        self._kernels: dict[str, Kernel] = {}
        self._kernel = "?"
        self._traffic = Traffic()
        self._done: set[int] = set()

    def row(self, operation: str) -> tuple[Place, Row]:
        """The line at hand; ``operation`` is what runs there now."""
        frame = interpreter.kernel_frame()
        place = Place(self._kernel, frame.f_code.co_filename if frame else "?", frame.f_lineno if frame else 0)
        row = self._rows.setdefault(place, Row())
        row.calls[frame.f_lasti if frame else 0, operation] += 1
        return place, row

    def again(self, place: Place, operation: str, *operands: Array) -> bool:
        """Did this program do the same here before?"""
        key = hash((place, operation, *(operand.tobytes() for operand in operands)))
        seen = key in self._done
        self._done.add(key)
        return seen

    def load(self, place: Place, row: Row, addresses: Array, size: int) -> None:
        """``addresses`` of elements of ``size`` bytes that a load fetches."""
        row.loaded += size * self._traffic.load(place, addresses, size)

    def store(self, row: Row, addresses: Array, size: int) -> None:
        """``addresses`` of elements of ``size`` bytes that a store writes."""
        self._traffic.store(addresses, size)
        row.stored += size * addresses.size

    def atomic(self, row: Row, addresses: Array, size: int) -> None:
        """A read-modify-write: it must go to memory each time, so that nothing of it is redundant."""
        for name in ("loaded", "fresh", "distinct"):
            setattr(row, name, getattr(row, name) + size * addresses.size)
        self.store(row, addresses, size)

    def begin_launch(self, kernel: str) -> None:
        """From now on what runs belongs to ``kernel``."""
        self._kernel, self.launching, self._traffic = kernel, True, Traffic()
        self._kernels.setdefault(kernel, Kernel()).launches += 1

    def begin_program(self) -> None:
        """Another program of the launch: it knows nothing of what the one before had."""
        self._end_program()
        self._kernels[self._kernel].programs += 1

    def _end_program(self) -> None:
        self._done.clear()
        for place, fresh in self._traffic.end_program().items():
            self._rows[place].fresh += fresh

    def end_launch(self) -> None:
        """Add up what its programs have in common."""
        self._end_program()
        distinct, touched = self._traffic.end_launch()
        for place, count in distinct.items():
            self._rows[place].distinct += count
        self._kernels[self._kernel].touched += touched
        self.launching, self._kernel = False, "?"

    def rows(self) -> list[dict[str, Any]]:
        """Every line, as JSON."""
        listed = []
        for place, row in self._rows.items():
            values = asdict(row) | {"times": row.times}
            del values["calls"]
            listed.append(place._asdict() | values)
        return listed

    def kernels(self) -> list[dict[str, Any]]:
        """Every kernel, as JSON."""
        return [{"name": name, **asdict(kernel)} for name, kernel in self._kernels.items()]


def is_constant(data: Array) -> bool:
    """One value throughout, as a mask leaves it: that it comes again says nothing."""
    first = data.flat[0] if data.size else 0
    return data.size < 2 or bool(data.flat[-1] == first and (data == first).all())
