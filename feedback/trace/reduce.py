"""From a list of Chrome-trace events to what there is to say of them. Pure: no clock, no file, no torch."""

import gc
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from operator import attrgetter

from feedback.trace import critical, lanes
from feedback.trace.lanes import Event, Lane, Slice

_HOLDS = frozenset({"run", "gil", "sleep", "io"})
_RUNNING = frozenset({"run"})
_SHORTEST_GAP_S = 2.5e-3
"""Shorter ones lie within the distance of two looks."""
_SHORTEST_UNWOKEN_S = 1e-2
"""Where all wait for each other one of them has just begun, or ended, unseen: only a longer gap is a wait with a time limit."""
_DEPENDENT = frozenset({"lock", "condition", "join"})
_SHORTEST_DEVICE_GAP_S = 2e-5
_BETWEEN_S = 5e-5
_NOTHING_S = 1e-9
_INDEPENDENT = {state: rank for rank, state in enumerate(("run", "sleep", "io", "wait", "gil", "device", "lock", "condition", "join"))}
"""Of several that waited, the one that no other thread could have woken is named."""


@dataclass
class Gap:
    """All the times that nothing ran and the same line was what then went on. Seconds."""

    lane: str
    place: str
    state: str
    seconds: float = 0.0
    count: int = 0


@dataclass
class Blocked:
    """All the time that a thread waited at one place while another lane had what it waited for. Seconds."""

    lane: str
    place: str
    state: str
    seconds: float = 0.0
    behind: defaultdict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """Lane and place of the others meanwhile."""


@dataclass
class LineTime:
    """A line's running time in all threads, in seconds, and what of it lay in PyTorch operations."""

    seconds: float = 0.0
    operations: int = 0
    in_operations: float = 0.0
    lanes: set[str] = field(default_factory=set)


@dataclass
class Summary:
    """What a trace says. Seconds."""

    wall: float = 0.0
    busy: dict[str, float] = field(default_factory=dict)
    """Lane -> time that it ran."""
    overlapped: dict[str, float] = field(default_factory=dict)
    """Lane -> time that it ran and another lane did too."""
    both: dict[tuple[str, str], float] = field(default_factory=dict)
    """Two lanes -> time that both ran."""
    states: dict[str, float] = field(default_factory=dict)
    """State -> time in it, over all threads."""
    lines: dict[str, LineTime] = field(default_factory=dict)
    path: dict[critical.Part, float] = field(default_factory=dict)
    gaps: list[Gap] = field(default_factory=list)
    device_gaps: list[Gap] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    devices: tuple[str, ...] = ()
    """Lanes that are GPU streams."""


def reduce(events: list[Event], window: tuple[float, float] | None = None) -> Summary:
    """The summary of a trace, within ``window`` (microseconds, as events have them) if one is given."""
    with unhindered():
        return _reduced(events, window)


@contextmanager
def unhindered() -> Iterator[None]:
    """The cycle collector rests: it would look through hundreds of thousands of events again and again, and finds nothing there."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _reduced(events: list[Event], window: tuple[float, float] | None) -> Summary:
    found = lanes.parse(events)
    if window:
        found = [cut for lane in found if (cut := _clipped(lane, window[0] * 1e-6, window[1] * 1e-6)).slices]
    if not found:
        return Summary()
    begin = min(lane.slices[0].start for lane in found)
    end = max(max(piece.end for piece in lane.slices) for lane in found)
    summary = Summary(wall=end - begin, devices=tuple(lane.name for lane in found if lane.device))
    _by_line(found, summary)
    _sweep(found, summary)
    summary.path = critical.path(found, begin, end)
    return summary


def _clipped(lane: Lane, begin: float, end: float) -> Lane:
    inside = [s._replace(start=max(s.start, begin), end=min(s.end, end)) for s in lane.slices if s.end > begin and s.start < end]
    return Lane(lane.name, lane.device, inside, operations=[span for span in lane.operations if span[1] > begin and span[0] < end])


def _by_line(found: list[Lane], summary: Summary) -> None:
    states: defaultdict[str, float] = defaultdict(float)
    lines: defaultdict[str, LineTime] = defaultdict(LineTime)
    for lane in found:
        for piece in lane.slices if not lane.device else ():
            states[piece.state] += piece.end - piece.start
            if piece.state == "run" and piece.place:
                line = lines[piece.place]
                line.seconds += piece.end - piece.start
                line.lanes.add(lane.name)
        _operations(lane, lines)
    summary.states, summary.lines = dict(states), dict(lines)


def _operations(lane: Lane, lines: defaultdict[str, LineTime]) -> None:
    """Give each operation to the line that a look found around its middle; both are in order, so one pass does."""
    index = 0
    for start, end in lane.operations:
        middle = (start + end) / 2
        while index < len(lane.slices) and lane.slices[index].end <= middle:
            index += 1
        if index == len(lane.slices):
            return
        if lane.slices[index].start <= middle and lane.slices[index].place:
            line = lines[lane.slices[index].place]
            line.operations += 1
            line.in_operations += end - start


class _Sweep:
    """What is added up while time passes: ``now`` maps each lane's index to its slice."""

    def __init__(self, found: list[Lane]) -> None:
        self.lanes = found
        self.now: dict[int, Slice] = {}
        self.together: defaultdict[tuple[int, ...], float] = defaultdict(float)
        """Lanes that ran, in the order they began, and for how long these and no others did."""
        self.blocked: dict[tuple[str, str, str], Blocked] = {}
        self.gaps = {False: _Gaps(_SHORTEST_GAP_S), True: _Gaps(_SHORTEST_DEVICE_GAP_S)}
        self.has_device = any(lane.device for lane in found)

    def pass_(self, start: float, end: float) -> None:
        """The lanes stayed as they are from ``start`` to ``end``."""
        length = end - start
        running = [i for i, piece in self.now.items() if piece.state == "run"]
        if running:
            self.together[tuple(running)] += length
        if len(running) < len(self.now):
            self._waiting(length)
        # where a thread waits for the GIL another has it, so there is no gap
        self.gaps[False].pass_(start, end, running or [i for i, piece in self.now.items() if piece.state == "gil"], self)
        if self.has_device:
            self.gaps[True].pass_(start, end, [i for i in running if self.lanes[i].device], self)

    def _waiting(self, length: float) -> None:
        for i, piece in self.now.items():
            if piece.state not in ("lock", "condition"):
                continue
            holds = _HOLDS if piece.state == "lock" else _RUNNING
            others = [j for j, other in self.now.items() if j != i and other.state in holds]
            if others:
                key = (self.lanes[i].name, piece.place, piece.state)
                entry = self.blocked.setdefault(key, Blocked(*key))
                entry.seconds += length
                for j in others:
                    entry.behind[self.lanes[j].name, self.now[j].place] += length


