"""Evidence kind ``figures``: what the project's own benchmark said, and how long the judge saw it take. Trust: in-process.

The numbers are text that the program under change may have written: they are read here, with limits, and what is odd raises ValueError.
The wall time is the judge's. Units are pairs of runs, base's and the candidate's, one after the other. Parsing and assessing are pure.
"""

import json
import math
import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from infra_agent.frozen import Frozen, one_line
from infra_agent.judge.statistics import Interval, claim, clipped, trimmed_interval
from infra_agent.session.observation import FileWhere, Finding, Metric, Status
from infra_agent.task.spec import Figures

_TEXT, _LINE, _LINES = 4 << 20, 500, 20_000
_MOST, _NAME = 300, 200
_ALPHA = 0.01
"""Shared by all figures of a benchmark: among many of them some would differ by chance."""
_SMALLEST, _LARGEST = 1e-30, 1e30
_WALL = "wall time"


class BenchRun(Frozen):
    """One run of the command on one tree."""

    ended: str
    """ok; crashed, timeout, ...; bad_figures when the numbers cannot be read; tampered when the nonce is missing."""
    ending: str = ""
    wall_s: float = 0.0
    """By the judge's clock, the start of the command's process included."""
    values: dict[str, float] = Field(default_factory=dict)


class FiguresRecord(Frozen):
    """Runs in the order in which they were made; the n-th of base and the n-th of the candidate are a pair."""

    tree: str
    base_tree: str
    base: tuple[BenchRun, ...]
    candidate: tuple[BenchRun, ...]
    program: str = "workspace"
    """The file of base that the command names."""


class _Said(Frozen):
    nonce: Annotated[str, Field(max_length=64)]
    code: int = Field(ge=-64, le=255)
    printed: str
    file: str | None
    """Contents of the file that the command was to write; None when it did not."""


def read(report: bytes, nonce: str, wall_s: float, asked: Figures | None) -> BenchRun:
    """A run from what the cage left; never raises."""
    try:
        said = _Said.model_validate_json(report)
    except ValueError as error:
        return BenchRun(ended="tampered", ending=f"the report is not of the right shape: {one_line(error)}"[:2000], wall_s=wall_s)
    if said.nonce != nonce:
        return BenchRun(ended="tampered", ending="the report does not hold the judge's nonce", wall_s=wall_s)
    if said.code:
        return BenchRun(ended="crashed", ending=f"exit status {said.code}: {said.printed[-1500:]}", wall_s=wall_s)
    if asked is None:
        return BenchRun(ended="ok", wall_s=wall_s)
    text = said.file if asked.file else said.printed
    try:
        if text is None:
            raise ValueError(f"{asked.file} was not written")
        return BenchRun(ended="ok", wall_s=wall_s, values=parse(text, asked))
    except ValueError as error:
        return BenchRun(ended="bad_figures", ending=one_line(error)[:2000], wall_s=wall_s)


def parse(text: str, asked: Figures) -> dict[str, float]:
    """Name -> positive number. Raises ValueError, and nothing else, for text that is not what ``asked`` describes."""
    if len(text) > _TEXT:
        raise ValueError(f"{len(text)} characters, {_TEXT} at most")
    pairs = _matched(text, re.compile(asked.pattern)) if asked.format == "regex" else _from_json(text, asked)
    if not pairs:
        raise ValueError("no figures")
    if len(pairs) > _MOST:
        raise ValueError(f"{len(pairs)} figures, {_MOST} at most")
    found: dict[str, float] = {}
    for name, value in pairs:
        if not isinstance(name, str) or not 0 < len(name) <= _NAME or not name.isprintable():
            raise ValueError(f"a figure's name is not 1 to {_NAME} printable characters")
        if name in found:
            raise ValueError(f"{name[:80]} occurs twice")
        found[name] = _number(name, value)
    return found


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or (isinstance(value, str) and len(value) > 100):
        raise ValueError(f"{name[:80]}: not a number")
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name[:80]}: too large") from None
    if not _SMALLEST < number < _LARGEST:  # nor is NaN between them
        raise ValueError(f"{name[:80]}: {number} is not a positive number of reasonable size")
    return number


def _matched(text: str, pattern: re.Pattern[str]) -> list[tuple[Any, Any]]:
    """From lines. Long lines are passed over: a pattern must not be made to try for hours."""
    lines = text.splitlines()
    if len(lines) > _LINES:
        raise ValueError(f"{len(lines)} lines, {_LINES} at most")
    hits = (pattern.search(line) for line in lines if len(line) <= _LINE)
    return [(hit["name"], hit["value"]) for hit in hits if hit]


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _from_json(text: str, asked: Figures) -> list[tuple[Any, Any]]:
    try:
        document = json.loads(text, object_pairs_hook=_no_repeats)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if asked.format == "pytest-benchmark":
        listed = _at(document, "benchmarks", list)
        return [(_at(one, "fullname", str), _at(_at(one, "stats", dict), asked.statistic, object)) for one in listed]
    for key in asked.path.split(".") if asked.path else ():
        document = _at(document, key, object)
    if not isinstance(document, dict):
        raise ValueError(f"{asked.path or 'the document'} is no object of figures")
    return list(document.items())


