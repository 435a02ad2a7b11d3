"""Evidence kind ``tensors``: output bytes against float64 truth, by stage, leading index and tile.

``compare`` turns bytes into a record of sums, maxima and counts; ``assess`` is a pure function of that record, so a
replay recomputes every status without the bytes.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from infra_agent.frozen import Frozen
from infra_agent.judge import localise
from infra_agent.sandbox.mapping import GUARD, POISON, Layout
from infra_agent.session.observation import Finding, Metric, Status, TensorWhere

TILE = 16
DESCRIPTIONS = ("other_stage", "region", "growth")
"""Kinds of finding that describe a fault and are none themselves."""
_EPSILON = 2.0**-23
"""Of float32: no reference is credited with less error of its own."""


_LARGEST = 1e30
"""Stands for what has no bound: a magnitude in a record is always finite."""


class Bound(Frozen):
    """Limits of one stage, all relative to truth."""

    error: float = Field(gt=0)
    """Relative Frobenius error."""
    ratio: float = Field(gt=0)
    """That error over the reference's own."""
    peak: float = Field(default=40.0, gt=0)
    """Largest error of one element, in units of ``error`` times truth's root mean square: a wrong corner shows in no norm."""
    axes: tuple[str, ...] = ()
    """What the stage's axes are, first to last, as ``("head", "chunk", "row", "column")``: findings then speak of them by name."""


class Spot(Frozen):
    """The worst place of a stage: leading index, tile (rows and columns, end exclusive), error and truth there."""

    index: tuple[int, ...]
    tile: tuple[int, int, int, int]
    sum_sq_error: float
    sum_sq_truth: float


class StageRecord(Frozen):
    """One output of one call. Sums are over finite elements."""

    shape: tuple[int, ...]
    dtype: str
    count: int
    nonfinite: int
    untouched: int
    """Elements that still hold the poison."""
    guard_intact: bool
    sum_sq_error: float
    sum_sq_truth: float
    max_error: float
    reference_sum_sq_error: float
    worst: Spot | None = None
    pattern: localise.Pattern | None = None
    """Where and how it is wrong, of a stage beyond its limits."""

    @property
    def error(self) -> float:
        """Relative Frobenius error; 1e30 when truth is zero and the output is not."""
        if self.sum_sq_truth == 0.0:
            return 0.0 if self.sum_sq_error == 0.0 else _LARGEST
        return min(math.sqrt(self.sum_sq_error / self.sum_sq_truth), _LARGEST)

    @property
    def peak(self) -> float:
        """The largest error of one element over truth's root mean square."""
        scale = math.sqrt(self.sum_sq_truth / self.count) if self.count else 0.0
        return min(self.max_error / scale, _LARGEST) if scale else (_LARGEST if self.max_error else 0.0)

    @property
    def reference_error(self) -> float:
        """The same for the reference in its declared precision."""
        return math.sqrt(self.reference_sum_sq_error / self.sum_sq_truth) if self.sum_sq_truth else 0.0


class EmulatedDot(Frozen):
    """A dot by where it stands, the precision it asked for, what it multiplies, and how often it ran."""

    file: str = Field(max_length=500)
    line: int = Field(ge=0, le=10**7)
    precision: str = Field(max_length=20)
    operand: str = Field(max_length=20)
    count: int = Field(ge=0, le=10**12)


class Launch(Frozen):
    """A kernel that was interpreted: its source, from its ``def`` on, and its constants."""

    kernel: str = Field(max_length=200)
    source: str = Field(pattern="^[0-9a-f]{64}$")
    constexprs: dict[str, Any] = Field(default_factory=dict)


class CompareRecord(Frozen):
    """One case: how the call ended and, when it ended well, every stage."""

    case: str
    split: str
    size: int
    tree: str
    """Digest of the files that ran."""
    ended: str
    ending: str = ""
    """The last lines the candidate printed when it did not end well."""
    bounds: dict[str, Bound]
    stages: dict[str, StageRecord] = Field(default_factory=dict)
    problems: dict[str, str] = Field(default_factory=dict)
    changed: tuple[str, ...] = ()
    """Inputs that were overwritten though the task does not say so. Written beside the candidate."""
    host_work: tuple[str, ...] = ()
    """Matrix products that a library did, and ways out of torch, while kernels were interpreted. Written beside the candidate."""
    launches: tuple[Launch, ...] = ()
    """Kernels that were interpreted. Written beside the candidate."""
    output_digest: str = ""
    dots: tuple[EmulatedDot, ...] = ()
    """Dots that the emulator saw. Written beside the candidate."""
    entry_s: float = 0.0
    """Seconds the entry took, by the clock beside the candidate: advice, read by no gate."""
    loaded: dict[str, str] = Field(default_factory=dict)
    """Workspace file -> digest of what was imported. Written beside the candidate."""


