"""What one more precise dot would change: the entry run again, without shadows, with a single source line promoted."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from feedback.numerics.measure import Errors, Place, relative
from sandboxes.runtime import entry, interpreter

Array = np.ndarray

PRECISIONS = ("tf32", "bf16x3", "tf32x3", "bf16x6", "ieee")
"""Least precise first."""
ROUNDING = 2.0**-24
"""Unit roundoff of float32: an error below it counts as this much, so that a gain says something about float32 results."""


@dataclass(frozen=True)
class Line:
    """A line whose float32 dots ask for less than the precision to promote to."""

    file: str
    line: int
    precision: str


def candidates(errors: dict[Place, Errors], promote_to: str) -> list[Line]:
    """Lines with dots below ``promote_to`` that introduce error, worst carried error first.

    Raises ValueError when ``promote_to`` is not one of PRECISIONS.
    """
    limit = PRECISIONS.index(promote_to)
    worst = sorted(errors.items(), key=lambda item: item[1].carried_max, reverse=True)
    lines: dict[tuple[str, int], Line] = {}
    for place, error in worst:
        below = place.precision in PRECISIONS[:limit]
        if place.op == "dot" and place.operand == "fp32" and below and error.introduced_max > 0:
            lines.setdefault((place.file, place.line), Line(place.file, place.line, place.precision))
    return list(lines.values())


def stage_errors(outputs: dict[str, Array], truths: dict[str, Array]) -> dict[str, float]:
    """Relative Frobenius error of every stage that has a truth."""
    return {name: relative(outputs[name].astype(np.float64), truth) for name, truth in truths.items()}


def gain(before: dict[str, float], after: dict[str, float]) -> float:
    """The largest factor by which the error of any stage falls; 1 when nothing changes."""
    return max((max(error, ROUNDING) / max(after[name], ROUNDING) for name, error in before.items()), default=1.0)


def copies(inputs: dict[str, Array]) -> dict[str, Array]:
    """Fresh inputs for a run: an entry may work in place."""
    return {name: array.copy() for name, array in inputs.items()}


@dataclass(frozen=True)
class Baseline:
    """The run to compare with: what ran on what, each stage's truth (float64) and its relative error."""

    function: entry.Entry
    inputs: dict[str, Array]
    truths: dict[str, Array]
    stages: dict[str, float]


def run(baseline: Baseline, lines: Iterable[Line], promote_to: str, deadline: float) -> tuple[list[dict[str, Any]], list[Line]]:
    """Promote one line at a time until ``deadline`` (``time.perf_counter``); results by gain, and the lines left untried."""
    results: list[dict[str, Any]] = []
    untried: list[Line] = []
    longest = 0.0
    for line in lines:
        began = time.perf_counter()
        if began + longest > deadline:
            untried.append(line)
            continue
        stages = stage_errors(_promoted(baseline, line, promote_to), baseline.truths)
        longest = max(longest, time.perf_counter() - began)
        found = {"file": entry.relative(line.file), "line": line.line, "from": line.precision, "to": promote_to}
        results.append({**found, "gain": gain(baseline.stages, stages), "stages": stages})
    return sorted(results, key=itemgetter("gain"), reverse=True), untried


def _promoted(baseline: Baseline, line: Line, promote_to: str) -> dict[str, Array]:
    interpreter.log.promote[line.file, line.line] = promote_to
    try:
        return entry.call(baseline.function, copies(baseline.inputs))
    finally:
        interpreter.log.promote.clear()