def _at(document: Any, key: str, kind: type) -> Any:
    if not isinstance(document, dict) or key not in document:
        raise ValueError(f"key {key} is missing")
    if not isinstance(document[key], kind):
        raise ValueError(f"key {key} is no {kind.__name__}")
    return document[key]


def intervals(record: FiguresRecord, asked: Figures) -> dict[str, Interval]:
    """Figure -> effect, above 0 when the candidate is better; the wall time is one of them. Empty below two pairs."""
    pairs = list(zip(record.base, record.candidate, strict=False))
    if len(pairs) < 2:
        return {}
    names = sorted(set.intersection(*(set(run.values) for pair in pairs for run in pair)))
    alpha = _ALPHA / (1 + len(names))
    sign = 1 if asked.better == "lower" else -1
    walls = [clipped(math.log(then.wall_s / now.wall_s)) for then, now in pairs]
    effects = {name: [clipped(sign * math.log(then.values[name] / now.values[name])) for then, now in pairs] for name in names}
    return {_WALL: trimmed_interval(walls, alpha), **{name: trimmed_interval(units, alpha) for name, units in effects.items()}}


def assess(record: FiguresRecord, asked: Figures) -> tuple[Status, str | None, tuple[Finding, ...]]:
    """Fail when something is proven slower beyond ``delta``, or a figure is gone; inconclusive when base cannot be measured."""
    broken = next((run for run in record.base if run.ended != "ok"), None)
    if broken is not None or len(record.base) < 2 <= len(record.candidate):
        message = f"base: {broken.ended}: {broken.ending}" if broken else "base ran less than twice"
        return "inconclusive", "no_yardstick", (_finding("no_yardstick", record.program, 1e9, message),)
    ended = next((run for run in record.candidate if run.ended != "ok"), None)
    if ended is not None:
        return "fail", ended.ended, (_finding(ended.ended, record.program, 1e9, ended.ending),)
    if min(len(record.base), len(record.candidate)) < 2:
        return "inconclusive", "too_few_runs", ()
    findings = sorted([*_missing(record), *_slower(record, asked)], key=lambda f: -f.magnitude)
    return ("fail", findings[0].kind, tuple(findings)) if findings else ("pass", None, ())


def _missing(record: FiguresRecord) -> list[Finding]:
    always = set.intersection(*(set(run.values) for run in record.base))
    lost = sorted(name for name in always if any(name not in run.values for run in record.candidate))
    return [
        _finding("missing_figure", _place(name, record), 1e6, f"{name}: base's benchmark says it, the candidate's does not")
        for name in lost
    ]


def _slower(record: FiguresRecord, asked: Figures) -> list[Finding]:
    slower = {name: i for name, i in intervals(record, asked).items() if claim(i, asked.delta) == "slower"}
    kinds = {name: "slower_wall" if name == _WALL else "slower_figure" for name in slower}
    return [_finding(kinds[name], _place(name, record), -i.high, _said(name, i, asked)) for name, i in slower.items()]


def _said(name: str, interval: Interval, asked: Figures) -> str:
    times, least = math.exp(-interval.effect), math.exp(-interval.high)
    return f"{name}: {times:.3g} times base's cost, proven at least {least:.3g}; {1 + asked.delta:.3g} is allowed"


def _place(name: str, record: FiguresRecord) -> str:
    """A figure of pytest's is called after its file; others come from the program."""
    return name.split("::", 1)[0] if "::" in name else record.program


def _finding(kind: str, path: str, magnitude: float, message: str) -> Finding:
    return Finding(kind=kind, where=FileWhere(path=path), magnitude=magnitude, message=message[:600])


def metrics(record: FiguresRecord, asked: Figures) -> tuple[Metric, ...]:
    """Ratio, base over candidate, of the wall time and of each figure: above 1 is better."""
    found = intervals(record, asked) if all(run.ended == "ok" for run in (*record.base, *record.candidate)) else {}
    return tuple(
        Metric(name=name, value=math.exp(i.effect), unit="ratio", interval=(math.exp(i.low), math.exp(i.high))) for name, i in found.items()
    )


def headline(record: FiguresRecord, findings: Sequence[Finding]) -> str:
    """What was run, and what came of it."""
    names = {name for run in record.base for name in run.values}
    said = f"{len(findings)} findings, {findings[0].kind} first" if findings else "nothing proven slower"
    return f"{len(names)} figures and the wall time over {len(record.candidate)} pairs of runs: {said}"
