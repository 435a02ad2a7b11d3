"""A reader that skips the load fence: rare in the answers, certain in the order of events; what waits too much loses by its overlap."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra_agent.gates import checks
from infra_agent.judge import audit_record, measure, seeds
from infra_agent.judge.collector import Collector
from infra_agent.judge.tensors import CompareRecord
from infra_agent.session.observation import EventPairWhere, Observation
from infra_agent.task.load import load
from infra_agent.task.repository import for_task
from infra_agent.task.tree import Tree
from tests.conftest import ROOT

FOLDER = ROOT / "tasks" / "hicache-fence"
TOO_MUCH = ("wait-for-the-last-layer", "load-before-computing", "device-synchronize", "sleep-long")
RIGHT = ("guard-accessors", "wait-in-the-indexer")


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector(load(str(FOLDER)), seeds.new_secret()) as made:
        yield made


def patched(collector: Collector, home: Path, patch: str) -> Tree:
    repository, base = for_task(collector.task, home)
    return repository.read_tree(repository.apply(base, (FOLDER / patch).read_bytes()) if patch else base)


def seen(collector: Collector, instrument: str, tree: Tree) -> Observation:
    arguments = {"accuracy": {"cases": "", "shrink": False}, "events": {"schedules": 20}}[instrument]
    return measure.measure(collector, instrument, tree, tree, arguments, ())[0]


def prefill(collector: Collector, tree: Tree) -> CompareRecord:
    return collector.accuracy(tree, collector.public_case("prefill"))


def overlap(record: CompareRecord) -> str:
    return checks.modelled([record], ["makespan"]).status


def test_the_shipped_audit_is_green_and_of_this_version(home: Path) -> None:
    record = audit_record.find(load(str(FOLDER)), home)
    assert record is not None and record.green, "tasks/hicache-fence changed: run infra-agent audit tasks/hicache-fence --write"


def test_every_time_the_two_events_and_the_missing_edge_are_named(collector: Collector, home: Path) -> None:
    tree = patched(collector, home, "")
    lines = tree["hicache/forward.py"].decode().splitlines()
    reads = next(n for n, line in enumerate(lines, 1) if "self._stream.launch(" in line and "INDEX_S" in lines[n])
    for _ in range(5):
        found = seen(collector, "events", tree)
        where = found.findings[0].where
        assert (found.status, found.kind) == ("fail", "race") and isinstance(where, EventPairWhere)
        assert f"hicache/forward.py:{reads}" in where.second and "hicache/loader.py:" in where.first and "index_" in where.first
        assert "nothing makes forward wait until load is done with index_" in found.findings[0].message
        assert not any("key[" in part and "index" not in part for part in (where.first, where.second)), "KV is fenced"


def test_the_answers_are_seldom_wrong_and_then_name_the_request_where_the_sparse_metric_names_nothing(
    collector: Collector, home: Path
) -> None:
    tree = patched(collector, home, "")
    looks = (seen(collector, "accuracy", tree) for _ in range(30))
    found = next((look for look in looks if look.status == "fail"), None)
    assert found is not None, "9 requests of 10,000: a look at 1,536 of them shows it three times of four"
    text, sparse = found.for_model(), found.for_model(collector.task.spec.sparse_metric)
    assert "stage answers[" in text and "error.answers@prefill" in sparse
    assert "request" not in sparse and "index" not in sparse


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_keeps_the_order_the_answers_and_the_overlap(collector: Collector, home: Path, name: str) -> None:
    tree = patched(collector, home, f"solutions/{name}.patch")
    assert seen(collector, "events", tree).status == "pass" and seen(collector, "accuracy", tree).status == "pass"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patch", "status"), [*((f"controls/{n}.patch", "fail") for n in TOO_MUCH), *((f"solutions/{n}.patch", "pass") for n in RIGHT)]
)
def test_over_twenty_draws_the_overlap_decides_and_not_luck(collector: Collector, home: Path, patch: str, status: str) -> None:
    tree = patched(collector, home, patch)
    assert [overlap(prefill(collector, tree)) for _ in range(20)] == [status] * 20
