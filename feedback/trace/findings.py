"""A summary as findings: each at a line, a thread or a stream, worst first. Pure."""

from collections import Counter, defaultdict
from typing import Any

from feedback.trace.reduce import Gap, LineTime, Summary

_SHARE = 0.1
"""Of the time, below which nothing is said: a reader has better places to look."""
_GAP_SHARE = 0.05
_OFTEN = 64
"""Executions a call from which a line is a loop's: one that runs a few times takes its time in what it calls."""
_OVERLAP = 0.3
"""Threads that wait for each other and yet run at once for more than this share of the waiting do overlap."""
_MOST_PATH = 5
_SHOWN_LINES = 40
_DOES = {
    "lock": "waits for a lock", "condition": "waits for another thread", "join": "waits for a thread's end", "gil": "waits for the GIL",
    "sleep": "sleeps", "io": "waits in a system call", "device": "waits for the device", "wait": "waits",
    "run": "runs", "idle": "is idle",
}  # fmt: skip
Finding = dict[str, Any]
Counts = Counter[tuple[str, int]]


def split(place: str) -> tuple[str, int]:
    """Path and line of ``path:line``."""
    path, _, line = place.rpartition(":")
    return path, int(line)


def candidates(summary: Summary) -> set[tuple[str, int]]:
    """Lines that take enough of the running time to count how often they run."""
    return {split(place) for place, line in summary.lines.items() if line.seconds >= _SHARE * summary.wall}


def findings(summary: Summary, calls: int, counts: Counts | None) -> list[Finding]:
    """Everything there is to say; seconds are of one call. ``counts``: executions of lines in one call, None where not counted."""
    if not summary.wall:
        return []
    found = [_hot(place, line, summary, calls, counts) for place, line in summary.lines.items() if _is_hot(place, line, summary, counts)]
    found += [_gap(gap, summary, calls) for gap in summary.gaps if gap.seconds >= _GAP_SHARE * summary.wall]
    found += [_device_gap(gap, summary, calls) for gap in summary.device_gaps if gap.seconds >= _SHARE * summary.wall]
    found += _locked(summary, calls) + _in_turns(summary, calls) + _streams(summary, calls) + _path(summary, calls)
    return sorted(found, key=lambda finding: -float(finding["magnitude"]))


def _finding(kind: str, lane: str, place: str, magnitude: float, message: str) -> Finding:
    path, line = split(place) if place else ("", 0)
    where = {"type": "line", "path": path, "line": line} if path else {"type": "thread", "thread": lane}
    return {"kind": kind, "where": where, "magnitude": magnitude, "message": message}


def _is_hot(place: str, line: LineTime, summary: Summary, counts: Counts | None) -> bool:
    often = counts is not None and counts[split(place)] >= _OFTEN
    return often and line.seconds >= _SHARE * summary.wall


def _hot(place: str, line: LineTime, summary: Summary, calls: int, counts: Counts | None) -> Finding:
    times = counts[split(place)] if counts else 0
    a_call = line.seconds / calls
    inside = min(1.0, line.in_operations / line.seconds)
    said = (
        f"runs {times} times a call, {a_call:.3g} s in all ({line.seconds / summary.wall:.0%} of the time), "
        f"{a_call / times * 1e6:.3g} us each; {inside:.0%} of that inside {line.operations / calls:.0f} PyTorch operations; "
        f"thread {', '.join(sorted(line.lanes)[:4])}"
    )
    return _finding("hot_line", "", place, 1 + line.seconds / summary.wall, said)


def _gap(gap: Gap, summary: Summary, calls: int) -> Finding:
    share = gap.seconds / summary.wall
    said = f"nothing runs for {gap.seconds / calls:.3g} s a call ({share:.0%} of the time, {gap.count / calls:.3g} times): "
    return _finding(
        "gap", gap.lane, gap.place, 1 + share, f"{said}thread {gap.lane} {_DOES[gap.state]} here, and what then goes on is due before"
    )


def _device_gap(gap: Gap, summary: Summary, calls: int) -> Finding:
    share = gap.seconds / summary.wall
    said = f"no stream runs anything for {gap.seconds / calls:.3g} s a call ({share:.0%} of the time, {gap.count / calls:.3g} times)"
    return _finding("gap", gap.lane, gap.place, 1 + share, f"{said}; {gap.lane} {_DOES[gap.state]} here meanwhile")


def _locked(summary: Summary, calls: int) -> list[Finding]:
    """Waits for a lock, by place: whoever holds it works, or sleeps, in the meantime."""
    by_place: defaultdict[str, list[Any]] = defaultdict(list)
    for blocked in summary.blocked:
        if blocked.state == "lock":
            by_place[blocked.place or blocked.lane].append(blocked)
    found = []
    for entries in by_place.values():
        seconds = sum(blocked.seconds for blocked in entries)
        if seconds < _SHARE * summary.wall:
            continue
        behind: Counter[tuple[str, str]] = Counter()
        for blocked in entries:
            behind.update(blocked.behind)
        (holder, at), _ = behind.most_common(1)[0]
        who = ", ".join(sorted({blocked.lane for blocked in entries})[:4])
        said = (
            f"thread {who} waits for a lock here {seconds / calls:.3g} s a call ({seconds / summary.wall:.0%} of the time) "
            f"while {holder} is at {at or 'code outside the workspace'}"
        )
        found.append(_finding("serialised", entries[0].lane, entries[0].place, 1 + seconds / summary.wall, said))
    return found


