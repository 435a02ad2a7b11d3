"""The pool's check of a timed output: what is right passes at any bound it keeps, what is not is refused and named."""

import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from infra_agent import canonical
from infra_agent.gates import checks
from infra_agent.judge.contents import Fault, Pool, Tally
from infra_agent.judge.crossover import Plan, Rounds, slots_of
from infra_agent.judge.records import RepeatRecord
from infra_agent.judge.reference import Case, Drawn
from infra_agent.judge.restart import ROLES
from infra_agent.judge.tensors import Bound, CompareRecord, compare
from infra_agent.sandbox.mapping import GUARD, POISON, Layout, plan

SAME_EVERYWHERE = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=100)
DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
FLOATS = DTYPES[:3]
BOUND = 1e-6
"""So small that a secret direction misses a gross fault once in a hundred thousand draws."""
SHAPES = npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9)
SETS = 3
Outputs = dict[str, np.ndarray]


def pool_of(contents: list[Outputs], bound: float = BOUND, seed: int = 0, ratio: float = 1e30) -> Pool:
    """A pool whose reference is ``contents``, and whose truth is the same in float64."""
    bounds = {stage: Bound(error=bound, ratio=ratio, peak=1e6) for stage in contents[0]}
    drawn = [Drawn(b"%d" % n, {k: np.asarray(v, np.float64) for k, v in outputs.items()}, outputs) for n, outputs in enumerate(contents)]
    return Pool(Case(name="c", split="public", size=1, when="gate", bounds=bounds), drawn, seed)


def laid_out(pool: Pool, sets: int = SETS) -> tuple[bytearray, Layout]:
    """Memory as a call finds it: poison from end to end."""
    layout = plan(slots_of(pool.drawn[0], sets), GUARD)
    return bytearray([POISON]) * layout.report_offset, layout


def answered(pool: Pool, *answers: Outputs) -> tuple[bytearray, Layout]:
    """Memory after a call that wrote these answers, set by set."""
    output, layout = laid_out(pool)
    for number, answer in enumerate(answers):
        for stage, value in answer.items():
            slot = layout.slots[f"{number}/{stage}"]
            output[slot.offset : slot.offset + slot.nbytes] = np.asarray(value, pool.drawn[0].reference[stage].dtype).tobytes()
    return output, layout


def checked(pool: Pool, output: bytearray, layout: Layout, content: int = 0, earlier: Sequence[int] = (), number: int = 0) -> Fault | None:
    return pool.check(bytes(output), layout, number, content, earlier, Tally())


def refused(pool: Pool, answer: Outputs, content: int = 0, earlier: Sequence[int] = ()) -> Fault:
    """The fault that the projection finds; the comparison in full must find one too."""
    output, layout = answered(pool, answer)
    fault = checked(pool, output, layout, content, earlier)
    compared = pool.compare(bytes(output), layout, 0, content, Tally())
    assert fault is not None and compared is not None and compared.kind == "incorrect"
    return fault


@st.composite
def outputs(draw: st.DrawFn, dtypes: list[str] = DTYPES, count: int = SETS, nonzero: bool = False) -> list[Outputs]:
    """Contents of one case: the same stages, dtypes and shapes, other values."""
    dtype, shape = np.dtype(draw(st.sampled_from(dtypes))), draw(SHAPES)
    whole = {"min_value": -(2**40), "max_value": 2**40} if dtype.name == "int64" else {}
    elements = npst.from_dtype(dtype, allow_nan=False, allow_infinity=False, **whole) if dtype.kind != "f" else st.floats(
        -1e3, 1e3, width=dtype.itemsize * 8)  # fmt: skip
    made = [{"x": np.ones(2, np.float32), "y": draw(npst.arrays(dtype, shape, elements=elements))} for _ in range(count)]
    assume(not nonzero or all(np.abs(one["y"].astype(float)).sum() > 1e-3 for one in made))
    return made


@SAME_EVERYWHERE
@given(outputs(), st.integers(0, 2**32))
def test_a_right_output_passes_both_checks(contents: list[Outputs], seed: int) -> None:
    pool, tally = pool_of(contents, seed=seed), Tally()
    output, layout = answered(pool, *contents)
    for number in range(SETS):
        assert pool.check(bytes(output), layout, number, number, range(SETS), tally) is None
        assert pool.compare(bytes(output), layout, number, number, tally) is None
    assert (tally.outputs, tally.full, tally.closest) == (SETS, SETS, {"x": 0.0, "y": 0.0})
    assert len(pool) == SETS and pool.digests == tuple(canonical.digest(b"%d" % n) for n in range(SETS))


@SAME_EVERYWHERE
@given(outputs(nonzero=True))
def test_zeros_are_refused(contents: list[Outputs]) -> None:
    fault = refused(pool_of(contents), {**contents[0], "y": np.zeros_like(contents[0]["y"])})
    assert (fault.stage, fault.kind) == ("y", "incorrect") and "projection" in fault.message


