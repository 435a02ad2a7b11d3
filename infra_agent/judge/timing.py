"""Evidence kind ``timing``: base and candidate on the judge's clock. From a judge-written record to a claim; pure.

Three processes take part: *base*, the *candidate*, and base *again*, which says what the machine makes of two equal programs.
``infra_agent/judge/crossover.py`` writes the record.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import Field

from infra_agent.frozen import Frozen
from infra_agent.judge import roofline, suspicion
from infra_agent.judge.restart import Restart, Role, effect, seconds
from infra_agent.judge.statistics import (
    LOOKS,
    Claim,
    Interval,
    clipped,
    fit,
    fitness,
    mean_interval,
    paired,
    smallest_visible,
    within,
)
from infra_agent.judge.statistics import claim as claimed
from infra_agent.session.observation import Metric, Status
from infra_agent.task.spec import PlatformName, TaskSpec, Timing


class OutputFault(Frozen):
    """A timed output that was wrong."""

    role: Role
    restart: int
    round: int
    stage: str
    kind: str
    message: str


class TimingRecord(Frozen):
    """One case, from the first restart to where it stopped."""

    case: str
    platform: PlatformName
    tree: str
    base_tree: str
    numbers: dict[str, float]
    """The case's own numbers, for the floor."""
    contents: tuple[str, ...]
    """Digests of the pool of inputs; every one came from the session's secret."""
    restarts: tuple[Restart, ...] = ()
    outputs: dict[Role, int] = Field(default_factory=dict)
    """Outputs whose guard, poison and secret projection were checked: all of them."""
    full: dict[Role, int] = Field(default_factory=dict)
    """Those that were compared with truth element by element, drawn by the judge."""
    closest: dict[str, float] = Field(default_factory=dict)
    """Stage -> the candidate's largest error among those, as a share of its limit."""
    faults: tuple[OutputFault, ...] = ()
    ended: str = ""
    """How a process ended before it should: kind and message."""
    ended_role: Role | None = None
    planned_s: tuple[float, ...] = ()
    """Seconds that the looks were expected to take, after the first restart."""


class Assessment(NamedTuple):
    """What follows from a record."""

    status: Status
    kind: str | None
    message: str
    claim: Claim = "undecided"
    interval: Interval | None = None
    same: Interval | None = None
    base_s: float = 0.0
    candidate_s: float = 0.0
    floor_s: float | None = None
    visible: float | None = None
    inside: bool | None = None
    """Proven within the limit of the task? None while it is open, or where the machine is unfit."""

    @property
    def credited(self) -> float:
        """The ratio that may be quoted: the end of the interval nearest to no effect; 1 when nothing is proven."""
        if self.interval is None or self.claim in ("undecided", "equivalent"):
            return 1.0
        return math.exp(self.interval.low if self.claim == "faster" else self.interval.high)


def settled(record: TimingRecord, timing: Timing) -> bool:
    """Is the question answered at this look, on a machine that can be believed?"""
    found = assess(record, timing, None)
    if found.status == "fail" and found.kind not in ("slower", "not_faster"):
        return True
    return found.inside is not None and (timing.goal == "not_slower" or found.claim != "undecided" or not found.inside)


def _proven(interval: Interval) -> float:
    """The end of the interval that is nearer to no effect; 0 when it holds it."""
    return 0.0 if interval.low <= 0 <= interval.high else min(abs(interval.low), abs(interval.high))


def assess(record: TimingRecord, timing: Timing, limits: TaskSpec | None) -> Assessment:
    """What the record says of one case. ``limits``: the task, for its roofline."""
    broken = _broken(record)
    if broken:
        return broken
    look = next((look for look in reversed(LOOKS) if look.restarts <= len(record.restarts)), None)
    if look is None:
        return Assessment("inconclusive", None, f"{len(record.restarts)} restarts; the first look is at {LOOKS[0].restarts}")
    seen = record.restarts[: look.restarts]
    units = paired([effect(restart, "base", "candidate") for restart in seen])
    interval = mean_interval(units, look.alpha)
    same = fitness([effect(restart, "base", "again") for restart in seen])
    found = Assessment(
        "inconclusive",
        None,
        "",
        claimed(interval, timing.delta),
        interval,
        same,
        seconds(seen, "base"),
        seconds(seen, "candidate"),
        roofline.floor_s(limits.roofline, record.platform, record.numbers) if limits and limits.roofline else None,
        smallest_visible(units, timing.delta),
    )
    return _ruled(found, seen, timing)