def _in_turns(summary: Summary, calls: int) -> list[Finding]:
    """Two threads of which each waits while the other runs, and that hardly ever run at once: they hand the work to and fro."""
    waits: defaultdict[tuple[str, str], float] = defaultdict(float)
    places: dict[str, tuple[float, str]] = {}
    for blocked in summary.blocked:
        if blocked.state == "condition":
            places[blocked.lane] = max(places.get(blocked.lane, (0.0, "")), (blocked.seconds, blocked.place))
            for (lane, _), seconds in blocked.behind.items():
                waits[blocked.lane, lane] += seconds
    found = []
    for (first, second), seconds in waits.items():
        back = waits.get((second, first), 0.0)
        together = summary.both.get((min(first, second), max(first, second)), 0.0)
        if first < second and min(seconds, back) >= _SHARE * summary.wall and together < _OVERLAP * min(seconds, back):
            lane = max((first, second), key=lambda name: places[name])
            other = second if lane == first else first
            said = (
                f"threads {first} and {second} run in turns: {first} waits {seconds / calls:.3g} s a call for {second}, "
                f"which waits {back / calls:.3g} s for it; both run at once for "
                f"{together / calls:.3g} s; {other} waits at {places[other][1] or 'a library'}"
            )
            found.append(_finding("serialised", lane, places[lane][1], 1 + min(seconds, back) / summary.wall, said))
    return found


def _streams(summary: Summary, calls: int) -> list[Finding]:
    """Streams of which each has work and that never run at once."""
    found = []
    for index, first in enumerate(summary.devices):
        for second in summary.devices[index + 1 :]:
            least = min(summary.busy.get(first, 0.0), summary.busy.get(second, 0.0))
            together = summary.both.get((min(first, second), max(first, second)), 0.0)
            if least >= _SHARE * summary.wall and together < _SHARE * least:
                said = (
                    f"{first} and {second} run at once for {together / calls:.3g} s of the {least / calls:.3g} s a call that either could"
                )
                found.append(_finding("serialised", first, "", 1 + least / summary.wall, said))
    return found


def _path(summary: Summary, calls: int) -> list[Finding]:
    """The lines that most of the critical path was spent at. Facts, ranked below the faults."""
    spent: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    lanes: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for part, seconds in summary.path.items():
        named = "" if part.place else part.name if part.state != "idle" else "between its slices"
        spent[part.place, named, part.state] += seconds
        lanes[part.place, named, part.state][part.lane] += seconds  # type: ignore[assignment]
    whole = sum(summary.path.values())
    found = []
    for (place, named, state), seconds in sorted(spent.items(), key=lambda item: -item[1])[:_MOST_PATH]:
        if seconds >= _SHARE * whole:
            lane = lanes[place, named, state].most_common(1)[0][0]
            said = f"{seconds / calls:.3g} s of the {whole / calls:.3g} s critical path ({seconds / whole:.0%}): {lane} {_DOES[state]} here"
            found.append(_finding("critical_path", lane, place, seconds / whole, said + (f", in {named}" if named else "")))
    return found


def metrics(summary: Summary, calls: int) -> list[dict[str, Any]]:
    """Time of a call, what of it several lanes ran at once, and the threads' time by state."""
    running = sum(summary.busy.values())
    several = sum(summary.overlapped.values())
    rows = [("call", summary.wall / calls, "s"), ("overlap", several / running if running else 0.0, "1")]
    rows += [(f"threads_{state}", seconds / calls, "s") for state, seconds in sorted(summary.states.items(), key=lambda item: -item[1])]
    return [{"name": name, "value": value, "unit": unit} for name, value, unit in rows]


def data(summary: Summary, calls: int, counts: Counts | None) -> dict[str, Any]:
    """The reduction in full, seconds of one call."""
    ranked = sorted(summary.lines.items(), key=lambda item: -item[1].seconds)[:_SHOWN_LINES]
    lines = [
        {
            "place": place,
            "self_s": line.seconds / calls,
            "operations": line.operations / calls,
            "in_operations_s": line.in_operations / calls,
            "executions": counts.get(split(place)) if counts is not None else None,
        }
        for place, line in ranked
    ]
    path = sorted(summary.path.items(), key=lambda item: -item[1])[:_SHOWN_LINES]
    return {
        "lines": lines,
        "path": [{**part._asdict(), "seconds": seconds / calls} for part, seconds in path],
        "busy_s": {lane: seconds / calls for lane, seconds in summary.busy.items()},
        "overlapped_s": {lane: seconds / calls for lane, seconds in summary.overlapped.items()},
        "both_s": [[*pair, seconds / calls] for pair, seconds in summary.both.items()],
    }
