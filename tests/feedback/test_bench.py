"""The instrument ``bench`` in a real cage: runs in turns, the text of each format, and commands that go wrong."""

import pytest

from infra_agent.judge import commands, seeds
from infra_agent.judge.collector import Collector
from infra_agent.task.load import load
from infra_agent.task.spec import Commands, Figures
from tests.pairs.of_bench import pair
from tests.pairs.pair import TASKS, ask

PYTEST = Commands(
    bench=("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--benchmark-json=out.json", "--benchmark-min-rounds=2",
           "--benchmark-max-time=0.01", "test_speed.py"),
    figures=Figures(format="pytest-benchmark", file="out.json"),
)  # fmt: skip


@pytest.fixture(scope="module")
def collector():
    with Collector(load(str(TASKS / "bench")), seeds.new_secret()) as made:
        yield made


def test_pytest_benchmark_runs_in_the_cage_and_is_read(collector: Collector) -> None:
    tree = {"test_speed.py": b"def test_sum(benchmark):\n    benchmark(sum, range(10000))\n"}
    run = commands._benched(collector, tree, PYTEST)
    assert run.ended == "ok", run.ending
    assert list(run.values) == ["test_speed.py::test_sum"]
    assert 1e-6 < run.values["test_speed.py::test_sum"] < 0.1  # seconds
    assert run.wall_s > run.values["test_speed.py::test_sum"]


@pytest.mark.parametrize(("program", "ended"), [
    (b"raise SystemExit(3)", "crashed"),
    (b"print('nothing that is a figure')", "bad_figures"),
    (b"print('sort: nan us')", "bad_figures"),
    (b"import os, signal; os.kill(os.getppid(), signal.SIGKILL)", "crashed"),
])  # fmt: skip
def test_a_run_that_goes_wrong_has_no_figures(collector: Collector, program: bytes, ended: str) -> None:
    run = commands._benched(collector, {"measure.py": program}, commands.asked(collector, "bench"))
    assert (run.ended, run.values) == (ended, {})


def test_sides_run_in_turns_and_the_protected_program_is_base_s(collector: Collector) -> None:
    planted = pair(0)
    tree = {**planted.healthy, "measure.py": b"print('sort: 0.001 us')"}
    record = commands.bench(collector, tree, planted.healthy, 2)
    assert len(record.base) == len(record.candidate) == 2
    assert set(record.candidate[0].values) == set(record.base[0].values)
    assert record.tree == record.base_tree
    assert record.program == "measure.py"
    assert all(run.wall_s > 0.01 for run in (*record.base, *record.candidate))


def test_a_candidate_whose_benchmark_fails_is_told_so(collector: Collector) -> None:
    base = pair(1).healthy
    observation = ask(collector, "bench", {**base, "work/parts.py": b"NAMES = ['a']\n"}, base, {"runs": 2})
    assert (observation.status, observation.kind) == ("fail", "crashed")
    assert "AttributeError" in observation.findings[0].message
    assert observation.trust == "in-process"