def _broken(record: TimingRecord) -> Assessment | None:
    """What ends the question before any time is looked at."""
    wrong = [fault for fault in record.faults if fault.role == "candidate"]
    if wrong:
        first = wrong[0]
        return Assessment("fail", first.kind, f"a timed output is wrong: stage {first.stage}, round {first.round}: {first.message}")
    if record.ended:
        kind, _, message = record.ended.partition(": ")
        if record.ended_role == "candidate":
            return Assessment("fail", kind, message or kind)
        return Assessment("inconclusive", None, f"base could not be timed: {record.ended}")
    if record.faults:
        return Assessment("inconclusive", None, f"base's own output is wrong: {record.faults[0].stage}: {record.faults[0].message}")
    return None


def _ruled(found: Assessment, seen: Sequence[Restart], timing: Timing) -> Assessment:
    assert found.interval is not None and found.same is not None
    suspected = _suspected(found, seen)
    if suspected is not None:
        return suspected
    said = f"{_ratio(found.interval)} of base's speed, {found.claim} beyond {timing.delta:.1%}"
    if not fit(found.same, _proven(found.interval), timing.delta):
        return found._replace(claim="undecided", message=f"machine unfit: base against base is {_ratio(found.same)}; {said}")
    found = found._replace(inside=within(found.interval, timing.limit), message=said)
    if found.inside is False:
        return found._replace(status="fail", kind="slower", message=f"{said}; at most {timing.limit:g} times base's time is allowed")
    if timing.goal == "not_slower":
        return found._replace(status="pass" if found.inside else "inconclusive")
    if found.claim == "faster":
        return found._replace(status="pass")
    if found.interval and found.interval.high < math.log1p(timing.delta):  # whether as fast or slower: not faster, that is proven
        return found._replace(status="fail", kind="not_faster")
    return found._replace(message=f"{said}; the smallest effect it could have seen is {found.visible:.1%}")


def _suspected(found: Assessment, seen: Sequence[Restart]) -> Assessment | None:
    """What the times show besides a speed, and what must be known before they are taken for one."""
    if found.floor_s is not None and suspicion.under(seen, found.floor_s):
        said = f"{found.candidate_s:.3g} s a call; its work cannot be done in less than {found.floor_s:.3g} s"
        return found._replace(status="fail", kind="implausible", message=said)
    if suspicion.works_unasked(seen):
        said = "the untimed call before each timed one takes far longer than a call: it is used to work ahead, or against base"
        return found._replace(status="fail", kind="contention", message=said)
    if (late := suspicion.late(seen)) is not None:
        said = f"machine unfit: base is done {late * 1e3:.2g} ms before the judge hears of it when it has worked long: its core is shared"
        return found._replace(claim="undecided", message=said)
    together, said = suspicion.only_together(seen), "it gains only when several sets of inputs come in one call: no user calls it so"
    if together is None:
        return found._replace(claim="undecided", message=f"open whether {said}")
    return found._replace(status="fail", kind="implausible", message=said) if together else None


def _ratio(interval: Interval) -> str:
    low, high = math.exp(interval.low), math.exp(interval.high)
    return f"{math.exp(interval.effect):.3f} [{low:.3f}, {high:.3f}]"


def aggregate(found: Sequence[Assessment], timing: Timing) -> tuple[Status, str | None]:
    """One status from all cases: each has its own verdict first, and no gain makes up for a case that fails."""
    failed = [case for case in found if case.status == "fail" and case.kind != "not_faster"]
    if failed:
        return "fail", failed[0].kind
    if timing.goal == "not_slower":
        return ("pass", None) if found and all(case.status == "pass" for case in found) else ("inconclusive", None)
    if any(case.status == "pass" for case in found):
        return ("pass", None) if all(case.inside for case in found) else ("inconclusive", None)
    return ("fail", "not_faster") if found and all(case.status == "fail" for case in found) else ("inconclusive", None)


def overall(found: Sequence[Assessment]) -> float:
    """Geometric mean of the ratios that may be quoted; each is bounded."""
    return math.exp(math.fsum(clipped(math.log(case.credited)) for case in found) / len(found))


def metrics(case: str, found: Assessment) -> tuple[Metric, ...]:
    """Speed-up with the interval it was decided on, times in seconds, and what the measurement could see."""
    if found.interval is None or found.same is None:
        return ()
    low, high = math.exp(found.interval.low), math.exp(found.interval.high)
    listed = [
        Metric(name=f"speedup@{case}", value=math.exp(found.interval.effect), unit="ratio", interval=(low, high)),
        Metric(name=f"credited@{case}", value=found.credited, unit="ratio"),
        Metric(name=f"time@{case}", value=found.candidate_s, unit="s", base=found.base_s, target=found.floor_s),
        Metric(name=f"base_to_base@{case}", value=math.exp(found.same.effect), unit="ratio",
               interval=(math.exp(found.same.low), math.exp(found.same.high))),
    ]  # fmt: skip
    if found.visible is not None:
        listed.append(Metric(name=f"smallest_visible@{case}", value=found.visible, unit="1"))
    return tuple(listed)
