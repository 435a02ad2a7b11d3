"""From waits and samples to findings: who held the GIL, for how long at a time, in which C function. Pure."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from sandboxes.runtime import spy
from sandboxes.runtime.spy import Samples, Stack

_FEWEST = 3
"""Long waits of a line before anything is said of it: one may be a page fault or the machine's."""
_HELD_NS = 5_000_000
"""A hold from here on did not give way when asked: Python code would, in the hurried look, within a fifth of it."""
_SHARE = 0.02
"""Of the time, below which a line is not worth a reader's while."""
_MOSTLY = 0.3
"""Of the time that a line made others wait: with less in long holds it is competition, on a machine that was busy."""
_BUSY = 0.2
"""Share of the time that a heartbeat waits from which competition of Python code is worth saying."""
_WAITS = 0.1
_NANO = 1e-9
Place = tuple[str, int] | None
Key = tuple[str, Place]
"""Thread and line."""


@dataclass
class Line:
    """What is known of one line of one thread."""

    waits: list[int] = field(default_factory=list)
    """Long waits of the heartbeat that it caused in the usual look, in ns."""
    kept: list[tuple[int, int]] = field(default_factory=list)
    """Those of the hurried look, and how much of each it kept the GIL by its own doing."""
    samples: list[tuple[Stack, int]] = field(default_factory=list)
    share: float = 0.0
    """Of the looks of py-spy, those that found it holding the GIL."""


def broken(said: dict[str, Any]) -> dict[str, Any]:
    """The report on a program that could not be observed because it failed."""
    how = said.get("error") or f"the process ended: {said.get('died')}"
    findings = []
    if said.get("at"):
        path, line = said["at"]
        where = {"type": "line", "path": path, "line": line}
        findings.append({"kind": "crashed", "where": where, "magnitude": 1.0, "message": how})
    return {"status": "fail", "headline": f"the entry failed: {how}"[:400], "findings": findings}


def summarise(said: dict[str, Any], holders: Samples | None, everyone: Samples | None, refusal: str) -> dict[str, Any]:
    """The report. ``said``: the heartbeat's data; ``refusal``: why py-spy saw nothing, empty when it did."""
    usual, hurried = said["usual"], said["hurried"]
    waits = sorted(usual["waits"])
    fraction = sum(waits) / max(1, usual["wall_ns"])
    lines = _lines(usual["holds"], hurried["holds"], holders)
    held = {key: long for key, line in lines.items() if (long := _long(line, hurried["wall_ns"]))}
    found = [_held(key, lines[key], long, hurried["wall_ns"], refusal) for key, long in held.items()] + _waiting(everyone)
    found += _competing({key: line for key, line in lines.items() if key not in held}, fraction, usual)
    found.sort(key=lambda f: -float(f["magnitude"]))
    named = f"worst: {_worst(found)}" if found else "no line holds it for long"
    gaps = [f"run-queue wait is not subtracted ({said['blind']})"] * bool(said["blind"])
    gaps += [f"no C function can be named: {refusal}"] * bool(refusal)
    headline = (
        f"a thread that asks for the GIL waits {fraction:.1%} of the time (p50 {_ms(waits, 0.5):.2f} ms, p99 {_ms(waits, 0.99):.2f} ms, "
        f"longest {_ms(waits, 1.0):.1f} ms); {'; '.join([named, *gaps])}"
    )
    metrics = [
        _metric("wait_fraction", fraction),
        _metric("wait_p50", _ms(waits, 0.5) / 1e3, "s"),
        _metric("wait_p99", _ms(waits, 0.99) / 1e3, "s"),
    ]
    metrics += [_metric("wait_longest", _ms(waits, 1.0) / 1e3, "s"), _metric("run_queue_wait", said["queued_ns"] * _NANO, "s")]
    data = {"beats": len(waits), "calls": said["calls"], "timer_overhead_s": said["base_ns"] * _NANO, "lines": _listed(lines)}
    data |= {"longest": said["longest"], "threads": waiting_shares(everyone), "not_named": refusal}
    return {"status": "pass", "headline": headline[:400], "metrics": metrics, "findings": found, "data": data}


def _lines(usual: list[list[Any]], hurried: list[list[Any]], holders: Samples | None) -> dict[Key, Line]:
    """By thread and line. A wait during which no thread ran is the line's that py-spy saw holding most: it held while it slept."""
    lines: defaultdict[Key, Line] = defaultdict(Line)
    for thread, stack, count in holders.stacks if holders else ():
        line = lines[thread, spy.workspace_place(stack)]
        line.samples.append((stack, count))
        line.share += count / holders.rounds if holders else 0.0
    most = max(lines, key=lambda key: lines[key].share, default=("", None))

    def at(thread: str, place: list[Any] | None) -> Line:
        return lines[(thread, (place[0], place[1]) if place else None) if thread else most]

    for thread, place, wait, _ in usual:
        at(thread, place).waits.append(wait)
    for thread, place, wait, length in hurried:
        at(thread, place).kept.append((wait, length))
    return lines


