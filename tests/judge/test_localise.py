"""Where and how an output is wrong: what is said, and above all what is not said. Then the smallest failing case."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra_agent.judge import localise, seeds, shrink
from infra_agent.judge.collector import Collector
from infra_agent.judge.measure import Context, measure, observe
from infra_agent.judge.reference import Case
from infra_agent.judge.tensors import Bound, CompareRecord, assess, compare
from infra_agent.sandbox.mapping import POISON, plan
from infra_agent.session.observation import TensorWhere
from infra_agent.task.load import load
from infra_agent.task.tree import read_folder
from tests.pairs.pair import TASKS

SHAPE = (3, 45, 40)
TRUTH = np.random.default_rng(0).standard_normal(SHAPE)
RIGHT = TRUTH.astype(np.float32)
LIMIT = 1e-5


def said(value: np.ndarray, truth: np.ndarray = TRUTH, axes: tuple[str, ...] = ()) -> dict[str, str]:
    """Kind -> message of the findings on an array of at least two axes; growth along several axes is joined."""
    where = TensorWhere(case="c", stage="y", index=(0,) * (value.ndim - 2), tile=(0, 16, 0, 16))
    found: dict[str, str] = {}
    for finding in localise.findings(localise.pattern(value, truth, LIMIT), where, 1.0, axes):
        found[finding.kind] = " + ".join(filter(None, (found.get(finding.kind), finding.message)))
    return found


def spoilt(where: Any, factor: float = 1.01) -> np.ndarray:
    value = RIGHT.copy()
    value[where] *= factor
    return value


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (np.s_[1], "one whole index of axis 0, number 1 of 3 (index 1)"),
        (np.s_[2], "one whole index of axis 0, the last of 3 (index 2)"),
        (np.s_[:, 0], "one whole row, the first of 45 (index 0)"),
        (np.s_[:, 32:], "the last 13 of 45 rows, from 32 on, what is left over after blocks of 32"),
        (np.s_[:, 31:], "the last 14 of 45 rows, from 31 on:"),
        (np.s_[:, :, 32:], "the last 8 of 40 columns, from 32 on, what is left over after blocks of 32"),
        (np.s_[:, 16:32, 8:24], "rows 16 to 31 of 45; columns 8 to 23 of 40"),
        (np.s_[:, :, 1::3], "every 3rd of 40 columns, from 1 on"),
        (np.s_[0, 44], "one whole index of axis 0, the first of 3 (index 0); one whole row, the last of 45 (index 44)"),
    ],
)
def test_a_region_is_named_when_it_holds_all_of_the_error(where: Any, expected: str) -> None:
    assert expected in said(spoilt(where))["region"]
    broken = RIGHT.copy()
    broken[where] = np.nan
    assert expected in said(broken)["region"]


def test_a_border_is_named_with_its_width_and_its_edges() -> None:
    value = RIGHT * np.float32(1.01)
    value[:, 2:-2, 2:-2] = RIGHT[:, 2:-2, 2:-2]
    for edge in ("the first 2 of 45 rows", "the last 2 of 45 rows", "the first 2 of 40 columns", "the last 2 of 40 columns"):
        assert edge in said(value)["region"]
    value = RIGHT.copy()
    value[:, 0] *= 1.01
    value[:, :, -1] *= 1.01
    assert "a border: the first 1 of 45 rows, the last 1 of 40 columns" in said(value)["region"]


def test_names_of_the_task_are_used() -> None:
    assert "one whole head, number 1 of 3" in said(spoilt(np.s_[1]), axes=("head", "row", "column"))["region"]
    drifting = RIGHT * (1 + 1e-3 * np.arange(45, dtype=np.float32)[None, :, None])
    assert said(drifting, axes=("h", "chunk", "c"))["growth"].startswith("error grows like chunk^1.0")


def scattered() -> np.ndarray:
    value = RIGHT.copy()
    value[np.random.default_rng(1).random(SHAPE) < 0.3] *= 1.1
    return value


@pytest.mark.parametrize(
    "value",
    [
        RIGHT,
        RIGHT * np.float32(1.001),
        TRUTH.astype(np.float16),
        scattered(),
        np.where(np.tri(45, 40)[None] > 0, RIGHT * np.float32(1.01), RIGHT),
        np.roll(RIGHT, 1, 1),
        np.where(np.eye(45, 40)[None] > 0, 0.0, RIGHT),
    ],
    ids=["right", "everything", "half precision", "scattered", "a triangle", "a roll", "a diagonal"],
)
def test_nothing_is_said_of_what_is_nowhere_in_particular(value: np.ndarray) -> None:
    assert said(value) == {}


def test_a_triangle_within_a_block_is_no_block() -> None:
    value = RIGHT.copy()
    value[:, 16:32, 8:24] *= 1 + 0.01 * np.tri(16, dtype=np.float32)
    assert "region" not in said(value)


def grown(rate: np.ndarray, axis: int, noise: float = 0.1) -> np.ndarray:
    """Relative error ``rate`` along an axis, with noise of its own in every slice."""
    rng = np.random.default_rng(2)
    shape = [1] * 3
    shape[axis] = SHAPE[axis]
    jitter = np.exp(noise * rng.standard_normal(SHAPE[axis]))
    value: np.ndarray = TRUTH + TRUTH * (rate * jitter).reshape(shape) * rng.choice([-1, 1], SHAPE)
    return value


def test_exponential_growth_is_measured() -> None:
    (drift,) = localise.pattern(grown(1e-4 * 1.05 ** np.arange(45), 1), TRUTH, LIMIT).drifts
    assert (drift.axis, drift.law, drift.backwards) == (1, "exponential", False)
    assert drift.rate == pytest.approx(1.05, rel=0.01)
    assert "error grows 1.05x per row along axis 1 (45 long): " in said(grown(1e-4 * 1.05 ** np.arange(45), 1, 0.0))["growth"]


def test_growth_backwards_and_by_a_power() -> None:
    (drift,) = localise.pattern(grown(1e-4 * np.arange(40, 0, -1), 2), TRUTH, LIMIT).drifts
    assert (drift.axis, drift.law, drift.backwards) == (2, "power", True)
    assert drift.rate == pytest.approx(1.0, rel=0.1)
    assert "towards the start of axis 2" in said(grown(1e-4 * np.arange(40, 0, -1), 2))["growth"]


def test_the_first_steps_of_a_recurrence_may_be_exact() -> None:
    rate = 1e-4 * np.maximum(np.arange(45) - 2, 0)
    (drift,) = localise.pattern(np.where(rate[None, :, None] == 0, TRUTH, grown(rate, 1)), TRUTH, LIMIT).drifts
    assert (drift.axis, drift.law) == (1, "power")


FLAT, HALF, END = np.full(45, 1e-3), np.where(np.arange(45) < 22, 1e-5, 1e-2), np.where(np.arange(45) < 44, 1e-5, 1.0)


@pytest.mark.parametrize("rate", [FLAT, HALF, END, 1e-3 * (1 + np.arange(45) / 90)], ids=["flat", "step", "last", "hardly"])
def test_level_errors_steps_and_what_hardly_grows_are_no_growth(rate: np.ndarray) -> None:
    for noise in (0.0, 0.1):
        assert localise.pattern(grown(rate, 1, noise), TRUTH, LIMIT).drifts == ()


def test_a_long_axis_is_joined_to_runs_and_the_rate_is_still_per_index() -> None:
    truth = np.random.default_rng(3).standard_normal((2000, 8))
    value = truth * (1 + 1e-6 * 1.002 ** np.arange(2000))[:, None]
    (drift,) = localise.pattern(value, truth, 1e-7).drifts
    assert (drift.law, drift.length) == ("exponential", 2000)
    assert drift.rate == pytest.approx(1.002, rel=1e-4)


def recorded(value: np.ndarray, bounds: bool = True) -> CompareRecord:
    """What the judge records of a stage ``y``, beside a stage ``z`` that is right."""
    other = TRUTH + 1
    layout = plan({"y": ("F32", SHAPE), "z": ("F32", SHAPE)}, 1 << 12)
    buffer = bytearray([POISON]) * layout.report_offset
    for name, array in {"y": value, "z": other}.items():
        slot = layout.slots[name]
        buffer[slot.offset : slot.offset + slot.nbytes] = array.astype(np.float32).tobytes()
    limits = dict.fromkeys("yz", Bound(error=LIMIT, ratio=1000.0, axes=("head", "row", "column")))
    truths = {"y": TRUTH, "z": other}
    stages = compare(bytes(buffer), layout, truths, {n: t.astype(np.float32) for n, t in truths.items()}, bounds=limits if bounds else None)
    return CompareRecord(case="c", split="public", size=1, tree="t", ended="ok", bounds=limits, stages=stages)


def test_a_record_holds_the_pattern_of_what_fails_only_and_survives_json() -> None:
    record = CompareRecord.model_validate_json(recorded(spoilt(np.s_[2])).model_dump_json())
    assert record.stages["z"].pattern is None
    _, kind, findings = assess(record)
    assert kind == "incorrect"
    assert [f.kind for f in findings] == ["incorrect", "region"]
    assert "one whole head, the last of 3 (index 2)" in findings[1].message
    assert str(findings[1].where).startswith("c: stage y[2] tile rows ")
    assert recorded(spoilt(np.s_[2]), bounds=False).stages["y"].pattern is None
    assert assess(recorded(RIGHT)) == ("pass", None, ())


def test_the_truth_of_another_stage_is_recognised() -> None:
    _, _, findings = assess(recorded(TRUTH + 1))
    assert [(f.kind, f.message) for f in findings[1:]] == [("other_stage", "this is the truth of stage z, not of y")]


def test_what_is_not_finite_is_where_the_tile_is() -> None:
    value = spoilt(np.s_[0, 3, 5], 100.0)
    value[1, 20, 35] = np.inf
    worst = recorded(value).stages["y"].worst
    assert worst is not None
    assert (worst.index, worst.tile) == ((1,), (16, 32, 32, 40))


def case(**own: int) -> Case:
    return Case.model_validate({"name": "c", "split": "public", "size": 1, "when": "always", "bounds": {}, **own})


def test_shrinking_is_greedy_and_ends_where_no_smaller_case_fails() -> None:
    """Fails from 5 rows and 3 columns on, in the same way; with one row it fails too, but otherwise."""

    def run(tried: Case) -> CompareRecord:
        rows, columns = tried.numbers["rows"], tried.numbers["columns"]
        bad, ended = rows >= 5 and columns >= 3, "crashed" if rows == 1 else "ok"
        return recorded(spoilt(np.s_[1]) if bad else RIGHT).model_copy(update={"ended": ended})

    def smaller(tried: Case) -> list[Case]:
        n = {name: int(tried.numbers[name]) for name in ("rows", "columns")}
        return [case(**{**n, name: value}) for name in n for value in dict.fromkeys((1, n[name] // 2, n[name] - 1)) if 0 < value < n[name]]

    start = case(rows=9, columns=4)
    found = shrink.shrink(start, run(start), smaller, run)
    assert (found.case["rows"], found.case["columns"], found.tries) == (5, 3, 12) or found.complete is False
    assert found.compare is not None
    exhausted = shrink.shrink(case(rows=6, columns=3), run(start), smaller, run)
    assert (exhausted.case["rows"], exhausted.case["columns"], exhausted.complete) == (5, 3, True)
    assert exhausted.tries <= shrink.MOST_TRIES
    assert {(c["rows"], c["columns"]) for c in exhausted.passing} == {(1, 3), (2, 3), (4, 3), (5, 1), (5, 2)}
    finding = shrink.finding(exhausted, 10.0)
    assert finding.kind == "smallest_failing" and "columns=3, rows=5, size=1" in finding.message and finding.magnitude < 10.0


def test_shrinking_without_the_tasks_help_says_so() -> None:
    found = shrink.shrink(case(rows=9), recorded(spoilt(np.s_[1])), lambda _: None, lambda _: pytest.fail("nothing to run"))
    assert found.compare is None and found.complete
    assert "has no smaller(case)" in shrink.finding(found, 1.0).message


def test_a_real_cage_shrinks_a_case(tmp_path: Path) -> None:
    """A remainder block of eight rows that is never written: two heads of one column and nine rows are more than enough."""
    task = load(str(TASKS / "accuracy"))
    tree = read_folder(task.workspace)
    broken = tree["work/entry.py"].replace(
        b"return out\n\n\ndef state", b"out[:, x.shape[1] - x.shape[1] % 8 :] = 0\n    return out\n\n\ndef state"
    )
    with Collector(task, seeds.new_secret()) as collector:
        arguments = {"cases": "small", "shrink": True}
        observation, records = measure(collector, "accuracy", {**tree, "work/entry.py": broken}, tree, arguments, ())
        healthy, of_healthy = measure(collector, "accuracy", tree, tree, arguments, ())
    assert set(of_healthy) == {"compare.small"} and healthy.status == "pass" and healthy.findings == ()
    (smallest,) = [f for f in observation.findings if f.kind == "smallest_failing"]
    shrunk = shrink.ShrunkRecord.model_validate_json(records["shrunk"])
    assert shrunk.case["rows"] % 8 and shrunk.case["size"] < 45 and shrunk.tries <= shrink.MOST_TRIES
    assert f"rows={shrunk.case['rows']}" in smallest.message and f"rows={shrunk.case['rows']}" in observation.headline
    about = Context("accuracy", "tensors", "in-process", "cpu", "none", ())
    assert observe(records, task.spec, about).findings == observation.findings


def test_a_stage_with_one_axis_has_no_border() -> None:
    """Every third element wrong is neither a run nor a step; there are no rows whose edges could be looked at."""
    bad = np.zeros(30)
    bad[[0, 1, 7, 20, 21]] = 1.0
    assert localise._border(bad, np.ones(30), 1e-6) is None
