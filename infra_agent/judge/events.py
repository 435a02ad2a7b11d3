"""Evidence kind ``events``: what happened, in the order in which it was seen, and what nothing ordered. Trust: in-process.

Vector clocks over threads and streams. Edges: program order, a start and a join, a release and the next acquire, a message and its
receipt, a launch and what the stream then runs, an event that was recorded and whoever waited for it. Two accesses of one object,
one of them a write, that no chain of edges connects are a *race*, whatever order this run gave them. See Flanagan & Freund, PLDI 2009.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from infra_agent.frozen import Frozen
from infra_agent.session.observation import EventPairWhere, Finding, Status, ThreadWhere

Operation = Literal[
    "start", "join", "acquire", "release", "send", "receive", "launch", "run", "record", "wait", "synchronize",
    "read", "write", "alloc", "free", "blocked", "end",
]  # fmt: skip
Text = Annotated[str, Field(max_length=200)]


class Event(NamedTuple):
    """One thing that a thread or a stream did."""

    time: float
    """Seconds, of the virtual or of the real clock."""
    who: Text
    op: Operation
    object: Text
    """Thread, lock, queue, stream, event or buffer."""
    ref: Annotated[int, Field(ge=0, le=2**53)]
    """Which message, which launch, which recording of an event, which lifetime of a buffer."""
    place: Text
    """``path:line`` of the code that did it; empty where nobody knows."""

    def __str__(self) -> str:
        lifetime = f"#{self.ref}" if self.op in ("read", "write", "alloc", "free", "send", "receive") else ""
        return f"{self.who} {self.op} {self.object}{lifetime} at {self.place or '?'}"


class _Left(Frozen):
    log: Annotated[tuple[Event, ...], Field(max_length=2_000_000)]
    error: Annotated[str, Field(max_length=400)]


class EventsRecord(Frozen):
    """The log of the last schedule that ran: the first that showed a fault, if one did."""

    case: str
    tree: str
    """Digest of the files that ran."""
    ended: str
    ending: str = ""
    """What the scenario raised under that schedule, or the last lines of a request that did not end well."""
    seeds: tuple[int, ...] = ()
    """Seeds of the schedules that ran, in order."""
    delays: dict[str, float] = Field(default_factory=dict)
    """Where threads were held back in the last one."""
    log: tuple[Event, ...] = ()


def parse(output: bytes) -> tuple[tuple[Event, ...], str]:
    """Events and the scenario's own error, from what a cage left: eight bytes of length, then JSON. Raises ValueError for all else."""
    if len(output) < 8:
        raise ValueError("no log")
    (size,) = struct.unpack_from("<Q", output)
    if size > len(output) - 8:
        raise ValueError(f"a log of {size} bytes in {len(output)}")
    left = _Left.model_validate_json(output[8 : 8 + size])
    return left.log, left.error


Clock = dict[str, int]


class Violation(NamedTuple):
    """A pair of events, or one and what is missing; ``schedule``: the shortest one that shows it."""

    kind: str
    first: Event
    second: Event | None
    missing: str
    """The edge that would make it right."""
    schedule: tuple[Event, ...]


@dataclass
class _Object:
    """What is known of a buffer: its last write and the reads since, each with who did it and that thread's time then."""

    write: tuple[str, int, int] | None = None
    reads: dict[str, tuple[int, int]] = field(default_factory=dict)
    alloc: tuple[str, int, int] | None = None
    free: tuple[str, int, int] | None = None
    lifetime: int = 0

    def users(self) -> list[tuple[str, int, int]]:
        """The last write, then the reads since."""
        return [*([self.write] if self.write else []), *((who, time, where) for who, (time, where) in self.reads.items())]


@dataclass
class _Order:
    """The state of one pass over a log."""

    log: Sequence[Event]
    clocks: dict[str, Clock] = field(default_factory=dict)
    edges: dict[tuple[str, str, int], Clock] = field(default_factory=dict)
    """(kind, object, ref) -> the sender's clock."""
    objects: dict[str, _Object] = field(default_factory=dict)
    held: dict[str, dict[str, int]] = field(default_factory=dict)
    """Lock -> who holds it -> number of the event."""
    blocked: dict[str, int] = field(default_factory=dict)
    seen: dict[tuple[str, str, str], Violation] = field(default_factory=dict)
    """One violation for each kind and pair of places."""

    def clock(self, who: str) -> Clock:
        known = self.clocks.get(who)
        if known is None:
            known = self.clocks[who] = {who: 1}
        return known

    def give(self, key: tuple[str, str, int], who: str) -> None:
        """Leave the clock where another may take it, and step on."""
        mine, there = self.clock(who), self.edges.get(key)
        self.edges[key] = dict(mine) if there is None else _joined(there, mine)
        mine[who] += 1

    def take(self, key: tuple[str, str, int], who: str) -> None:
        """Be after whoever left a clock there."""
        there = self.edges.get(key)
        if there is not None:
            mine = self.clock(who)
            for other, time in there.items():
                if time > mine.get(other, 0):
                    mine[other] = time

    def after(self, who: str, other: str, time: int) -> bool:
        """Is what ``other`` did at its ``time`` before everything that ``who`` does from now on?"""
        return other == who or self.clock(who).get(other, 0) >= time

    def found(self, kind: str, first: int, second: int | None, missing: str) -> None:
        a, b = self.log[first], self.log[second] if second is not None else None
        key = (kind, f"{a.object} {a.place}", b.place if b else "")
        if key not in self.seen:
            self.seen[key] = Violation(kind, a, b, missing, _schedule(self.log, first, second))