def _long(line: Line, wall_ns: int) -> list[int]:
    """Waits, sorted, that a line caused because one call of it did not give way when asked; empty when it is not worth saying."""
    long = sorted(wait for wait, length in line.kept if length >= _HELD_NS)
    little = len(long) < _FEWEST or sum(long) < max(_SHARE * wall_ns, _MOSTLY * sum(wait for wait, _ in line.kept))
    return [] if little else long


def _held(key: Key, line: Line, long: list[int], wall_ns: int, refusal: str) -> dict[str, Any]:
    function, inside = spy.functions([sample for sample in line.samples if spy.called(sample[0])])  # Python code would have given way
    who = f"{function} called here" if function else "this line" if refusal or not line.samples else "C code without a symbol here"
    within = f", mostly in {inside}" if inside else ""
    unnamed = f"; the C function cannot be named: {refusal}" if refusal else ""
    share = sum(long) / wall_ns
    message = (
        f"{who} holds the GIL{within}: another thread waits {share:.1%} of the time for it, p99 {_ms(long, 0.99):.1f} ms, "
        f"longest {long[-1] * 1e-6:.1f} ms, {len(long)} times; thread {key[0] or 'unknown'}{unnamed}"
    )
    return _finding("gil_held", key, 1 + share, message)


def _competing(lines: dict[Key, Line], fraction: float, usual: dict[str, Any]) -> list[dict[str, Any]]:
    """Lines that hold the GIL much of the time and give way when asked: Python code, or many short calls."""
    if fraction < _BUSY:
        return []
    findings = []
    for key, line in lines.items():
        waited = sum(line.waits) / usual["wall_ns"]
        if max(waited, line.share) < _BUSY / 2 or not line.waits:
            continue
        function, _ = spy.functions(line.samples)
        what = f"calls of {function}" if function else "Python code"
        message = (
            f"{what} here holds the GIL {line.share:.0%} of the time and gives way only after {usual['interval_ns'] * 1e-6:.0f} ms: "
            f"another thread waits {waited:.1%} of the time for it; thread {key[0]}"
        )
        findings.append(_finding("gil_busy", key, max(waited, 0.01), message))
    return findings


def waiting_shares(everyone: Samples | None) -> dict[str, float]:
    """Thread -> share of the looks that found it waiting for the GIL; threads of the instrument are left out."""
    if everyone is None:
        return {}
    waiting: defaultdict[str, float] = defaultdict(float)
    for thread, stack, count in everyone.stacks:
        if not thread.startswith("heartbeat"):
            waiting[thread] += count / everyone.rounds if spy.waits_for_gil(stack) else 0.0
    return {thread: round(share, 3) for thread, share in sorted(waiting.items(), key=lambda item: -item[1])}


def _waiting(everyone: Samples | None) -> list[dict[str, Any]]:
    return [
        _finding("gil_wait", (thread, None), share / 2, f"waits for the GIL {share:.0%} of the time")
        for thread, share in waiting_shares(everyone).items()
        if share >= _WAITS
    ]


def _listed(lines: dict[Key, Line]) -> list[dict[str, Any]]:
    ranked = sorted(lines.items(), key=lambda item: -(sum(item[1].waits) * _NANO + item[1].share))
    return [
        {
            "thread": thread,
            "place": place,
            "waits": len(line.waits),
            "waited_s": sum(line.waits) * _NANO,
            "holds_share": line.share,
        }
        for (thread, place), line in ranked[:40]
    ]


def _worst(found: list[dict[str, Any]]) -> str:
    where = found[0]["where"]
    place = f"{where['path']}:{where['line']}" if where["type"] == "line" else f"thread {where['thread']}"
    return f"{found[0]['kind']} at {place}"


def _ms(ordered: list[int], share: float) -> float:
    """A quantile of sorted nanoseconds, in ms; 0 of nothing."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e-6 if ordered else 0.0


def _metric(name: str, value: float, unit: str = "1") -> dict[str, Any]:
    return {"name": name, "value": value, "unit": unit}


def _finding(kind: str, key: Key, magnitude: float, message: str) -> dict[str, Any]:
    thread, place = key
    where = {"type": "line", "path": place[0], "line": place[1]} if place else {"type": "thread", "thread": thread or "unknown"}
    return {"kind": kind, "where": where, "magnitude": magnitude, "message": message}