@SAME_EVERYWHERE
@given(outputs(FLOATS, nonzero=True), st.sampled_from([math.nan, math.inf, -math.inf]), st.integers(0))
def test_one_element_that_is_not_finite_is_refused(contents: list[Outputs], bad: float, place: int) -> None:
    wrong = contents[0]["y"].copy()
    wrong.reshape(-1)[place % wrong.size] = bad
    fault = refused(pool_of(contents), {**contents[0], "y": wrong})
    assert (fault.stage, fault.kind) == ("y", "incorrect") and f"1 of {wrong.size} elements are not finite" in fault.message


@SAME_EVERYWHERE
@given(outputs(FLOATS, nonzero=True), st.integers(0))
def test_what_was_not_written_is_refused(contents: list[Outputs], place: int) -> None:
    pool = pool_of(contents)
    output, layout = answered(pool, {"x": contents[0]["x"]})
    fault = checked(pool, output, layout)
    assert fault is not None and (fault.stage, fault.kind) == ("y", "incorrect") and "not produced" in fault.message
    assert pool.compare(bytes(output), layout, 0, 0, Tally()) is not None
    output, layout = answered(pool, contents[0])
    item, slot = contents[0]["y"].itemsize, layout.slots["0/y"]
    start = slot.offset + item * (place % contents[0]["y"].size)
    output[start : start + item] = bytes([POISON]) * item
    fault = checked(pool, output, layout)
    assert fault is not None and (fault.stage, fault.kind) == ("y", "incorrect")


@pytest.mark.parametrize("dtype", DTYPES[3:])
def test_an_integer_stage_that_was_not_written_is_refused(dtype: str) -> None:
    pool = pool_of([{"y": np.zeros(5, dtype)}])
    fault = checked(pool, *laid_out(pool))
    assert fault is not None and "not produced" in fault.message


@SAME_EVERYWHERE
@given(outputs(nonzero=True), st.booleans())
def test_the_answer_to_other_contents_is_refused(contents: list[Outputs], seen: bool) -> None:
    """It is a replay when the process saw those contents before; else it is merely wrong."""
    mine, other = (contents[n]["y"].astype(float) for n in (0, 1))
    assume(np.linalg.norm(mine - other) > 1e-2 * np.linalg.norm(mine))
    assume(set(contents[1]["y"].tobytes()) != {POISON})  # -1 written is what was never written
    fault = refused(pool_of(contents), contents[1], 0, [0, 1] if seen else [0, 2])
    again = np.linalg.norm(contents[2]["y"].astype(float) - other) < 1e-3 * np.linalg.norm(other)
    assert (fault.stage, fault.kind) == ("y", "replayed" if seen else "incorrect") or again


def test_sets_of_one_call_answered_in_another_order_are_refused() -> None:
    contents = [{"y": np.random.default_rng(n).standard_normal(50)} for n in range(SETS)]
    pool = pool_of(contents)
    output, layout = answered(pool, contents[0], contents[2], contents[1])
    found = [checked(pool, output, layout, n, [0, 1, 2], n) for n in range(SETS)]
    assert [fault and fault.kind for fault in found] == [None, "replayed", "replayed"]