def _joined(one: Clock, other: Clock) -> Clock:
    return {who: max(one.get(who, 0), other.get(who, 0)) for who in one.keys() | other.keys()}


def violations(log: Sequence[Event]) -> list[Violation]:
    """Everything wrong with a log: races, lifetimes, locks. One for each pair of places."""
    order = _Order(log)
    for number, event in enumerate(log):
        _STEPS[event.op](order, number, event)
    _at_the_end(order)
    return list(order.seen.values())


def _start(order: _Order, number: int, event: Event) -> None:
    order.give(("thread", event.object, 0), event.who)
    order.take(("thread", event.object, 0), event.object)


def _end(order: _Order, number: int, event: Event) -> None:
    order.give(("end", event.who, 0), event.who)
    order.blocked.pop(event.who, None)


def _join(order: _Order, number: int, event: Event) -> None:
    order.blocked.pop(event.who, None)
    order.take(("end", event.object, 0), event.who)


def _acquire(order: _Order, number: int, event: Event) -> None:
    order.blocked.pop(event.who, None)
    order.take(("lock", event.object, 0), event.who)
    order.held.setdefault(event.object, {})[event.who] = number


def _release(order: _Order, number: int, event: Event) -> None:
    if event.who not in order.held.get(event.object, {}):
        order.found("not_held", number, None, f"{event.who} releases {event.object} without holding it")
    order.held.get(event.object, {}).pop(event.who, None)
    order.give(("lock", event.object, 0), event.who)


def _send(order: _Order, number: int, event: Event) -> None:
    order.give(("message", event.object, event.ref), event.who)


def _receive(order: _Order, number: int, event: Event) -> None:
    order.blocked.pop(event.who, None)
    order.take(("message", event.object, event.ref), event.who)


def _launch(order: _Order, number: int, event: Event) -> None:
    order.give(("launch", event.object, event.ref), event.who)


def _run(order: _Order, number: int, event: Event) -> None:
    order.take(("launch", event.who, event.ref), event.who)


def _record(order: _Order, number: int, event: Event) -> None:
    order.give(("event", event.object, event.ref), event.who)


def _wait(order: _Order, number: int, event: Event) -> None:
    order.blocked.pop(event.who, None)
    order.take(("event", event.object, event.ref), event.who)


def _synchronize(order: _Order, number: int, event: Event) -> None:
    """The host waits until a stream has run all that was launched so far."""
    order.blocked.pop(event.who, None)
    stream = order.clocks.get(event.object)
    if stream is not None:
        order.edges["stream", event.object, 0] = dict(stream)
        stream[event.object] += 1
        order.take(("stream", event.object, 0), event.who)


def _read(order: _Order, number: int, event: Event) -> None:
    known = order.objects.setdefault(event.object, _Object())
    if known.write and not order.after(event.who, known.write[0], known.write[1]):
        order.found("race", known.write[2], number, _edge(order.log[known.write[2]], event))
    _in_lifetime(order, known, number, event)
    known.reads[event.who] = (order.clock(event.who)[event.who], number)


def _write(order: _Order, number: int, event: Event) -> None:
    known = order.objects.setdefault(event.object, _Object())
    for who, time, where in known.users():
        if not order.after(event.who, who, time):
            order.found("race", where, number, _edge(order.log[where], event))
    _in_lifetime(order, known, number, event)
    known.write, known.reads = (event.who, order.clock(event.who)[event.who], number), {}


def _in_lifetime(order: _Order, known: _Object, number: int, event: Event) -> None:
    """Was it there, and is it still the same?"""
    if event.ref and known.lifetime and event.ref != known.lifetime and known.alloc:
        order.found("stale_use", known.alloc[2], number, f"{event.who} uses {event.object} as if it had not been given to another since")
    elif known.free and event.ref in (0, known.lifetime):
        order.found("use_after_free", known.free[2], number, f"{event.object} must not be freed before {event.who} is done with it")


