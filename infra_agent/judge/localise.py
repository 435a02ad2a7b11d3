"""What kind of place is wrong in an output: how its error grows along an axis, and which region holds all of it.

``pattern`` reads the arrays once, while the judge has them; what it finds is a small record. ``findings`` is a pure function of that
record, so a replay says the same again. Nothing is said that is not so of every element: a region holds all of the error and hardly
anything else, and growth is monotone and gradual.
"""

import math
from collections.abc import Sequence

import numpy as np

from infra_agent.frozen import Frozen
from infra_agent.session.observation import Finding, TensorWhere

_BINS = 64
"""Indices of an axis are joined to at most so many runs before growth is fitted."""
_LEAST_RUNS = 8
"""A line through fewer points than this says nothing: a step in the middle of them would pass for a slope."""
_FIT = 0.85
"""Share of the variance of the logarithm that a line must explain. A step in the middle of an axis has 0.76 at most."""
_LEAST_GROWTH = 2.0
"""Error at one end over error at the other, by the fitted line."""
_LARGEST_STEP = 0.6
"""Share of the whole growth that one step from a run to the next may make up."""
_FILLED = 0.8
"""Share of a region's elements that must be worse than every element outside of it. A triangle in its bounding box has a half."""
_WIDEST_BORDER = 4
_BLOCKS = (512, 256, 128, 64, 32, 16, 8)


class Drift(Frozen):
    """Error that grows along an axis, fitted to the relative error of its slices."""

    axis: int
    length: int
    law: str
    """``exponential``: times ``rate`` for each index. ``power``: with the index to the power ``rate``."""
    rate: float
    backwards: bool
    """It grows towards index 0."""
    first: float
    """Relative error where growth begins: of the first run of indices that is not exact, as measured."""
    last: float
    """The same where it ends."""
    fit: float
    """Share of the variance that the line explains."""


class Span(Frozen):
    """The wrong indices of one axis: ``start``, ``start + step``, ... below ``stop``. All of them when nothing is narrowed."""

    axis: int
    length: int
    start: int
    stop: int
    step: int = 1


class Region(Frozen):
    """All elements in the product of ``spans`` are wrong, and no others; or, when ``border`` is set, those within it of named edges."""

    spans: tuple[Span, ...] = ()
    border: int = 0
    edges: tuple[str, ...] = ()
    share: float
    """Share of all elements that the region holds."""


class Pattern(Frozen):
    """What was seen in one stage. Empty where the error has no simple shape."""

    drifts: tuple[Drift, ...] = ()
    region: Region | None = None
    same_as: str = ""
    """Another stage, whose truth this output holds."""


def pattern(value: np.ndarray, truth: np.ndarray, limit: float) -> Pattern:
    """What is wrong with ``value`` beside ``truth`` (float64, same shape), whose relative error may be ``limit``."""
    if value.ndim == 0 or value.size < 2:
        return Pattern()
    finite = np.isfinite(value)
    with np.errstate(over="ignore", invalid="ignore"):
        squared = np.square(np.clip(np.where(finite, value.astype(np.float64) - truth, 0.0), -1e100, 1e100))
    weight = np.square(truth)
    drifts = (
        tuple(drift for axis in range(value.ndim) if (drift := _drift(squared, weight, axis, limit)) is not None) if finite.all() else ()
    )
    bad = np.where(finite, squared, np.inf)
    return Pattern(drifts=drifts, region=_region(bad, weight, limit))


def same_stage(value: np.ndarray, truths: dict[str, np.ndarray], own: str, limit: float) -> str:
    """The other stage of this shape whose truth ``value`` is, within ``limit``; empty when there is none."""
    if not np.isfinite(value).all():
        return ""
    for name, truth in truths.items():
        size = float(np.linalg.norm(truth)) if name != own and truth.shape == value.shape else 0.0
        with np.errstate(over="ignore"):
            if size and float(np.linalg.norm(value.astype(np.float64) - truth)) <= limit * size:
                return name
    return ""


def _others(ndim: int, axis: int) -> tuple[int, ...]:
    return tuple(other for other in range(ndim) if other != axis)


