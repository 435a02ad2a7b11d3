"""Acceptance as an anomaly signal: what base gets wrong, what the findings say of it, and that no record can be decided by its future."""

import importlib
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from infra_agent.judge import audit_record, measure, seeds, tensors
from infra_agent.judge.collector import Collector
from infra_agent.session.observation import Observation, TensorWhere
from infra_agent.task.load import load
from infra_agent.task.repository import for_task
from infra_agent.task.tree import Tree, read_folder
from tests.conftest import ROOT

FOLDER = ROOT / "tasks" / "spec-monitor"
PUBLIC = ["garbled-kv", "loops", "one-day"]


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector(load(str(FOLDER)), seeds.new_secret()) as made:
        yield made


@pytest.fixture(scope="module")
def judge() -> Iterator[ModuleType]:
    """The task's own judge code, with what it imports; under these names for as long as it is needed."""
    names = ("models", "traffic", "task")
    before = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path.insert(0, str(FOLDER / "judge"))
    try:
        yield importlib.import_module("task")
    finally:
        sys.path.remove(str(FOLDER / "judge"))
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(before)


def patched(collector: Collector, home: Path, patch: str) -> Tree:
    repository, base = for_task(collector.task, home)
    return repository.read_tree(repository.apply(base, (FOLDER / patch).read_bytes()))


def observe(collector: Collector, tree: Tree, cases: list[str]) -> Observation:
    return measure.measure(collector, "accuracy", tree, tree, {"cases": ",".join(cases), "shrink": False}, ())[0]


def test_the_shipped_audit_is_green_and_of_this_version(home: Path) -> None:
    record = audit_record.find(load(str(FOLDER)), home)
    assert record is not None, "tasks/spec-monitor changed: run infra-agent audit tasks/spec-monitor --write"
    assert record.green
    names = {trial.name for trial in record.trials if not trial.name.startswith("free: ")}
    assert {p.stem for folder in ("controls", "solutions") for p in (FOLDER / folder).glob("*.patch")} == names


@pytest.mark.parametrize("draw", range(3))
def test_the_findings_name_the_side_that_base_does_not_see(collector: Collector, draw: int) -> None:
    """Whatever is drawn, anew each time: loops are worst, hardly one is aborted, and findings name requests, attempts and output tokens."""
    seen = observe(collector, read_folder(collector.task.workspace), ["garbled-kv", "loops"])
    errors = {metric.name: metric.value for metric in seen.metrics}
    assert seen.status == "fail"
    assert errors["error.abort@loops"] > 0.95
    assert 0.3 < errors["error.abort@garbled-kv"] < 0.8, "garbled output is seen, late or by mistake"
    worst = max(seen.findings, key=lambda finding: finding.magnitude)
    assert isinstance(worst.where, TensorWhere)
    assert (worst.where.case, worst.where.stage) == ("loops", "abort")
    marks = next(f.where for f in seen.findings if isinstance(f.where, TensorWhere) and f.where.stage == "timeline")
    assert len(marks.index) == 1
    assert marks.tile is not None
    assert marks.tile[3] - marks.tile[2] == tensors.TILE


def test_the_sparse_metric_is_one_number_that_names_neither_side(collector: Collector) -> None:
    seen = observe(collector, read_folder(collector.task.workspace), ["one-day"])
    status, metric = seen.for_model(collector.task.spec.sparse_metric).splitlines()
    assert status == "accuracy: fail (incorrect)"
    assert metric.startswith("error.abort@one-day = ")
    assert 0.75 < float(metric.split()[2]) < 1.0


@pytest.mark.parametrize("patch", ["solutions/windows", "solutions/sequential-tests"])
def test_solutions_keep_within_every_limit(collector: Collector, home: Path, patch: str) -> None:
    seen = observe(collector, patched(collector, home, f"{patch}.patch"), PUBLIC)
    assert seen.status == "pass", seen.headline


def test_what_only_held_out_cases_refuse_passes_the_public_ones(collector: Collector, home: Path) -> None:
    seen = observe(collector, patched(collector, home, "controls/published-thresholds.patch"), PUBLIC)
    assert seen.status == "pass", seen.headline


def test_the_models_give_the_figures_that_the_task_states(judge: ModuleType) -> None:
    models = sys.modules["models"]
    found = {}
    for mode in ("usual", "garbled", "loop", "table", "farther", "close"):
        number, starts = np.arange(200), np.zeros((200, 1), int)
        steps, _, _, emitted = models.decode(
            starts, np.full((200, 1), models.MODE[mode]), np.full(200, 300), np.full(200, 4), number, np.random.default_rng(1)
        )
        found[mode] = float(np.mean((emitted[number, steps - 1] - 1) / (steps - 1)))
    assert found == pytest.approx({"usual": 3.15, "garbled": 1.08, "loop": 5.0, "table": 4.65, "farther": 2.0, "close": 4.4}, rel=0.03)


@pytest.mark.parametrize("split", ["public", "held_out"])
def test_twins_are_equal_up_to_a_fork_and_then_differ(judge: ModuleType, split: str) -> None:
    """Half of the requests have a twin: one goes wrong where the other does not, or recovers, long after it should have been aborted."""
    case = judge.cases(split)[-1]
    drawn = judge.inputs(case, 3)
    due = judge.truth(drawn)
    columns = np.stack([drawn[name][:, 0] for name in ("draft_tokens", "accepted_tokens", "output_tokens")], axis=-1)
    order = np.lexsort(columns[:, :24].reshape(len(columns), -1).T)
    forked = recovered = 0
    for one, other in pairwise(order):
        fork = int((columns[one] != columns[other]).any(axis=-1).argmax())
        telling = columns[one, :fork, 1]
        if fork < 24 or ((telling > 0) & (telling < 4)).sum() < 5:
            continue  # two of which nothing, or everything, was accepted look alike and are no twins
        tokens = int(drawn["output_tokens"][one, 0, fork - 1])
        aborted = due["abort"][[one, other], 0]
        if aborted.all():
            assert due["wasted"][one, 0] == due["wasted"][other, 0] <= tokens
            recovered += 1
        elif aborted.any():
            assert due["wasted"][[one, other], 0].max() > tokens
            forked += 1
    assert forked > 50
    assert recovered > 50


def test_labels_are_in_no_input(judge: ModuleType) -> None:
    """Nothing but what workers report, and ids that are the same for no two draws and say nothing."""
    case = judge.cases("public")[0]
    first, second = judge.inputs(case, 1), judge.inputs(case, 2)
    assert set(first) == {"request_ids", "verify_steps", "draft_tokens", "accepted_tokens", "output_tokens"}
    assert not set(first["request_ids"].tolist()) & set(second["request_ids"].tolist())
    aborted = judge.truth(first)["abort"][:, 0] == 1
    place = np.argsort(np.argsort(first["request_ids"])) / len(aborted)
    assert abs(place[aborted].mean() - place[~aborted].mean()) < 0.1
    with pytest.raises(KeyError):
        judge.truth({**first, "request_ids": first["request_ids"] + 1})
