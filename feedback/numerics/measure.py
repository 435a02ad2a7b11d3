"""Relative errors that are always finite, and their sums by source line."""

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray

UNBOUNDED = 1e30
"""Stands for an error without bound: one side is NaN or infinite where the other is not."""


def relative(value: Array, truth: Array) -> float:
    """Frobenius norm of ``value - truth`` over that of ``truth``, both float64; absolute where ``truth`` is zero.

    Elements that are NaN in both, or the same infinity, count as equal. At most UNBOUNDED.
    """
    error, size = _squares(value - truth), _squares(truth)
    if error < math.inf and 0 < size < math.inf:
        return min(math.sqrt(error / size), UNBOUNDED)
    return _relative_of_extremes(value, truth)


def _squares(x: Array) -> float:
    flat = x.ravel()
    return float(flat @ flat)


def _relative_of_extremes(value: Array, truth: Array) -> float:
    """The same for values that are not finite, or whose squares overflow or vanish."""
    finite = np.isfinite(value) & np.isfinite(truth)
    equal = (value == truth) | (np.isnan(value) & np.isnan(truth))
    if not np.all(finite | equal):
        return UNBOUNDED
    value, truth = np.where(finite, value, 0.0), np.where(finite, truth, 0.0)
    scale = float(max(np.abs(value).max(initial=0.0), np.abs(truth).max(initial=0.0)))
    if scale == 0.0:
        return 0.0
    error, size = _squares(value / scale - truth / scale), _squares(truth / scale)
    return min(math.sqrt(error / size) if size else math.sqrt(error) * scale, UNBOUNDED)


class Place(NamedTuple):
    """What a row is about. ``precision`` is empty but for float32 dots; ``operand`` is Triton's name of the type."""

    file: str
    line: int
    op: str
    precision: str
    operand: str


@dataclass
class Errors:
    """Relative errors at one place. ``introduced`` is a sum until :func:`rows` divides it; ``carried`` is the last one."""

    count: int = 0
    introduced: float = 0.0
    introduced_max: float = 0.0
    carried: float = 0.0
    carried_max: float = 0.0

    def add(self, introduced: float, carried: float) -> None:
        """One more execution of the line."""
        self.count += 1
        self.introduced += introduced
        self.introduced_max = max(self.introduced_max, introduced)
        self.carried = carried
        self.carried_max = max(self.carried_max, carried)


def rows(errors: dict[Place, Errors]) -> list[dict[str, Any]]:
    """Every place with its mean introduced error, worst carried error first."""
    worst = sorted(errors.items(), key=lambda item: (item[1].carried_max, item[1].introduced_max), reverse=True)
    return [place._asdict() | asdict(e) | {"introduced": e.introduced / e.count} for place, e in worst]