def _runs(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of neighbouring indices, at most 64 runs, and the middle index of each."""
    starts = np.unique(np.linspace(0, len(sums), min(_BINS, len(sums)), endpoint=False).astype(int))
    stops = np.append(starts[1:], len(sums))
    return np.add.reduceat(sums, starts), (starts + stops - 1) / 2


def _drift(squared: np.ndarray, weight: np.ndarray, axis: int, limit: float) -> Drift | None:
    """The law of growth along an axis, in the direction in which the error grows; None when there is none.

    The first steps of a recurrence may be exact, or as good as: growth may begin where the error passes ``limit``.
    """
    length, others = squared.shape[axis], _others(squared.ndim, axis)
    error, middle = _runs(squared.sum(axis=others))
    typical, _ = _runs(np.median(squared, axis=others) if others else squared)
    size, _ = _runs(weight.sum(axis=others))
    if len(error) < _LEAST_RUNS or not (size > 0).all():
        return None
    backwards = bool(error[-1] * size[0] < error[0] * size[-1])
    if backwards:
        error, typical, size, middle = error[::-1], typical[::-1], size[::-1], length - 1 - middle[::-1]
    for start in sorted({int((error > 0).argmax()), int((error > limit * limit * size).argmax())}):
        found = _law(error[start:], typical[start:], size[start:], middle[start:] - middle[start])
        if found is not None and start <= len(error) / 3:
            law, rate, fit, first, last = found
            return Drift(axis=axis, length=length, law=law, rate=rate, backwards=backwards, first=first, last=last, fit=fit)
    return None


def _law(error: np.ndarray, typical: np.ndarray, size: np.ndarray, at: np.ndarray) -> tuple[str, float, float, float, float] | None:
    """Law, rate, fit, and both ends of the better of an exponential and a power law; None when neither fits.

    ``typical``, the median of the squared errors, must grow as well: of a triangle that is wrong, only the share of elements does.
    """
    if len(error) < _LEAST_RUNS or not (error > 0).all() or not (typical > 0).all():
        return None
    level, middling = 0.5 * (np.log(error) - np.log(size)), 0.5 * (np.log(typical) - np.log(size))
    if _abrupt(level) or _abrupt(middling):
        return None
    fits = {"exponential": _line(at, level), "power": _line(np.log(at + 1.0), level)}
    law, (slope, fit, rise) = max(fits.items(), key=lambda item: item[1][1])
    if fit < _FIT or rise < math.log(_LEAST_GROWTH):
        return None
    return law, math.exp(slope) if law == "exponential" else slope, fit, math.exp(level[0]), math.exp(level[-1])


def _abrupt(level: np.ndarray) -> bool:
    """True when one step makes up most of the growth: a region is wrong, nothing grows."""
    whole = float(level[-1] - level[0])
    return whole <= 0 or float(np.diff(level).max()) > max(_LARGEST_STEP, 2.0 / len(level)) * whole


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Slope, explained share of the variance, and rise of the least-squares line over the whole of ``x``."""
    across, up = x - x.mean(), y - y.mean()
    spread, total = float(across @ across), float(up @ up)
    if spread == 0.0 or total == 0.0:
        return 0.0, 0.0, 0.0
    slope = float(across @ up) / spread
    return slope, slope * slope * spread / total, slope * float(x[-1] - x[0])


def _region(bad: np.ndarray, weight: np.ndarray, limit: float) -> Region | None:
    """The product of spans, or the border, that holds all of the error. ``bad``: squared errors, infinite where not finite."""
    wrong = [_wrong_indices(bad, weight, axis, limit) for axis in range(bad.ndim)]
    if any(not indices.any() for indices in wrong):
        return None
    spans = tuple(_span(axis, indices) for axis, indices in enumerate(wrong))
    if any(span is None for span in spans):
        return None
    narrowed = tuple(span for span in spans if span is not None and (span.stop - span.start < span.length or span.step > 1))
    if not narrowed:
        return _border(bad, weight, limit)
    inside = np.zeros(bad.shape, bool)
    inside[tuple(slice(s.start, s.stop, s.step) for s in spans if s is not None)] = True
    return Region(spans=narrowed, share=float(inside.mean())) if _exact(bad, weight, inside, limit) else _border(bad, weight, limit)


def _wrong_indices(bad: np.ndarray, weight: np.ndarray, axis: int, limit: float) -> np.ndarray:
    """Which slices of an axis have more error than the limit allows, of their own size or a typical one's, whichever is larger."""
    others = _others(bad.ndim, axis)
    error, size = bad.sum(axis=others), weight.sum(axis=others)
    whole: np.ndarray = error > limit * limit * np.maximum(size, size.mean())
    return whole


def _span(axis: int, wrong: np.ndarray) -> Span | None:
    """The indices as a run, or as every k-th one over the whole axis; None when they are neither."""
    at = np.flatnonzero(wrong)
    first, length = int(at[0]), len(wrong)
    steps = np.diff(at)
    if len(at) == 1 or (steps == 1).all():
        return Span(axis=axis, length=length, start=first, stop=int(at[-1]) + 1)
    step = int(steps[0])
    if len(at) >= 3 and (steps == step).all() and first < step and int(at[-1]) + step >= length:
        return Span(axis=axis, length=length, start=first, stop=length, step=step)
    return None


def _exact(bad: np.ndarray, weight: np.ndarray, inside: np.ndarray, limit: float) -> bool:
    """True when what is outside keeps to the limit, and nearly all that is inside is worse than the worst outside."""
    outside = ~inside
    if not outside.any():
        return False
    clean = bad[outside]
    if float(clean.sum()) > limit * limit * float(weight[outside].sum()):
        return False
    return float((bad[inside] > clean.max()).mean()) >= _FILLED


def _border(bad: np.ndarray, weight: np.ndarray, limit: float) -> Region | None:
    """The edges of the last two axes that are wrong, at one width; None when the error lies elsewhere too."""
    for width in range(1, _WIDEST_BORDER + 1) if bad.ndim >= 2 else ():
        rows, columns = bad.shape[-2:]
        if min(rows, columns) <= 2 * width + 1:
            return None
        core = np.zeros(bad.shape, bool)
        core[..., width:-width, width:-width] = True
        if float(bad[core].sum()) > limit * limit * float(weight[core].sum()):
            continue
        edges = {
            f"first {width} of {rows} rows": np.s_[..., :width, width:-width],
            f"last {width} of {rows} rows": np.s_[..., -width:, width:-width],
            f"first {width} of {columns} columns": np.s_[..., width:-width, :width],
            f"last {width} of {columns} columns": np.s_[..., width:-width, -width:],
        }  # fmt: skip
        clean = float(bad[core].max())
        filled = {name: float((bad[where] > clean).mean()) for name, where in edges.items()}
        hit = tuple(name for name, share in filled.items() if share >= _FILLED)
        spoilt = [name for name, where in edges.items() if float(bad[where].sum()) > limit * limit * float(weight[where].sum())]
        return Region(border=width, edges=hit, share=1.0 - float(core.mean())) if hit and set(spoilt) == set(hit) else None
    return None


def findings(seen: Pattern, where: TensorWhere, magnitude: float, axes: Sequence[str] = ()) -> tuple[Finding, ...]:
    """What to say of a stage that fails at ``where``, each a little less bad than ``magnitude``, so that it stands right below.

    ``axes``: the task's own names of the stage's axes, first to last; without them an axis is called by its number.
    """
    said: list[tuple[str, str]] = []
    if seen.same_as:
        said.append(("other_stage", f"this is the truth of stage {seen.same_as}, not of {where.stage}"))
    growing = {drift.axis for drift in seen.drifts}  # of what grows along an axis, that it was below the limit at first is no region
    if seen.region is not None and not (seen.region.spans and {span.axis for span in seen.region.spans} <= growing):
        said.append(("region", f"{_say_region(seen.region, axes, where)}: all of the error is there, {seen.region.share:.2%} of elements"))
    said += [("growth", _say_drift(drift, _axis_name(drift.axis, _ndim(where), axes)[0])) for drift in seen.drifts]
    return tuple(
        Finding(kind=kind, where=where, magnitude=magnitude * (1 - 1e-6 * n), message=message) for n, (kind, message) in enumerate(said, 1)
    )


def _ndim(where: TensorWhere) -> int:
    return len(where.index) + 2 if where.tile else 1


def _say_drift(drift: Drift, name: str) -> str:
    name = "index" if " " in name else name
    towards = "towards the start of" if drift.backwards else "along"
    ends = f"{drift.first:.1e} at its start, {drift.last:.1e} at its end"
    if drift.law == "exponential":
        return f"error grows {_factor(drift.rate)}x per {name} {towards} axis {drift.axis} ({drift.length} long): {ends}"
    return f"error grows like {name}^{drift.rate:.2f} {towards} axis {drift.axis} ({drift.length} long): {ends}"


def _factor(rate: float) -> str:
    """Two digits of what is beyond 1: 1.02, 1.0013."""
    return f"{rate:.{max(2, math.ceil(-math.log10(rate - 1)) + 1 if 1 < rate < 1.01 else 2)}f}"


def _axis_name(axis: int, ndim: int, axes: Sequence[str]) -> tuple[str, str]:
    """How one index of an axis, and several, are called."""
    if axis < len(axes):
        return axes[axis], f"{axes[axis]}s"
    if ndim >= 2 and axis >= ndim - 2:
        return ("row", "rows") if axis == ndim - 2 else ("column", "columns")
    return f"index of axis {axis}", f"indices of axis {axis}"


def _say_region(region: Region, axes: Sequence[str], where: TensorWhere) -> str:
    if region.border:
        return "a border: " + ", ".join(f"the {edge}" for edge in region.edges)
    ndim = _ndim(where)
    return "; ".join(_say_span(span, *_axis_name(span.axis, ndim, axes)) for span in region.spans)


def _say_span(span: Span, one: str, several: str) -> str:
    count = span.stop - span.start
    if span.step > 1:
        return f"every {span.step}{_ordinal(span.step)} of {span.length} {several}, from {span.start} on"
    if count == 1:
        place = "the first" if span.start == 0 else "the last" if span.stop == span.length else f"number {span.start}"
        return f"one whole {one}, {place} of {span.length} (index {span.start})"
    if span.stop == span.length:
        return f"the last {count} of {span.length} {several}, from {span.start} on" + _remainder(span)
    if span.start == 0:
        return f"the first {count} of {span.length} {several}"
    return f"{several} {span.start} to {span.stop - 1} of {span.length}"


def _remainder(span: Span) -> str:
    """The largest power of two into which the axis falls with exactly this rest."""
    block = next((b for b in _BLOCKS if span.length % b and span.stop == span.length and span.length - span.length % b == span.start), None)
    return f", what is left over after blocks of {block}" if block else ""


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
