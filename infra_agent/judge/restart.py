"""Fresh processes of base, candidate and base again, the times of their calls, and what one such restart says of each. Pure."""

import math
import statistics as plain
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field

from infra_agent.frozen import Frozen
from infra_agent.judge.statistics import clipped

Role = Literal["base", "candidate", "again"]
ROLES: tuple[Role, ...] = ("base", "candidate", "again")
WARM_UPS = 1
"""Rounds of a restart that are not timed."""


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


def relay_ns(restart: Restart) -> float:
    """Cost of a call apart from its work: where times over the number of sets cross zero. 0 when calls hold one set.

    Of all three together: what is taken off must not depend on who is who, or cages that differ would look like a gain. Two of three
    are base, so that the candidate alone cannot move a median far.
    """
    medians = by_slots(restart, ROLES)
    if len(medians) < 2:
        return 0.0
    fitted = plain.linear_regression(list(medians), list(medians.values()))
    return max(0.0, min(fitted.intercept, medians[min(medians)]))


def by_slots(restart: Restart, roles: Sequence[Role]) -> dict[int, float]:
    """Sets that a call held -> median time of such calls of these roles; ns."""
    times: dict[int, list[int]] = {}
    for slots, *ns in zip(restart.slots[WARM_UPS:], *(restart.ns[role][WARM_UPS:] for role in roles), strict=True):
        times.setdefault(slots, []).extend(ns)
    return {slots: plain.median(found) for slots, found in times.items()}


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


def set_s(restart: Restart, role: Role) -> float:
    """Time of one set of inputs in one restart, s: the slope of this role's own times over the sets that its calls held.

    The relay that is common to all is no better known than a small share of base's time, which may be more than all of a fast candidate's.
    """
    medians = by_slots(restart, (role,))
    if len(medians) < 2:
        return plain.median(ns / slots for slots, ns in medians.items()) / 1e9
    return plain.linear_regression(list(medians), list(medians.values())).slope / 1e9


def seconds(restarts: Iterable[Restart], role: Role) -> float:
    """Median time of one set of inputs, over restarts; s."""
    return max(0.0, plain.median(set_s(restart, role) for restart in restarts))
