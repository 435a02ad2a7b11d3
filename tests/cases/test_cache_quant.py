"""Caches in fewer bytes: the base drifts by class and step, the sparse metric names no class, and bytes count where a shadow is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra_agent.judge import audit_record, seeds, tensors
from infra_agent.judge.collector import Collector
from infra_agent.judge.tensors import CompareRecord
from infra_agent.session.observation import Observation, TensorWhere
from infra_agent.task.load import load
from infra_agent.task.repository import for_task
from infra_agent.task.tree import Tree, read_folder
from tests.conftest import ROOT

TASK = ROOT / "tasks" / "cache-quant"


@pytest.fixture(scope="module", params=[1, 2])
def collector(request: pytest.FixtureRequest) -> Iterator[Collector]:
    """Two secrets: what is said must not hang on a draw."""
    with Collector(load(str(TASK)), seeds.new_secret()) as made:
        yield made


@pytest.fixture(scope="module")
def judge() -> Iterator[Collector]:
    with Collector(load(str(TASK)), seeds.new_secret()) as made:
        yield made


def patched(made: Collector, home: Path, patch: str) -> Tree:
    repository, base = for_task(made.task, home)
    return repository.read_tree(repository.apply(base, (TASK / patch).read_bytes()))


def failing(record: CompareRecord) -> set[str]:
    return {stage for stage in record.bounds if tensors.stage_fault(record, stage)}


def test_the_shipped_audit_is_green_and_of_this_version(home: Path) -> None:
    record = audit_record.find(load(str(TASK)), home)
    assert record is not None, "tasks/cache-quant changed: run infra-agent audit tasks/cache-quant --write"
    assert record.green
    names = {trial.name for trial in record.trials if not trial.name.startswith("free: ")}
    assert {p.stem for folder in ("controls", "solutions") for p in (TASK / folder).glob("*.patch")} == names
    assert sum(trial.expected == "pass" for trial in record.trials) >= 2


def test_the_state_drifts_with_every_handover_and_the_sparse_metric_does_not_say_so(collector: Collector) -> None:
    case = collector.public_case("long")
    record = collector.accuracy(read_folder(collector.task.workspace), case)
    status, kind, findings = tensors.assess(record)
    assert failing(record) == {"ssm", "out"} and (status, kind) == ("fail", "incorrect")
    of_state = [f for f in findings if isinstance(f.where, TensorWhere) and f.where.stage == "ssm"]
    assert any(f.kind == "growth" and "handover" in f.message and "along axis 0" in f.message for f in of_state)
    assert any(f.kind == "growth" and "axis 2 (8 long)" in f.message for f in of_state), "heads that forget slowly are worse"
    said = Observation(
        instrument="accuracy",
        status=status,
        kind=kind,
        headline="",
        metrics=tensors.metrics(record),
        findings=findings,
        evidence={"record": "0"},
    )
    sparse = said.for_model(collector.task.spec.sparse_metric)
    assert "error.out@long" in sparse and not any(name in sparse for name in ("ssm", "kv", "handover"))


def test_large_channels_cost_the_keys_in_int8(collector: Collector) -> None:
    record = collector.accuracy(read_folder(collector.task.workspace), collector.public_case("outliers"))
    assert "kv" in failing(record) and not failing(record) & {"index", "conv", "bytes", "resumed"}


@pytest.mark.parametrize(
    ("name", "cases"),
    [("stochastic-state", ("long",)), ("feedback-state", ("outliers",)), ("bf16-stochastic-state", ("short",))],
)
def test_a_solution_keeps_every_limit(judge: Collector, home: Path, name: str, cases: tuple[str, ...]) -> None:
    """The audit looks at every case; these are the nearest to a limit."""
    tree = patched(judge, home, f"solutions/{name}.patch")
    for case in cases:
        assert not failing(judge.accuracy(tree, judge.public_case(case))), case


@pytest.mark.parametrize("name", ["shadow-state", "residual-not-packed"])
def test_what_is_kept_beside_the_image_is_lost_when_a_request_moves(judge: Collector, home: Path, name: str) -> None:
    record = judge.accuracy(patched(judge, home, f"controls/{name}.patch"), judge.public_case("short"))
    assert failing(record) == {"resumed"}


def test_bfloat16_everywhere_is_over_the_bytes_and_nothing_else(judge: Collector, home: Path) -> None:
    record = judge.accuracy(patched(judge, home, "controls/all-bf16.patch"), judge.public_case("short"))
    assert failing(record) == {"bytes"}