class _Gaps:
    """Stretches in which nothing runs, given to the line that goes on first."""

    def __init__(self, shortest: float) -> None:
        self._shortest = shortest
        self._began: float | None = None
        self._waited: defaultdict[tuple[int, str, str], float] = defaultdict(float)
        self.found: dict[tuple[str, str, str], Gap] = {}

    def pass_(self, start: float, end: float, running: list[int], sweep: _Sweep) -> None:
        if not running:
            self._began = start if self._began is None else self._began
            for i, piece in sweep.now.items():
                self._waited[i, piece.place, piece.state] += end - start
            return
        self.close(start, running, sweep)

    def close(self, end: float, running: list[int], sweep: _Sweep) -> None:
        """A gap ends because ``running`` lanes go on; what was waiting in it last, if none of them did, is named."""
        if self._began is not None and end - self._began >= self._shortest:
            ranks = {
                key: (sweep.lanes[key[0]].device, key[0] not in running, _INDEPENDENT.get(key[2], 9), -seconds)
                for key, seconds in self._waited.items()
                if 2 * seconds > end - self._began
            }
            nobody = (running[0] if running else 0, "", "idle")  # no lane says what it did: the one that goes on is named
            i, place, waited = min(ranks, key=lambda key: ranks[key]) if ranks else nobody
            if (ranks or running) and (waited not in _DEPENDENT or end - self._began >= _SHORTEST_UNWOKEN_S):
                key = (sweep.lanes[i].name, place, waited)
                gap = self.found.setdefault(key, Gap(*key))
                gap.seconds += end - self._began
                gap.count += 1
        self._began = None
        self._waited.clear()


def _add_up(found: list[Lane], state: _Sweep, summary: Summary) -> None:
    for lanes_, seconds in state.together.items():
        names = sorted(found[i].name for i in lanes_)
        for name in names:
            summary.busy[name] = summary.busy.get(name, 0.0) + seconds
            if len(names) > 1:
                summary.overlapped[name] = summary.overlapped.get(name, 0.0) + seconds
        for pair in combinations(names, 2):
            summary.both[pair] = summary.both.get(pair, 0.0) + seconds


def _coarse(lane: Lane) -> list[Slice]:
    """The slices of a thread in which state and place stay the same as one: between two of torch's operations is a little Python."""
    if lane.device:
        return lane.slices
    found: list[Slice] = []
    for piece in lane.slices:
        last = found[-1] if found else None
        if last and last.state == piece.state and last.place == piece.place and piece.start - last.end < _BETWEEN_S:
            found[-1] = last._replace(end=piece.end)
        else:
            found.append(piece)
    return found


def _sweep(found: list[Lane], summary: Summary) -> None:
    """Go through all boundaries in order of time."""
    changes: list[tuple[float, int, Slice | None]] = []
    for i, lane in enumerate(found):
        slices = _coarse(lane)
        for piece, after in zip(slices, [*slices[1:], None], strict=True):
            changes.append((piece.start, i, piece))
            if after is None or after.start > piece.end:
                changes.append((piece.end, i, None))
    changes.sort(key=lambda change: (*change[:2], change[2] is not None))
    state, moment = _Sweep(found), changes[0][0]
    for when, i, piece_now in changes:
        if when > moment + _NOTHING_S:
            state.pass_(moment, when)
            moment = when
        if piece_now is None:
            state.now.pop(i, None)
        else:
            state.now[i] = piece_now
    state.gaps[False].close(moment, [], state)
    _add_up(found, state, summary)
    longest = attrgetter("seconds")
    summary.gaps = sorted(state.gaps[False].found.values(), key=longest, reverse=True)
    summary.device_gaps = sorted(state.gaps[True].found.values(), key=longest, reverse=True)
    summary.blocked = sorted(state.blocked.values(), key=longest, reverse=True)