def compare(
    output: bytes,
    layout: Layout,
    truth: Mapping[str, np.ndarray],
    reference: Mapping[str, np.ndarray],
    prefix: str = "",
    bounds: Mapping[str, Bound] | None = None,
) -> dict[str, StageRecord]:
    """Compare the slots of a snapshot with truth. ``truth`` float64, ``reference`` in its declared precision.

    ``prefix``: only the slots whose names begin so, as ``3/`` for the fourth of several sets.
    ``bounds``: with them, what the error of a stage beyond its limits looks like is recorded too. That takes longer than the comparison.
    """
    records = {}
    for name, slot in layout.slots.items():
        if not name.startswith(prefix):
            continue
        stage = name[len(prefix) :]
        raw = np.frombuffer(output, np.uint8, slot.nbytes, slot.offset)
        dtype = reference[stage].dtype
        value = raw.view(dtype).reshape(slot.shape)
        before, after = output[slot.offset - GUARD : slot.offset], output[slot.offset + slot.nbytes : slot.offset + slot.nbytes + GUARD]
        intact = before.count(POISON) == GUARD and after.count(POISON) == len(after)
        poisoned = (raw.reshape(-1, dtype.itemsize) == POISON).all(axis=1)
        untouched = int(poisoned.sum()) if dtype.kind == "f" else 0  # in an integer the poison is a value: -1
        record = _stage(value, truth[stage], reference[stage], untouched, intact)
        bound = bounds.get(stage) if bounds else None
        if bound is not None and untouched < value.size and fault(record, bound) is not None:
            record = record.model_copy(update={"pattern": _pattern(value, truth, stage, record, bound)})
        records[stage] = record
    return records


def _pattern(value: np.ndarray, truth: Mapping[str, np.ndarray], stage: str, record: StageRecord, bound: Bound) -> localise.Pattern:
    """Elements count as wrong beyond the limit that the stage broke, which may be the one relative to the reference."""
    limit = min(bound.error, bound.ratio * max(record.reference_error, _EPSILON))
    same = localise.same_stage(value, dict(truth), stage, limit)
    return localise.Pattern(same_as=same) if same else localise.pattern(value, truth[stage], limit)


def _stage(value: np.ndarray, truth: np.ndarray, reference: np.ndarray, untouched: int, intact: bool) -> StageRecord:
    finite = np.isfinite(value)
    whole = bool(finite.all())
    with np.errstate(over="ignore", invalid="ignore"):  # an absurd output is a large error, not a warning
        difference = np.clip(value.astype(np.float64) - truth, -_LARGEST, _LARGEST)
    squared = np.square(difference if whole else np.where(finite, difference, 0.0))
    weight = np.square(truth)
    return StageRecord(
        shape=value.shape,
        dtype=value.dtype.name,
        count=value.size,
        nonfinite=int(value.size - finite.sum()),
        untouched=untouched,
        guard_intact=intact,
        sum_sq_error=float(squared.sum()),
        sum_sq_truth=float(weight.sum()),
        max_error=float(np.sqrt(squared.max(initial=0.0))),
        reference_sum_sq_error=float(np.square(reference.astype(np.float64) - truth).sum()),
        worst=_worst_tile(squared, weight, None if whole else ~finite) if value.ndim >= 2 and value.size else None,
    )


def _worst_tile(squared: np.ndarray, weight: np.ndarray, broken: np.ndarray | None) -> Spot:
    """The tile with the most squared error, of the last two axes, over all leading indices; with most ``broken`` elements, if any are."""
    lead, (rows, columns) = squared.shape[:-2], squared.shape[-2:]
    flat = squared.reshape(-1, rows, columns)
    starts = (np.arange(0, rows, TILE), np.arange(0, columns, TILE))
    sums = np.add.reduceat(np.add.reduceat(flat, starts[0], axis=1), starts[1], axis=2)
    ranked = sums
    if broken is not None:
        marks = broken.reshape(-1, rows, columns).astype(np.float64)
        ranked = np.add.reduceat(np.add.reduceat(marks, starts[0], axis=1), starts[1], axis=2)
    n, i, j = np.unravel_index(int(ranked.argmax()), sums.shape)
    r0, c0 = int(i) * TILE, int(j) * TILE
    r1, c1 = min(rows, r0 + TILE), min(columns, c0 + TILE)
    index = tuple(int(k) for k in np.unravel_index(int(n), lead)) if lead else ()
    there = weight.reshape(-1, rows, columns)[n, r0:r1, c0:c1].sum()
    return Spot(index=index, tile=(r0, r1, c0, c1), sum_sq_error=float(sums[n, i, j]), sum_sq_truth=float(there))


