"""From restarts with known times to a verdict: relay removed, sides exchanged, no gain for a wrong answer or an impossible time."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from statistics import median

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra_agent.gates import checks
from infra_agent.judge.crossover import SLOTS, WALK, Plan, starters
from infra_agent.judge.restart import ROLES, WARM_UPS, Restart, effect, relay_ns, seconds
from infra_agent.judge.statistics import LARGEST, LOOKS, PAIRS, Interval, mean_interval, paired
from infra_agent.judge.timing import Assessment, OutputFault, TimingRecord, aggregate, assess, metrics, overall, settled
from infra_agent.task.spec import TaskSpec, Timing

SAME_EVERYWHERE = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
LONG, SHORT = Plan.of(5e6).slots, Plan.of(1e4).slots
FASTER, NOT_SLOWER = Timing(), Timing(goal="not_slower")
TASK = TaskSpec.model_validate({
    "id": "t", "title": "t", "goal": "g", "platform": "cpu", "entry": {"module": "m", "callable": "run", "stages": ["y"]},
    "edit": {"allow": ["m.py"]}, "metric": {"case": "c"}, "timing": {},
    "roofline": {"bytes": "4 * n", "peaks": {"cpu": {"bytes_per_s": 1e9, "flops_per_s": 1e12, "source": "test"}}},
})  # fmt: skip
"""A call on n numbers takes at least 4 n nanoseconds."""
Ns = Callable[[int], float]
Cages = tuple[float, float, float]


def line(each: float, relay: float = 0.0) -> Ns:
    """Nanoseconds of a call that holds so many sets."""
    return lambda sets: relay + sets * each


def restart(number: int, base: Ns, candidate: Ns, again: Ns, slots: tuple[int, ...] = LONG, cages: Cages = (1, 1, 1)) -> Restart:
    """Known times; ``cages``: how slow each cage is, whoever is in it."""
    place, many = WALK[number % len(WALK)], len(slots)
    took = zip(ROLES, (base, candidate, again), place, strict=True)
    ns = {role: tuple(round(cages[cage] * side(sets)) for sets in slots) for role, side, cage in took}
    zero = dict.fromkeys(ROLES, (0,) * many)
    return Restart(cages=place, slots=slots, order=("bca",) * many, contents=((0,),) * many, ns=ns, idle_ns=zero, child_ns=ns)


def record(restarts: Iterable[Restart] = (), **more: object) -> TimingRecord:
    known = {"case": "c", "platform": "cpu", "tree": "t", "base_tree": "b", "numbers": {"n": 100.0}, "contents": ()}
    return TimingRecord.model_validate({**known, "restarts": tuple(restarts), **more})


def timed(base: float, candidate: float, again: float = 0.0, spread: float = 0.0, count: int = 8, relay: float = 0.0,
          slots: tuple[int, ...] = LONG, seed: int = 0, **more: object) -> TimingRecord:  # fmt: skip
    """Restarts of sides that take so many ns for one set, each off by a share drawn for its program and the restart."""
    took = [(base, 0), (candidate, 0), (again or base, 1)]
    off = [np.exp(np.random.default_rng([seed, round(ns), twin]).normal(0, spread, count)) for ns, twin in took]
    sides = [[line(ns * noise[n], relay) for (ns, _), noise in zip(took, off, strict=True)] for n in range(count)]
    return record((restart(n, *sides[n], slots=slots) for n in range(count)), **more)


def said(found: TimingRecord, timing: Timing = FASTER, limits: TaskSpec | None = None) -> tuple[str, str | None, str]:
    assessed = assess(found, timing, limits)
    return assessed.status, assessed.kind, assessed.claim


@SAME_EVERYWHERE
@given(st.floats(2e3, 1e5), st.floats(2e3, 1e5), st.floats(0, 1e6), st.sampled_from(["short", "long"]))
def test_the_effect_is_the_ratio_with_the_relay_removed(base: float, candidate: float, relay: float, kind: str) -> None:
    slots, relay = (SHORT, relay) if kind == "short" else (LONG, 0.0)
    found = restart(0, line(base, relay), line(candidate, relay), line(base, relay), slots)
    assert relay_ns(found) == pytest.approx(relay, abs=2)
    assert effect(found, "base", "candidate") == pytest.approx(math.log(base / candidate), abs=5e-3)
    assert effect(found, "candidate", "base") == pytest.approx(math.log(candidate / base), abs=5e-3)
    assert effect(found, "base", "again") == 0.0
    assert seconds([found], "candidate") == pytest.approx(candidate / 1e9, rel=5e-3)


@SAME_EVERYWHERE
@given(st.integers(0, 10**6))
def test_the_effect_is_the_median_round_each_as_heavy_as_its_sets(seed: int) -> None:
    noise = np.random.default_rng(seed)
    sides = [lambda sets: 3e4 + sets * 1e4 * noise.lognormal(0, 0.3) for _ in ROLES]
    found = restart(0, *sides, slots=Plan.of(1e4).shuffled(random.Random(seed)))
    relay = relay_ns(found)
    rounds = list(zip(found.slots, found.ns["base"], found.ns["candidate"], strict=True))[WARM_UPS:]
    logs = [math.log(max(a - relay, a / 64) / max(b - relay, b / 64)) for sets, a, b in rounds for _ in range(sets)]
    assert effect(found, "base", "candidate") == pytest.approx(median(logs), abs=1e-12)
    assert 0.0 <= relay <= min(found.ns["base"] + found.ns["again"]) * 3


@pytest.mark.parametrize(("slots", "relay"), [(LONG, 0.0), (SHORT, 1e5)])
@pytest.mark.parametrize("late", ROLES)
def test_a_hiccup_or_a_slow_warm_up_is_not_seen(slots: tuple[int, ...], relay: float, late: str) -> None:
    calm = restart(0, line(2e5, relay), line(1e5, relay), line(2e5, relay), slots)
    ns = {role: (times[0] * 50, times[1] * 50, *times[2:]) if role == late else times for role, times in calm.ns.items()}
    assert effect(calm.model_copy(update={"ns": ns}), "base", "candidate") == pytest.approx(math.log(2), abs=1e-4)


def test_what_belongs_to_a_cage_cancels_in_both_questions() -> None:
    """Cages that differ by a quarter, as was seen: equal programs stay equal, and a true effect stays what it is."""
    for ratio, claimed in ((1.0, "equivalent"), (1.05, "faster")):
        sides = line(ratio * 2e6), line(2e6), line(ratio * 2e6)
        found = assess(record(restart(n, *sides, cages=(1.0, 1.25, 0.9)) for n in range(8)), FASTER, None)
        assert found.claim == claimed and found.interval is not None and found.same is not None
        assert (found.interval.low, found.interval.high) == pytest.approx((math.log(ratio),) * 2, abs=1e-5)
        assert (found.same.low, found.same.high) == pytest.approx((0, 0), abs=1e-5)


def test_the_relay_of_a_slow_cage_is_not_taken_for_speed() -> None:
    """Short calls, all three sides equal, cages that are a tenth apart: base against base cannot see what only the candidate gets."""
    equal = line(5e3, 1.4e5)
    found = assess(record(restart(n, equal, equal, equal, SHORT, cages=(1.0, 1.1, 0.95)) for n in range(32)), FASTER, None)
    assert found.interval is not None and found.interval.effect == pytest.approx(0.0, abs=1e-3)
    assert relay_ns(restart(0, equal, lambda sets: 5e5 / sets, equal, SHORT)) == pytest.approx(1.4e5), "the candidate has no say in it"


def test_consecutive_restarts_exchange_one_pair_and_every_role_is_in_every_cage_twice() -> None:
    for n, here in enumerate(WALK):
        there = WALK[(n + 1) % len(WALK)]
        stays = {role for role, a, b in zip(ROLES, here, there, strict=True) if a == b}
        assert stays == ({"again"} if n % 2 == 0 else {"candidate"})
    assert {tuple(Counter(place[k] for place in WALK).values()) for k in range(len(ROLES))} == {(2, 2, 2)}
    assert {frozenset(place) for place in WALK} == {frozenset(range(3))} and len(set(WALK)) == len(WALK)


def test_whoever_changes_cages_changes_places_in_the_order_of_starting() -> None:
    for n, here in enumerate(WALK):
        before, after = starters(here), starters(WALK[(n + 1) % len(WALK)])
        pair = {"base", "candidate"} if n % 2 == 0 else {"base", "again"}
        assert [role for role, other in zip(before, after, strict=True) if role != other], "somebody moved"
        assert {role for role, other in zip(before, after, strict=True) if role != other} == pair


@pytest.mark.parametrize("call_ns", [1.0, 999_999.0, 1e6, 1e12])
def test_a_plan_times_forty_rounds_every_number_of_sets_equally_often(call_ns: float) -> None:
    plan = Plan.of(call_ns)
    assert len(plan.slots) == WARM_UPS + PAIRS and PAIRS == 40
    assert Counter(plan.slots[WARM_UPS:]) == (dict.fromkeys(SLOTS, 10) if call_ns < 1e6 else {1: 40})
    assert max(plan.slots[:WARM_UPS]) == max(plan.slots) and plan.contents == sum(plan.slots)
    for seed in range(20):
        shuffled = plan.shuffled(random.Random(seed))
        assert Counter(shuffled) == Counter(plan.slots) and shuffled[:WARM_UPS] == plan.slots[:WARM_UPS]
        assert (shuffled != plan.slots) == (call_ns < 1e6)


@pytest.mark.parametrize("spread", [0.0, 0.003])
def test_exchanging_base_and_candidate_exchanges_faster_and_slower(spread: float) -> None:
    one, other = timed(2.1e6, 2e6, spread=spread), timed(2e6, 2.1e6, spread=spread)
    assert (said(one), said(other)) == (("pass", None, "faster"), ("fail", "slower", "slower"))
    a, b = assess(one, FASTER, None), assess(other, FASTER, None)
    assert a.interval is not None and b.interval is not None
    assert (a.interval.low, a.interval.high) == pytest.approx((-b.interval.high, -b.interval.low), abs=1e-5)
    assert (a.credited, b.credited) == (math.exp(a.interval.low), math.exp(b.interval.high)), "of each, the end nearer to no effect"
    assert settled(one, FASTER) and settled(other, FASTER)


FAULT = OutputFault(role="candidate", restart=0, round=3, stage="y", kind="replayed", message="old")
OF_BASE, OF_AGAIN = FAULT.model_copy(update={"role": "base"}), FAULT.model_copy(update={"role": "again"})
LATE = "timeout: a call took too long"


@pytest.mark.parametrize(("found", "status", "kind"), [
    ({"faults": (FAULT,)}, "fail", "replayed"), ({"faults": (OF_BASE, FAULT)}, "fail", "replayed"),
    ({"faults": (OF_BASE,)}, "inconclusive", None), ({"faults": (OF_AGAIN,)}, "inconclusive", None),
    ({"ended": LATE, "ended_role": "candidate"}, "fail", "timeout"), ({"ended": LATE, "ended_role": "base"}, "inconclusive", None),
    ({"ended": "crashed", "ended_role": "candidate"}, "fail", "crashed"), ({"ended": LATE, "ended_role": "again"}, "inconclusive", None),
    ({"ended": LATE, "ended_role": "base", "faults": (FAULT,)}, "fail", "replayed"),
])  # fmt: skip
@pytest.mark.parametrize("count", [0, 8])
def test_what_went_wrong_is_said_before_any_time_is_looked_at(found: dict[str, object], status: str, kind: str | None, count: int) -> None:
    fast = timed(4e6, 1e6, count=count, **found)
    for timing in (FASTER, NOT_SLOWER):
        assert said(fast, timing) == (status, kind, "undecided")
        assert settled(fast, timing) is (status == "fail")
    assert checks.timing([fast], TASK).status == status


@pytest.mark.parametrize("count", [0, 1, 7])
def test_fewer_restarts_than_a_look_decide_nothing(count: int) -> None:
    found = timed(2e6, 1e6, count=count)
    assert said(found) == ("inconclusive", None, "undecided") and not settled(found, FASTER)
    assert assess(found, FASTER, None).credited == 1.0 and metrics("c", assess(found, FASTER, None)) == ()


@pytest.mark.parametrize(("count", "look"), [(8, 8), (9, 8), (15, 8), (16, 16), (31, 16), (32, 32), (40, 32)])
def test_between_looks_nothing_new_is_looked_at(count: int, look: int) -> None:
    every = timed(2.03e6, 2e6, spread=0.01, count=40)
    found, at_look = (every.model_copy(update={"restarts": every.restarts[:n]}) for n in (count, look))
    assessed = assess(found, FASTER, TASK)
    assert assessed == assess(at_look, FASTER, TASK)
    effects = [effect(one, "base", "candidate") for one in every.restarts[:look]]
    assert assessed.interval == mean_interval(paired(effects), dict(LOOKS)[look])


def test_less_than_the_work_can_take_is_implausible() -> None:
    at, below = timed(8e2, 4.4e2, relay=1e5, slots=SHORT), timed(8e2, 3.6e2, relay=1e5, slots=SHORT)
    assert said(at, limits=TASK)[0] == "pass" and said(below, limits=TASK)[:2] == ("fail", "implausible")
    assert said(below)[0] == "pass" and said(below.model_copy(update={"platform": "cpu-emulated"}), limits=TASK)[0] == "pass"
    assert [checks.plausibility([one], TASK).status for one in (at, below)] == ["pass", "fail"]
    assert checks.plausibility([at], TASK.model_copy(update={"roofline": None})).status == "not_run"
    assert checks.plausibility([timed(8e2, 4e2, count=7)], TASK).status == "not_run"
    other = at.model_copy(update={"case": "other"})
    assert all(check([other, below], TASK).kind == "implausible" for check in (checks.timing, checks.plausibility))


@pytest.mark.parametrize("seed", range(20))
def test_a_fast_candidate_beside_a_slow_base_is_not_called_impossible(seed: int) -> None:
    """A machine that is half as fast now and then puts the relay off by a share of base's time, which is more than the candidate's."""
    noise = np.random.default_rng(seed)

    def at_times_slow(each: float) -> Ns:
        return lambda sets: (1.4e5 + sets * each) * (1.6 if noise.random() < 0.5 else 1.0) * noise.lognormal(0, 0.05)

    found = record(restart(n, at_times_slow(2e6), at_times_slow(3e4), at_times_slow(2e6), SHORT) for n in range(8))
    floor = {"n": 2500.0}
    assert assess(found.model_copy(update={"numbers": floor}), FASTER, TASK).kind != "implausible"
    nothing = record(restart(n, at_times_slow(2e6), at_times_slow(0.0), at_times_slow(2e6), SHORT) for n in range(8))
    assert assess(nothing.model_copy(update={"numbers": {"n": 2e5}}), FASTER, TASK).kind == "implausible"


@pytest.mark.parametrize(("late_ns", "claim"), [(0.0, "faster"), (2.5e6, "undecided")])
def test_a_core_that_others_take_when_base_has_worked_long_decides_nothing(late_ns: float, claim: str) -> None:
    """Seen beside a neighbour: calls of 3 ms ended 2 to 4 ms before their reply, those of 0.5 ms did not."""
    relay = 1.5e5

    def one(number: int) -> Restart:
        made = restart(number, line(4e5), line(5e4), line(4e5), SHORT)
        heard = {role: tuple(round(ns + relay + (late_ns if ns > 2e6 else 0.0)) for ns in made.child_ns[role]) for role in ROLES}
        return made.model_copy(update={"ns": heard})

    found = assess(record(one(n) for n in range(8)), FASTER, None)
    assert (found.claim, found.kind) == (claim, None) and (found.status == "pass") == (claim == "faster")


def test_a_gain_that_only_crowds_have_is_implausible() -> None:
    base = line(5e4, 1e5)
    little = [line(2.5e4, 1e5), line(0, 1.1e5), lambda sets: 1e5 + 5e4 * sets * (0.95 if sets > 1 else 1.0)]
    for candidate, kind in ((line(0, 1.5e5), "implausible"), *((side, None) for side in little)):
        crowd = record(restart(n, base, candidate, base, SHORT) for n in range(8))
        assert {assess(crowd, timing, None).kind for timing in (FASTER, NOT_SLOWER)} == {kind}
    fits_and_starts = record(restart(n, base, line(0, 1.5e5) if n < 5 else line(2.5e4, 1e5), base, SHORT) for n in range(8))
    status, kind, claim = said(fits_and_starts)
    assert (status, kind, claim) == ("inconclusive", None, "undecided"), "suspected and not proven: neither refused nor believed"
    assert not settled(fits_and_starts, FASTER)
    alone = record(restart(n, base, line(0, 1.2e5), base, LONG) for n in range(8))
    assert said(alone) == ("pass", None, "faster"), "one set at a time: there is no crowd"


@pytest.mark.parametrize("found", [timed(2e6, 1.6e6, again=2.01e6), timed(2e6, 2.4e6, again=1.98e6), timed(2e6, 1.9e6, spread=0.2)])
def test_a_machine_that_tells_base_from_base_decides_nothing(found: TimingRecord) -> None:
    for timing in (FASTER, NOT_SLOWER):
        assessed = assess(found, timing, None)
        assert (assessed.status, assessed.claim, assessed.inside, assessed.credited) == ("inconclusive", "undecided", None, 1.0)
        assert "machine unfit" in assessed.message and not settled(found, timing)


@pytest.mark.parametrize(("candidate", "spread", "faster", "not_slower"), [
    (1.9e6, 0.0, ("pass", None), ("pass", None)), (2e6, 0.0, ("fail", "not_faster"), ("pass", None)),
    (2.03e6, 0.0, ("fail", "not_faster"), ("pass", None)), (2.06e6, 0.0, ("fail", "slower"), ("fail", "slower")),
    (1.99e6, 0.006, ("inconclusive", None), ("pass", None)), (2.04e6, 0.004, ("fail", "not_faster"), ("inconclusive", None)),
])  # fmt: skip
def test_a_verdict_by_goal_and_limit(candidate: float, spread: float, faster: tuple[str, str], not_slower: tuple[str, str]) -> None:
    found = timed(2e6, candidate, spread=spread, seed=4)
    assert (said(found, FASTER)[:2], said(found, NOT_SLOWER)[:2]) == (faster, not_slower)
    assert settled(found, FASTER) is (said(found, FASTER)[2] != "undecided"), "not faster, but by how much may still be seen"
    assert settled(found, NOT_SLOWER) is (not_slower[0] != "inconclusive")
    assert said(found, Timing(limit=1.0))[0] != "pass" or candidate < 2e6
    assert said(found, Timing(limit=1.1))[1] != "slower"


def test_nothing_is_quoted_for_what_counts_as_equal() -> None:
    assessed = assess(timed(2e6, 1.995e6, spread=5e-4), FASTER, None)
    assert assessed.interval is not None and assessed.interval.low > 0
    assert (assessed.claim, assessed.kind, assessed.credited) == ("equivalent", "not_faster", 1.0)


def case(status: str, kind: str | None = None, low: float = 0.0, inside: bool | None = True) -> Assessment:
    claimed = "faster" if low > 0 else "undecided"
    return Assessment(status, kind, "", claimed, Interval(effect=low, low=low, high=low + 1e-3), inside=inside)  # type: ignore[arg-type]


GOOD, SAME, OPEN = case("pass", low=1.0), case("fail", "not_faster"), case("inconclusive", inside=None)
BAD = [case("fail", kind, inside=None) for kind in ("slower", "implausible", "incorrect", "replayed", "timeout")]


@SAME_EVERYWHERE
@given(st.lists(st.sampled_from([GOOD, SAME, OPEN]), max_size=6), st.sampled_from(BAD), st.data(), st.sampled_from([FASTER, NOT_SLOWER]))
def test_no_gain_makes_up_for_a_case_that_fails(others: list[Assessment], bad: Assessment, data: st.DataObject, timing: Timing) -> None:
    assert aggregate(data.draw(st.permutations([*others, bad])), timing) == ("fail", bad.kind)


@pytest.mark.parametrize(("found", "faster", "not_slower"), [
    ([], "inconclusive", "inconclusive"), ([GOOD], "pass", "pass"), ([GOOD, SAME], "pass", None), ([SAME, SAME], "fail", None),
    ([GOOD, OPEN], "inconclusive", "inconclusive"), ([SAME, OPEN], "inconclusive", None),
    ([GOOD, case("inconclusive")], "pass", "inconclusive"), ([GOOD, case("fail", "not_faster", inside=None)], "inconclusive", None),
])  # fmt: skip
def test_one_status_from_all_cases(found: list[Assessment], faster: str, not_slower: str | None) -> None:
    for mixed in itertools.permutations(found):
        assert aggregate(mixed, FASTER)[0] == faster
        assert not_slower is None or aggregate(mixed, NOT_SLOWER)[0] == not_slower


def test_a_shape_driven_to_nothing_does_not_outweigh_the_others() -> None:
    assert overall([case("pass", low=1e2), case("pass")]) == pytest.approx(math.sqrt(math.exp(LARGEST))) == pytest.approx(8.0)
    assert overall([OPEN, SAME, case("pass", low=math.log(8))]) == pytest.approx(2.0)
    gone = assess(record(restart(n, line(1e9), line(1), line(1e9)) for n in range(8)), FASTER, None)
    assert gone.credited == pytest.approx(64.0) and overall([gone]) == pytest.approx(64.0)


@SAME_EVERYWHERE
@given(st.integers(0, 2**32), st.integers(0, 34), st.floats(0, 15), st.floats(0, 34), st.booleans(), st.sampled_from([FASTER, NOT_SLOWER]))
def test_no_record_of_positive_times_raises_and_none_changes_on_its_way(
    seed: int, count: int, size: float, spread: float, short: bool, timing: Timing
) -> None:
    rng = np.random.default_rng(seed)
    sides = [lambda sets: min(2.0**62, max(1.0, sets * rng.lognormal(size, spread))) for _ in ROLES]
    found = record(restart(n, *sides, slots=SHORT if short else LONG) for n in range(count))
    assessed = assess(found, timing, TASK)
    assert assess(TimingRecord.model_validate_json(found.model_dump_json()), timing, TASK) == assessed
    asked = TASK.model_copy(update={"timing": timing})
    check = checks.timing([found], asked)
    assert (check.status, check.kind) == aggregate([assessed], timing) and str(check.where) == "c: stage time"
    assert checks.plausibility([found], asked).status == ("fail" if assessed.kind == "implausible" else "pass" if count >= 8 else "not_run")
    assert 1 / 64 <= assessed.credited <= 64 and len(metrics("c", assessed)) == (5 if count >= 8 else 0)
    assert not (settled(found, timing) and assess(found, timing, None).status == "inconclusive")


def test_work_in_the_untimed_call_is_contention() -> None:
    def with_wakes(n: int, own: float) -> Restart:
        made = restart(n, line(2e5, 2e5), line(1e5, 2e5), line(2e5, 2e5), SHORT)
        return made.model_copy(update={"wake_ns": {role: (round(own if role == "candidate" else 5e5),) * len(SHORT) for role in ROLES}})

    assert assess(record(with_wakes(n, 4e5) for n in range(8)), FASTER, None).claim == "faster"
    assert assess(record(with_wakes(n, 2e6) for n in range(8)), FASTER, None).kind == "contention"
