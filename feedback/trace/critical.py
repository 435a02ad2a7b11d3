"""The critical path: walked backwards from the end, from each wait to whatever ended it. Pure."""

from collections import defaultdict
from typing import NamedTuple

from feedback.trace.lanes import Lane, Slice

_WORKS, _HOLDS = frozenset({"run", "gil"}), frozenset({"run", "gil", "sleep", "io", "device", "wait"})
_ENDED_BY = {
    "lock": _HOLDS, "condition": _HOLDS, "join": _HOLDS, "sleep": _WORKS, "io": _WORKS, "device": _WORKS, "wait": _WORKS,
}  # fmt: skip
"""State -> states of another lane that may have ended it: who holds a lock may be asleep; a sleep that outlasts all work is a wait."""
_STEPS = 500_000
_NOTHING_S = 1e-9


class Part(NamedTuple):
    """A kind of stretch of the path."""

    lane: str
    place: str
    state: str
    name: str


def path(lanes: list[Lane], begin: float, end: float) -> dict[Part, float]:
    """Seconds of the path by what they were spent on; what no lane accounts for has the state ``idle``."""
    found: defaultdict[Part, float] = defaultdict(float)
    moment = end
    lane = _last(lanes, moment)
    for _ in range(_STEPS):
        if lane is None or moment <= begin:
            break
        index = lane.at(moment)
        if index < 0:
            lane = _present(lanes, lane, moment)
            continue
        piece = lane.slices[index]
        if piece.end < moment - 1e-9:  # a hole in the lane
            starter = None if lane.device else _present(lanes, lane, moment)
            if starter:
                lane = starter
                continue
            other = _ending(lanes, lane, piece.end, moment, _WORKS)
            until = max(piece.end, other[1] if other else piece.end, begin)
            found[Part(lane.name, "", "idle", "")] += moment - until
            moment, lane = until, other[0] if other else lane
            continue
        moment, lane = _step(lanes, lane, piece, moment, begin, found)
    return {part: seconds for part, seconds in found.items() if seconds > _NOTHING_S}


def _step(lanes: list[Lane], lane: Lane, piece: Slice, moment: float, begin: float, found: defaultdict[Part, float]) -> tuple[float, Lane]:
    """One slice backwards: through it, or over to the lane that ended the wait."""
    part, start = Part(lane.name, piece.place, piece.state, piece.name), max(piece.start, begin)
    if piece.state in _ENDED_BY:
        other = _ending(lanes, lane, start, moment, _ENDED_BY[piece.state])
        if other:
            found[part] += moment - other[1]
            return other[1], other[0]
    found[part] += moment - start
    if lane.device:
        before = _before(lanes, lane, piece, start)
        found[Part(lane.name, "", "idle", "")] += start - max(before[0], begin)
        return before
    return start, lane


def _before(lanes: list[Lane], lane: Lane, piece: Slice, start: float) -> tuple[float, Lane]:
    """What a kernel waited for: the last of its launch, the kernel before it, and kernels of other streams."""
    best: tuple[float, Lane] | None = None
    for other in lanes:
        index = other.at(start + 1e-9) if other.device else -1
        while other is lane and index >= 0 and other.slices[index].start >= start:
            index -= 1
        ended = other.slices[index].end if index >= 0 else -1.0
        if index >= 0 and ended <= start + 1e-9 and (best is None or ended > best[0]):
            best = (ended, other)
    if best is None or piece.cause > best[0]:
        host = _covering(lanes, piece.cause)
        if host:
            return min(piece.cause, start), host
    return best or (start, lane)


def _covering(lanes: list[Lane], moment: float) -> Lane | None:
    for lane in lanes:
        index = lane.at(moment + 1e-9) if not lane.device else -1
        if index >= 0 and lane.slices[index].end >= moment:
            return lane
    return None


def _ending(lanes: list[Lane], lane: Lane, start: float, end: float, states: frozenset[str]) -> tuple[Lane, float] | None:
    """The other lane that was last in one of ``states`` between ``start`` and ``end``, and until when.

    Of several at once, the one whose slice ends nearest: it is what stopped when the wait did.
    """
    best: tuple[float, float, Lane] | None = None
    for other in lanes:
        index = other.at(end) if other is not lane else -1
        while index >= 0 and other.slices[index].end > start:
            piece = other.slices[index]
            if piece.state in states:
                until = min(piece.end, end)
                if until > start + 1e-9 and (best is None or (until, -piece.end) > best[:2]):
                    best = (until, -piece.end, other)
                break
            index -= 1
    return (best[2], best[0]) if best else None


def _present(lanes: list[Lane], lane: Lane, moment: float) -> Lane | None:
    """A thread begins at ``moment``: the path goes on in one that ran then, else in any that was there."""
    others = [other for other in lanes if other is not lane and not other.device and _covers(other, moment)]
    running = [other for other in others if other.slices[other.at(moment)].state == "run"]
    return next(iter(running or others), None)


def _covers(lane: Lane, moment: float) -> bool:
    index = lane.at(moment)
    return index >= 0 and lane.slices[index].end >= moment - 1e-9


def _last(lanes: list[Lane], end: float) -> Lane | None:
    """The lane that is there at the end; the first of several, which is the caller's."""
    there = [lane for lane in lanes if lane.slices and lane.slices[-1].end >= end - 1e-9]
    return next(iter(sorted(there, key=lambda lane: lane.device)), None)