def stage_fault(record: CompareRecord, stage: str) -> tuple[str, float, str] | None:
    """(kind, magnitude, message) of what is wrong with a stage; None when it is within its bound."""
    found, bound = record.stages.get(stage), record.bounds[stage]
    if found is None or (found.count and found.untouched == found.count):
        return "incorrect", 1e9, f"stage was not produced ({record.problems.get(stage, 'its buffer was never written')})"
    return fault(found, bound)


def fault(found: StageRecord, bound: Bound) -> tuple[str, float, str] | None:
    """The same of a stage that was produced."""
    if not found.guard_intact:
        return "tampered", 1e12, "bytes outside the stage's buffer were written"
    if found.untouched or found.nonfinite:
        return "incorrect", 1e8, f"{found.nonfinite} of {found.count} elements are not finite, {found.untouched} were never written"
    if found.error > bound.error:
        over = found.error / bound.error
        return "incorrect", over, f"relative error {found.error:.2e}, limit {bound.error:.2g} ({over:.3g} times over)"
    if found.peak > bound.peak * bound.error:
        over = found.peak / (bound.peak * bound.error)
        return "incorrect", over, f"one element is off by {found.peak:.2e} of the stage's scale, {over:.3g} times the limit for one"
    own = max(found.reference_error, _EPSILON)
    if found.error > bound.ratio * own:
        return (
            "incorrect",
            found.error / own,
            f"relative error {found.error:.2e} is {found.error / own:.3g} times the reference's own, {bound.ratio:.3g} allowed",
        )
    return None


def assess(record: CompareRecord) -> tuple[Status, str | None, tuple[Finding, ...]]:
    """Status, kind of failure and findings of one case."""
    if record.ended != "ok":
        kind = {"timeout": "timeout", "bad_report": "tampered"}.get(record.ended, "crashed")
        where = TensorWhere(case=record.case, stage="all")
        return "fail", kind, (Finding(kind=kind, where=where, magnitude=1e12, message=f"ended with {record.ended}: {record.ending}"),)
    findings = [_overwritten(record, name) for name in record.changed]
    for stage in record.bounds:
        found = stage_fault(record, stage)
        if found is None:
            continue
        kind, magnitude, message = found
        seen = record.stages.get(stage)
        worst = seen.worst if seen else None
        where = TensorWhere(case=record.case, stage=stage, index=worst.index if worst else (), tile=worst.tile if worst else None)
        findings.append(Finding(kind=kind, where=where, magnitude=magnitude, message=message))
        if seen is not None and seen.pattern is not None:
            findings += localise.findings(seen.pattern, where, magnitude, record.bounds[stage].axes)
    findings.sort(key=lambda f: -f.magnitude)
    return ("fail", findings[0].kind, tuple(findings)) if findings else ("pass", None, ())


def _overwritten(record: CompareRecord, name: str) -> Finding:
    message = f"input {name} was overwritten; [entry] mutates does not name it"
    return Finding(kind="incorrect", where=TensorWhere(case=record.case, stage=name), magnitude=1e10, message=message)


def metrics(record: CompareRecord) -> tuple[Metric, ...]:
    """The error of every stage with its limit as target."""
    found = {stage: record.stages[stage] for stage in record.bounds if stage in record.stages}
    return tuple(
        Metric(name=f"error.{stage}@{record.case}", value=stage_record.error, target=record.bounds[stage].error)
        for stage, stage_record in found.items()
    )


def growth(small: CompareRecord, large: CompareRecord, stage: str) -> float | None:
    """Error at the larger size over error at the smaller; None when either is missing."""
    if stage not in small.stages or stage not in large.stages:
        return None
    return large.stages[stage].error / max(small.stages[stage].error, _EPSILON / 2)
