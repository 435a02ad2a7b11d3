"""What the casts of one line do by themselves: the shadows of a run in which these casts round, and nothing else does."""

import time
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from feedback.numerics import formats, operations
from feedback.numerics.measure import Errors, Place, relative
from feedback.numerics.shadow import Record
from feedback.numerics.what_if import Baseline, copies
from sandboxes.runtime import entry

_NARROW = {f"cast to {name}": name for name in ("fp16", "bf16", *formats.KNOWN)}
_EXACT = 1e-6
"""Casts that introduce less lose nothing that float32 would have kept."""


@dataclass(frozen=True)
class Line:
    """A line with casts to a narrow type."""

    file: str
    line: int
    to: str


def candidates(errors: dict[Place, Errors]) -> list[Line]:
    """Lines whose casts round, the one that introduces most first."""
    worst = sorted(errors.items(), key=lambda item: item[1].introduced_max, reverse=True)
    lines: dict[tuple[str, int], Line] = {}
    for place, error in worst:
        if place.op in _NARROW and error.introduced_max >= _EXACT:
            lines.setdefault((place.file, place.line), Line(place.file, place.line, _NARROW[place.op]))
    return list(lines.values())


def run(baseline: Baseline, lines: list[Line], deadline: float) -> tuple[list[dict[str, Any]], list[Line]]:
    """Each line until ``deadline`` (``time.perf_counter``): the error that it alone leaves in each stage; and the lines left untried."""
    results: list[dict[str, Any]] = []
    longest = 0.0
    for number, line in enumerate(lines):
        began = time.perf_counter()
        if began + longest > deadline:
            return _ranked(results), lines[number:]
        stages = _alone(baseline, line)
        longest = max(longest, time.perf_counter() - began)
        shares = [min(error / baseline.stages[name], 1.0) for name, error in stages.items() if baseline.stages[name] > 0]
        found = {"file": entry.relative(line.file), "line": line.line, "to": line.to}
        results.append({**found, "share": max(shares, default=0.0), "stages": stages})
    return _ranked(results), []


def _ranked(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(results, key=itemgetter("share"), reverse=True)


def _alone(baseline: Baseline, line: Line) -> dict[str, float]:
    record = Record(kept=(line.file, line.line))
    undo = operations.install(record)
    try:
        outputs = entry.call(baseline.function, copies(baseline.inputs))
    finally:
        undo()
    shadows = {name: record.memory.read(outputs[name]) for name in baseline.truths}
    return {name: relative(shadow, baseline.truths[name]) for name, shadow in shadows.items() if shadow is not None}
