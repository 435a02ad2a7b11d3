"""Time a candidate beside base: three warm cages on one core, the judge on another, everything stopped but what is being timed.

Each restart gives every cage a fresh process, always in the same order of cages. The three sides walk around the six ways of sharing
them, so that from each restart to the next either base and candidate or base and base again change places: what belongs to a cage, and
what belongs to having started first or last, cancels in both.
"""

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from infra_agent.judge.contents import Pool, Tally
from infra_agent.judge.reference import Drawn
from infra_agent.judge.restart import ROLES, WARM_UPS, Restart, Role
from infra_agent.judge.statistics import LOOKS, PAIRS
from infra_agent.judge.timing import OutputFault, TimingRecord, settled
from infra_agent.sandbox.base import Reply, Sandbox, Shapes
from infra_agent.sandbox.mapping import GUARD, Layout
from infra_agent.sandbox.text import last_line
from infra_agent.task.spec import Timing

_PROGRAM = "sandboxes.runtime.calls"
WALK = ((0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 2, 1), (1, 2, 0), (2, 1, 0))
"""Cage of base, candidate, again. Steps 1, 3, 5 exchange the first two, steps 2, 4, 6 the first and the last."""
_SHORT_NS = 1_000_000
_PROBES = 8
SLOTS = (1, 2, 4, 8)
_ONE_OF = 9
_MOST_FAULTS = 20
_SAID = {
    "early": "it answered before it was asked", "lost": "what it sent is no answer", "moving": "it ran while it was to be stopped",
    "timeout": "a call took too long",
}  # fmt: skip
_ENDED = {"error": "crashed", "ended": "crashed", "early": "tampered", "lost": "tampered", "moving": "contention", "timeout": "timeout"}


class _OverError(Exception):
    """A process ended, or a claim was refuted: there is nothing more to time."""


@dataclass
class Side:
    """One of the three: the files it runs, and what its outputs were worth."""

    role: Role
    tree: bytes
    tally: Tally = field(default_factory=Tally)


