"""Evidence kind ``timing``: base and candidate on the judge's clock. From a judge-written record to a claim; pure.

Three processes take part: *base*, the *candidate*, and base *again*, which says what the machine makes of two equal programs.
``infra_agent/judge/crossover.py`` writes the record.
"""

import math
import statistics as plain
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from infra_agent.frozen import Frozen
from infra_agent.judge import roofline
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

Role = Literal["base", "candidate", "again"]
ROLES: tuple[Role, ...] = ("base", "candidate", "again")
WARM_UPS = 1
"""Rounds of a restart that are not timed."""
_UNASKED_SHARE, _UNASKED_NS = 2.0, 300_000
_TOGETHER_OF_BASE, _TOGETHER_OF_OWN, _TOGETHER_ALPHA = 0.2, 0.4, 0.02


class Restart(Frozen):
    """Fresh processes of all three, and their calls round by round, warm-up rounds first. Times in nanoseconds of the judge's clock."""

    cages: tuple[int, int, int]
    """Which cage ran base, candidate, again."""
    slots: tuple[int, ...]
    """Sets of inputs that each round's call held."""
    order: tuple[str, ...]
    """Who was called first, second, third in each round, by initial; again is ``a``."""
    contents: tuple[tuple[int, ...], ...]
    """Which contents of the pool each round used; the same for all three."""
    ns: dict[Role, tuple[int, ...]]
    idle_ns: dict[Role, tuple[int, ...]]
    """CPU time of the cage while it was to be stopped, before each call."""
    child_ns: dict[Role, tuple[int, ...]]
    """What the process itself says it took: advice."""
    wake_ns: dict[Role, tuple[int, ...]] = Field(default_factory=dict)
    """The untimed call before each timed one: one set that it has seen."""


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


def relay_ns(restart: Restart) -> float:
    """Cost of a call apart from its work: where times over the number of sets cross zero. 0 when calls hold one set.

    Of all three together: what is taken off must not depend on who is who, or cages that differ would look like a gain. Two of three
    are base, so that the candidate alone cannot move a median far.
    """
    by_slots: dict[int, list[int]] = {}
    for slots, *times in zip(restart.slots[WARM_UPS:], *(restart.ns[role][WARM_UPS:] for role in ROLES), strict=True):
        by_slots.setdefault(slots, []).extend(times)
    if len(by_slots) < 2:
        return 0.0
    medians = {slots: plain.median(times) for slots, times in by_slots.items()}
    fitted = plain.linear_regression(list(medians), list(medians.values()))
    return max(0.0, min(fitted.intercept, medians[min(medians)]))


def _net(ns: int, relay: float) -> float:
    return max(ns - relay, ns / 64)


def effect(restart: Restart, left: Role, right: Role) -> float:
    """Logarithm of left's time over right's in one restart: the median over rounds, each as heavy as the sets it held."""
    relay = relay_ns(restart)
    rounds = zip(restart.slots[WARM_UPS:], restart.ns[left][WARM_UPS:], restart.ns[right][WARM_UPS:], strict=True)
    return clipped(_weighted_median([(math.log(_net(a, relay) / _net(b, relay)), slots) for slots, a, b in rounds]))


def _weighted_median(values: Sequence[tuple[float, int]]) -> float:
    ordered, half, passed = sorted(values), sum(weight for _, weight in values) / 2, 0
    for n, (value, weight) in enumerate(ordered):
        passed += weight
        if passed == half and n + 1 < len(ordered):
            return (value + ordered[n + 1][0]) / 2
        if passed >= half:
            return value
    raise ValueError("no rounds")


def seconds(restarts: Iterable[Restart], role: Role) -> float:
    """Median time of one set of inputs, over restarts; s."""
    per_restart = []
    for restart in restarts:
        relay, most = relay_ns(restart), max(restart.slots)
        rounds = zip(restart.slots[WARM_UPS:], restart.ns[role][WARM_UPS:], strict=True)
        per_restart.append(plain.median(_net(ns, relay) / slots for slots, ns in rounds if slots == most))
    return plain.median(per_restart) / 1e9


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
    if found.floor_s is not None and found.candidate_s < found.floor_s:
        said = f"{found.candidate_s:.3g} s a call; its work cannot be done in less than {found.floor_s:.3g} s"
        return found._replace(status="fail", kind="implausible", message=said)
    if _works_unasked(seen):
        said = "the untimed call before each timed one takes far longer than a call: it is used to work ahead, or against base"
        return found._replace(status="fail", kind="contention", message=said)
    together = _only_together(seen)
    if together is not False:
        said = "it gains only when several sets of inputs come in one call: no user calls it so"
        if together is None:
            return found._replace(claim="undecided", message=f"open whether {said}")
        return found._replace(status="fail", kind="implausible", message=said)
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


def _ratio(interval: Interval) -> str:
    low, high = math.exp(interval.low), math.exp(interval.high)
    return f"{math.exp(interval.effect):.3f} [{low:.3f}, {high:.3f}]"


def _works_unasked(restarts: Sequence[Restart]) -> bool:
    """Does the candidate do more in the untimed call, beside a timed one of one set, than base does by a multiple?"""
    base, own = ([share for restart in restarts for share in _wakes(restart, role)] for role in ("base", "candidate"))
    if not base or not own:
        return False
    over, than = plain.median(share for share, _ in own), plain.median(share for share, _ in base)
    return over > _UNASKED_SHARE * than and plain.median(extra for _, extra in own) > _UNASKED_NS


def _wakes(restart: Restart, role: Role) -> list[tuple[float, float]]:
    """(over, and more than, the timed call) for the untimed calls before rounds of one set."""
    rounds = zip(restart.slots, restart.ns[role], restart.wake_ns.get(role, ()), strict=False)
    return [(wake / ns, float(wake - ns)) for slots, ns, wake in rounds if slots == 1]


def _only_together(restarts: Sequence[Restart]) -> bool | None:
    """Does a set of inputs cost the candidate much more alone than among others, and base not? It shares work that nobody will join.

    None where it looks so and is not proven: what is so suspected is not believed, and what a busy machine does refuses nobody.
    """
    few, many = min(restarts[0].slots), max(restarts[0].slots)
    if few == many:
        return False
    shares = [_more_alone(restart, few, many) for restart in restarts]
    sides = [([of_base for of_base, _ in shares], _TOGETHER_OF_BASE), ([of_own for _, of_own in shares], _TOGETHER_OF_OWN)]
    if any(plain.median(values) <= limit for values, limit in sides):
        return False
    return all(mean_interval(paired(values), _TOGETHER_ALPHA).low > limit for values, limit in sides) or None


def _more_alone(restart: Restart, few: int, many: int) -> tuple[float, float]:
    """What a set costs more alone than among others, beyond what it costs base more: over base's time, over the candidate's own.

    The relay is in both differences and cancels; what is cold at first is colder for base, which has more of it.
    """

    def each(role: Role, held: int) -> float:
        rounds = zip(restart.slots[WARM_UPS:], restart.ns[role][WARM_UPS:], strict=True)
        return plain.median(ns / sets for sets, ns in rounds if sets == held)

    base, own = each("base", many), each("candidate", many)
    more = (each("candidate", few) - own) - (each("base", few) - base)
    return more / base, more / own


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
