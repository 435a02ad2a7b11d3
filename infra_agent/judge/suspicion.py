"""What in the times of restarts is no program's speed: too little for the work, work ahead or together, a core that is shared. Pure."""

import statistics as plain
from collections.abc import Sequence

from infra_agent.judge.restart import WARM_UPS, Restart, Role, set_s
from infra_agent.judge.statistics import mean_interval, paired

_UNASKED_SHARE, _UNASKED_NS = 2.0, 300_000
_FLOOR_ALPHA = 0.02
_LATE_NS, _LATE_SHARE = 50_000, 0.1
_BASES: tuple[Role, ...] = ("base", "again")
_TOGETHER_OF_BASE, _TOGETHER_OF_OWN, _TOGETHER_ALPHA = 0.2, 0.4, 0.02


def under(restarts: Sequence[Restart], floor_s: float) -> bool:
    """Is it proven that the candidate takes less than its work can be done in? A short time alone may be the machine's noise."""
    return mean_interval(paired([set_s(restart, "candidate") for restart in restarts]), _FLOOR_ALPHA).high < floor_s


def works_unasked(restarts: Sequence[Restart]) -> bool:
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


def late(restarts: Sequence[Restart]) -> float | None:
    """Seconds by which base's longest calls are late, beyond its shortest ones, when that is more than a free core makes; else None.

    A core that others share is taken from whoever has run long, just when it is to reply: a slow base looks slower than it is. When it
    was done, base's own clock tells, which the candidate has no part in.
    """
    found = [_late_ns(restart) for restart in restarts]
    delay = plain.median(delay for delay, _ in found)
    return delay / 1e9 if delay > plain.median(allowed for _, allowed in found) else None


def _late_ns(restart: Restart) -> tuple[float, float]:
    """(how late, how late it may be): of calls with most sets over the quickest tenth of those with fewest."""
    calls = [
        (slots, ns - own, own)
        for role in _BASES
        for slots, ns, own in zip(restart.slots[WARM_UPS:], restart.ns[role][WARM_UPS:], restart.child_ns[role][WARM_UPS:], strict=True)
    ]
    few, many = min(restart.slots), max(restart.slots)
    quick = sorted(after for slots, after, _ in calls if slots == few)
    long = [(after, own) for slots, after, own in calls if slots == many]
    allowed = _LATE_NS + _LATE_SHARE * plain.median(own for _, own in long)
    return plain.median(after for after, _ in long) - quick[len(quick) // 10], allowed


def only_together(restarts: Sequence[Restart]) -> bool | None:
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