@dataclass(frozen=True)
class Plan:
    """Calls of one restart: sets held by each round, warm-up rounds first."""

    slots: tuple[int, ...]

    @classmethod
    def of(cls, call_ns: float) -> "Plan":
        """For a call of base's that takes so long. Short ones are timed several at once, each number equally often."""
        if call_ns >= _SHORT_NS:
            return cls((1,) * (WARM_UPS + PAIRS))
        return cls((max(SLOTS),) * WARM_UPS + SLOTS * (PAIRS // len(SLOTS)))

    @property
    def contents(self) -> int:
        """Contents that a restart uses up."""
        return sum(self.slots)

    def shuffled(self, rng: random.Random) -> tuple[int, ...]:
        """The timed rounds in another order."""
        timed = list(self.slots[WARM_UPS:])
        rng.shuffle(timed)
        return self.slots[:WARM_UPS] + tuple(timed)


@contextmanager
def two_cores(cages: Sequence[Sandbox]) -> Iterator[None]:
    """The cages on one core, the judge's thread on another, while this lasts; on a machine with one core, all on that."""
    before = os.sched_getaffinity(0)
    cores = sorted(before)
    try:
        os.sched_setaffinity(0, {cores[0]})
        for cage in cages:
            cage.pin({cores[-1]})
        yield
    finally:
        os.sched_setaffinity(0, before)
        for cage in cages:
            if cage.alive:
                cage.pin(before)


class Crossover:
    """One case of one candidate. ``rng`` draws every order; ``args`` go to the cage's program."""

    def __init__(self, cages: Sequence[Sandbox], trees: dict[Role, bytes], pool: Pool, args: dict[str, Any], rng: random.Random) -> None:
        self._cages = cages
        self._sides = {role: Side(role, trees[role]) for role in ROLES}
        self._pool = pool
        self._args = args
        self._rng = rng
        self._faults: list[OutputFault] = []
        self._restarts: list[Restart] = []
        self._ended = ""
        self._ended_role: Role | None = None
        self._planned: tuple[float, ...] = ()

    def run(self, record: TimingRecord, plan: Plan, timing: Timing) -> TimingRecord:
        """Restart until a look settles it, or something ends it. ``record``: what is known before."""
        try:
            with two_cores(self._cages):
                for look in LOOKS:
                    while len(self._restarts) < look.restarts:
                        self._restart(plan)
                    record = self._filled(record)
                    if settled(record, timing):
                        return record
        except _OverError:
            return self._filled(record)
        return record

    def _filled(self, record: TimingRecord) -> TimingRecord:
        return record.model_copy(
            update={
                "restarts": tuple(self._restarts),
                "outputs": {role: side.tally.outputs for role, side in self._sides.items()},
                "full": {role: side.tally.full for role, side in self._sides.items()},
                "closest": self._sides["candidate"].tally.closest,
                "faults": tuple(self._faults),
                "ended": self._ended,
                "ended_role": self._ended_role,
                "planned_s": self._planned,
            }
        )

    def _restart(self, plan: Plan) -> None:
        """Fresh processes, all rounds, and their end."""
        began, number = time.monotonic(), len(self._restarts)
        arrangement = WALK[number % len(WALK)]
        placed = {role: self._cages[cage] for role, cage in zip(ROLES, arrangement, strict=True)}
        with ExitStack() as running:
            for role in starters(arrangement):
                self._start(role, placed[role], max(plan.slots), running)
            rounds = Rounds(placed, self._pool, plan.shuffled(self._rng), self._rng)
            for turn in range(len(rounds.slots)):
                self._round(rounds, turn)
        if self._ended:
            raise _OverError
        self._restarts.append(rounds.finished(arrangement))
        if not self._planned:
            self._planned = tuple(look.restarts * (time.monotonic() - began) for look in LOOKS)

    def _start(self, role: Role, cage: Sandbox, most: int, running: ExitStack) -> None:
        """Load the entry. The sets it finds are warm-up contents that are replaced before they are timed."""
        first = self._pool.drawn[0]
        sections = {"tree": self._sides[role].tree, **{f"inputs.{k}": first.inputs for k in range(most)}}
        reply = cage.start(_PROGRAM, self._args, sections, slots_of(first, most))
        running.callback(self._stop, role, cage)
        if reply.status != "ok":
            self._over(role, reply)

    def _stop(self, role: Role, cage: Sandbox) -> None:
        """End a process; one that did not last until then has refuted itself, and what it printed says how."""
        result = cage.stop()
        if self._ended_role == role or (not self._ended and not cage.alive):
            kind, _, message = (self._ended or f"crashed: {result.why}").partition(": ")
            printed = last_line(result.text) if kind == "crashed" else ""
            self._ended, self._ended_role = f"{kind}: {printed or message or result.why}"[:400], role

    def _over(self, role: Role, reply: Reply) -> None:
        self._ended, self._ended_role = f"{_ENDED[reply.status]}: {_SAID.get(reply.status, '')}", role
        raise _OverError

    def _round(self, rounds: "Rounds", turn: int) -> None:
        """The same contents to all three, one after the other in random order; each output is checked before the next call."""
        for role in rounds.order[turn]:
            reply, output = rounds.call(role, turn)
            if reply.status != "ok":
                self._over(role, reply)
            self._check(rounds, role, turn, output)

    def _check(self, rounds: "Rounds", role: Role, turn: int, output: bytes) -> None:
        tally, layout = self._sides[role].tally, rounds.layouts[role]
        earlier = rounds.used(turn)
        for number, content in enumerate(rounds.contents[turn]):
            fault = self._pool.check(output, layout, number, content, earlier, tally)
            if fault is None and self._full(tally):
                fault = self._pool.compare(output, layout, number, content, tally)
            if fault is not None:
                number = len(self._restarts)
                self._faults.append(
                    OutputFault(role=role, restart=number, round=turn, stage=fault.stage, kind=fault.kind, message=fault.message[:300])
                )
                if role == "candidate" or len(self._faults) >= _MOST_FAULTS:
                    raise _OverError

    def _full(self, tally: Tally) -> bool:
        """Of every nine outputs one, whichever: more than a tenth, and nobody can say which."""
        place = (tally.outputs - 1) % _ONE_OF
        if place == 0:
            tally.drawn = self._rng.randrange(_ONE_OF)
        return place == tally.drawn


class Rounds:
    """The calls of one restart."""

    def __init__(self, placed: dict[Role, Sandbox], pool: Pool, slots: tuple[int, ...], rng: random.Random) -> None:
        self.placed = placed
        self.slots = slots
        self.layouts: dict[Role, Layout] = {role: cage.layout for role, cage in placed.items()}
        self.order: list[tuple[Role, ...]] = [tuple(rng.sample(ROLES, len(ROLES))) for _ in slots]
        shuffled = rng.sample(range(len(pool)), sum(slots))
        ends = [sum(slots[: turn + 1]) for turn in range(len(slots))]
        self.contents = [tuple(shuffled[end - held : end]) for end, held in zip(ends, slots, strict=True)]
        self._seen = shuffled
        self._pool = pool
        self._replies: dict[Role, list[Reply]] = {role: [] for role in placed}
        self._woken: dict[Role, list[int]] = {role: [] for role in placed}

    def used(self, turn: int) -> Sequence[int]:
        """Contents of the rounds before and of this one."""
        return self._seen[: sum(self.slots[: turn + 1])]

    def call(self, role: Role, turn: int) -> tuple[Reply, bytes]:
        """Give a side its contents while it is stopped, let it answer, take its outputs while it is stopped again."""
        cage, held = self.placed[role], self.slots[turn]
        slots = self.layouts[role].slots
        length = max(slot.offset + slot.nbytes for name, slot in slots.items() if int(name.split("/")[0]) == held - 1) + 2 * GUARD
        woken = cage.call(0, 1)  # on contents it has seen: after a stop caches are cold, and a core may sleep
        if woken.status != "ok":
            return woken, b""
        self._woken[role].append(woken.wall_ns)
        cage.put({f"inputs.{k}": self._pool.drawn[content].inputs for k, content in enumerate(self.contents[turn])}, length)
        reply = cage.call(0, held)
        self._replies[role].append(reply)
        return reply, cage.output(length)

    def finished(self, arrangement: tuple[int, int, int]) -> Restart:
        """What was seen, for the record."""
        replies = self._replies
        return Restart(
            cages=arrangement,
            slots=self.slots,
            order=tuple("".join(role[0] for role in order) for order in self.order),
            contents=tuple(self.contents),
            ns={role: tuple(reply.wall_ns for reply in replies[role]) for role in ROLES},
            idle_ns={role: tuple(reply.idle_cpu_ns for reply in replies[role]) for role in ROLES},
            child_ns={role: tuple(max(0, reply.child_ns) for reply in replies[role]) for role in ROLES},
            wake_ns={role: tuple(self._woken[role]) for role in ROLES},
        )


def starters(arrangement: Sequence[int]) -> list[Role]:
    """Who starts first, second and third: the order of cages, so that a place in it goes with the cage."""
    return sorted(ROLES, key=lambda role: arrangement[ROLES.index(role)])


def slots_of(content: Drawn, sets: int) -> Shapes:
    """Output slots for so many sets of inputs, set by set."""
    return {f"{k}/{stage}": shape for k in range(sets) for stage, shape in content.shapes.items()}


def call_ns(cage: Sandbox, tree: bytes, content: Drawn, args: dict[str, Any]) -> float:
    """Nanoseconds of a call by base's own clock, to plan with; one that fails here fails again, and is told then."""
    reply = cage.start(_PROGRAM, args, {"tree": tree, "inputs.0": content.inputs}, slots_of(content, 1))
    replies = [cage.call(0, 1) for _ in range(_PROBES)] if reply.status == "ok" else [reply]
    cage.stop()
    return float(min(max(reply.child_ns, 1) for reply in replies))