@SAME_EVERYWHERE
@given(outputs(), st.integers(0, SETS - 1), st.sampled_from(["x", "y"]), st.integers(0), st.booleans(), st.integers(0, POISON - 1))
def test_one_byte_of_a_guard_is_tampering(contents: list[Outputs], number: int, stage: str, place: int, before: bool, byte: int) -> None:
    pool = pool_of(contents)
    output, layout = answered(pool, *contents)
    slot = layout.slots[f"{number}/{stage}"]
    end = slot.offset + slot.nbytes
    beyond = -(-end // GUARD) * GUARD + GUARD  # the rest of the last page, and a page
    output[slot.offset - GUARD + place % GUARD if before else end + place % (beyond - end)] = byte
    fault = checked(pool, output, layout, number, number=number)
    assert fault is not None and (fault.stage, fault.kind) in {(stage, "tampered"), ("x", "tampered")}


@pytest.mark.parametrize("place", ["first before", "last before", "first after", "of page", "last after"])
@pytest.mark.parametrize("count", [0, 1, 1024, 1025])
def test_every_end_of_a_guard_is_looked_at(place: str, count: int) -> None:
    pool = pool_of([{"y": np.ones(count, np.float32)}])
    output, layout = answered(pool, *[{"y": np.ones(count)}] * SETS)
    slot = layout.slots["1/y"]
    end, page = slot.offset + slot.nbytes, -(-(slot.offset + slot.nbytes) // GUARD) * GUARD
    before = {"first before": slot.offset - GUARD, "last before": slot.offset - 1}
    ends = {**before, "first after": end, "of page": page, "last after": page + GUARD - 1}
    assert checked(pool, output, layout, number=1) is None
    output[ends[place]] = 0
    assert checked(pool, output, layout, number=1) == Fault("y", "tampered", "bytes outside the stage's buffer were written")


def off_by(truth: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """``truth`` with an error of ``share`` times its norm, in a direction drawn at random."""
    error = rng.standard_normal(truth.shape)
    return truth + error * (share * np.linalg.norm(truth) / np.linalg.norm(error))


@pytest.mark.parametrize("bound", [1e-5, 1e-3, 0.05])
@pytest.mark.parametrize("spread", ["normal", "large", "constant"])
def test_half_the_bound_is_never_refused_and_a_hundred_times_is(bound: float, spread: str) -> None:
    """A direction that is blind to an error of a hundred times the limit is drawn one time in twenty: then the full check sees it."""
    missed = 0
    for seed in range(300):
        rng = np.random.default_rng([seed, 1])
        large, constant = np.where(np.arange(300) == 7, 1e3, 1e-3), np.full(300, 3.0)
        truth = {"normal": rng.standard_normal((6, 50)), "large": large, "constant": constant}[spread]
        pool, tally = pool_of([{"y": truth}], bound, seed), Tally()
        for share in (0.5, 0.99):
            output, layout = answered(pool, {"y": off_by(truth, share * bound, rng)})
            assert checked(pool, output, layout) is None and pool.compare(bytes(output), layout, 0, 0, tally) is None
        assert tally.closest["y"] == pytest.approx(0.99)
        output, layout = answered(pool, {"y": off_by(truth, 100 * bound, rng)})
        fault, compared = checked(pool, output, layout), pool.compare(bytes(output), layout, 0, 0, tally)
        missed += fault is None
        assert (fault is None or fault.kind == "incorrect") and compared is not None and compared.kind == "incorrect"
    assert missed / 300 < 0.1


def test_an_error_that_one_direction_cannot_see_another_does() -> None:
    truth, rng = np.random.default_rng(1).standard_normal(400), np.random.default_rng(2)
    pools = [pool_of([{"y": truth}], 1e-4, seed) for seed in (*range(20), 0)]
    answers = (answered(pools[0], {"y": off_by(truth, 1e-2, rng)}) for _ in range(500))
    blind = next(answer for answer in answers if checked(pools[0], *answer) is None)
    found = [checked(pool, *blind) for pool in pools]
    assert found[0] is None and sum(fault is not None for fault in found) > 15
    assert found[-1] is None, "the seed decides, and nothing else"


def test_further_from_truth_than_the_reference_allows_is_refused_in_full() -> None:
    truth = np.random.default_rng(1).standard_normal(300)
    pool = pool_of([{"y": truth.astype(np.float32)}], bound=1e-2, ratio=10.0)
    output, layout = answered(pool, {"y": off_by(truth, 1e-4, np.random.default_rng(2))})
    assert checked(pool, output, layout) is None, "within its bound"
    fault = pool.compare(bytes(output), layout, 0, 0, Tally())
    assert fault is not None and fault.kind == "incorrect" and "times the reference's own" in fault.message


def test_a_restart_uses_no_contents_twice_and_calls_all_three_in_every_order() -> None:
    slots = Plan.of(1e4).slots
    pool = pool_of([{"y": np.ones(1)}] * sum(slots))
    rounds = Rounds({}, pool, slots, random.Random(2))
    assert [len(held) for held in rounds.contents] == list(slots)
    assert sorted(itertools.chain(*rounds.contents)) == list(range(len(pool)))
    assert all(list(rounds.used(turn)) == list(itertools.chain(*rounds.contents[: turn + 1])) for turn in range(len(slots)))
    assert {tuple(sorted(order)) for order in rounds.order} == {tuple(sorted(ROLES))} and len(set(rounds.order)) == 6


def compared(pool: Pool, answer: Outputs) -> CompareRecord:
    """What a judge records of one call, from the pool's own parts."""
    output, layout = answered(pool, answer)
    stages = compare(bytes(output), layout, pool.drawn[0].truth, pool.drawn[0].reference, "0/")
    return CompareRecord(case="c", split="public", size=1, tree="t", ended="ok", bounds=pool.case.bounds, stages=stages)


def test_repeat_asks_every_call_and_how_it_ended() -> None:
    pool = pool_of([{"y": np.arange(1.0, 5.0)}])
    right, wrong = compared(pool, {"y": np.arange(1.0, 5.0)}), compared(pool, {"y": np.zeros(4)})
    known = {"case": "c", "tree": "t", "calls": (right,) * 4, "replayed": ()}
    expected: list[tuple[dict[str, object], str, str | None]] = [
        ({}, "pass", None), ({"calls": (right, right, wrong, right)}, "fail", "incorrect"), ({"replayed": (2,)}, "fail", "replayed"),
        ({"ended": "early"}, "fail", "tampered"), ({"ended": "lost"}, "fail", "tampered"), ({"ended": "moving"}, "fail", "contention"),
        ({"ended": "timeout", "calls": (right,)}, "fail", "timeout"), ({"ended": "error"}, "fail", "crashed"),
        ({"ended": "ended", "calls": (wrong,), "replayed": (0,)}, "fail", "replayed"),
    ]  # fmt: skip
    for more, status, kind in expected:
        check = checks.repeat([RepeatRecord.model_validate({**known, **more})], "cpu")
        assert (check.status, check.kind) == (status, kind), more


def test_no_call_at_all_is_no_pass() -> None:
    assert checks.repeat([RepeatRecord(case="c", tree="t", calls=(), replayed=())], "cpu").status != "pass"