def _alloc(order: _Order, number: int, event: Event) -> None:
    known = order.objects.setdefault(event.object, _Object())
    if known.alloc and not known.free:
        order.found("double_alloc", known.alloc[2], number, f"{event.object} is given away again before it is freed")
    for who, time, where in known.users():
        if not order.after(event.who, who, time):
            order.found("reused_in_use", where, number, _edge(order.log[where], event))
    order.objects[event.object] = _Object(alloc=(event.who, order.clock(event.who)[event.who], number), lifetime=event.ref)


def _free(order: _Order, number: int, event: Event) -> None:
    known = order.objects.setdefault(event.object, _Object())
    if known.free and event.ref in (0, known.lifetime):
        order.found("double_free", known.free[2], number, f"{event.object} is freed once, by whoever ends its life")
        return
    if event.ref and known.lifetime and event.ref != known.lifetime and known.alloc:
        order.found("stale_free", known.alloc[2], number, f"{event.who} frees a {event.object} that was given to another since")
        return
    for who, time, where in known.users():
        if not order.after(event.who, who, time):
            order.found("freed_in_use", where, number, _edge(order.log[where], event))
    known.free = (event.who, order.clock(event.who)[event.who], number)


def _blocked(order: _Order, number: int, event: Event) -> None:
    order.blocked[event.who] = number


_STEPS = {
    "start": _start, "join": _join, "end": _end, "acquire": _acquire, "release": _release, "send": _send, "receive": _receive,
    "launch": _launch, "run": _run, "record": _record, "wait": _wait, "synchronize": _synchronize, "read": _read, "write": _write,
    "alloc": _alloc, "free": _free, "blocked": _blocked,
}  # fmt: skip


def _edge(first: Event, second: Event) -> str:
    """What would order two accesses, in words of whoever has to write it."""
    return f"nothing makes {second.who} wait until {first.who} is done with {first.object}"


def _at_the_end(order: _Order) -> None:
    """Who still waits, and for whom."""
    for who, number in order.blocked.items():
        event = order.log[number]
        holders = order.held.get(event.object, {})
        holder = next((other for other in holders if other != who), None)
        if holder is not None:
            order.found(
                "deadlock", number, order.blocked.get(holder, holders[holder]), f"{holder} holds {event.object} and does not let go"
            )
        else:
            order.found("never_woken", number, None, f"nobody wakes {who}, which waits for {event.object}")


_MOST = 20


def _schedule(log: Sequence[Event], first: int, second: int | None) -> tuple[Event, ...]:
    """The events that lead to a violation: those of its object, and what its threads did to be ordered; the last ones."""
    last = max(first, second if second is not None else first)
    pair = {first, last}
    actors = {log[number].who for number in pair}
    thing = log[first].object
    kept = [
        number
        for number, event in enumerate(log[: last + 1])
        if number in pair or event.object == thing or (event.who in actors and event.op not in ("read", "write"))
    ]
    kept = kept[-_MOST:] if first in kept[-_MOST:] else [first, *kept[-(_MOST - 1) :]]
    return tuple(log[number] for number in kept)


def assess(record: EventsRecord) -> tuple[Status, str | None, tuple[Finding, ...]]:
    """Status, kind of failure and findings; a run that did not end well says nothing of order."""
    if record.ended != "ok":
        kind = {"timeout": "timeout", "bad_report": "tampered"}.get(record.ended, "crashed")
        where = ThreadWhere(thread="main")
        message = f"ended with {record.ended}: {record.ending}"
        return "fail", kind, (Finding(kind=kind, where=where, magnitude=1e12, message=message),)
    if not record.log:
        return "not_run", None, ()
    places: dict[tuple[str, str, str], list[Violation]] = {}
    for v in violations(record.log):
        places.setdefault((v.kind, v.first.place, v.second.place if v.second else ""), []).append(v)
    findings = tuple(_finding(found[0], [v.first.object for v in found[1:]]) for found in places.values())
    if record.ending:
        at = EventPairWhere(first=str(record.log[-1]), second="the end")
        findings += (Finding(kind="failed", where=at, magnitude=0.5, message=f"under this schedule it raises {record.ending}"),)
    return ("fail", findings[0].kind, findings) if findings else ("pass", None, ())


def _finding(found: Violation, others: list[str]) -> Finding:  # others: objects of which the same is true at the same places
    where = EventPairWhere(first=str(found.first), second=str(found.second or f"{found.first.who} goes on"))
    steps = "; ".join(f"{event.time:.6g} {event}" for event in found.schedule)
    rank = {"deadlock": 3.0, "race": 2.0, "use_after_free": 2.5, "stale_use": 2.5}.get(found.kind, 1.0)
    also = f"; the same of {', '.join(others[:3])}" + (f" and {len(others) - 3} more" if len(others) > 3 else "") if others else ""
    return Finding(kind=found.kind, where=where, magnitude=rank, message=f"{found.missing}{also}. Schedule: {steps}"[:1500])
