"""How long this project's own parts take. Ratios within one run; nothing here asserts a time."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from infra_agent.judge import crossover, seeds, standing, timing
from infra_agent.judge.collector import Collector
from infra_agent.judge.statistics import LOOKS
from infra_agent.task.load import load
from infra_agent.task.tree import read_folder
from tests.conftest import KDA, ROOT

pytestmark = pytest.mark.benchmark


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector(load(str(KDA)), seeds.new_secret()) as made:
        made.warm()
        yield made


def test_help(benchmark: Any) -> None:
    """Aim: 0.2 s. Beside it, in the same run, a Python that does nothing."""
    argv = [sys.executable, "-m", "infra_agent.cli.main", "--help"]
    benchmark.pedantic(lambda: subprocess.run(argv, cwd=ROOT, capture_output=True, check=True), rounds=10, warmup_rounds=1)


def test_bare_python(benchmark: Any) -> None:
    benchmark.pedantic(
        lambda: subprocess.run([sys.executable, "-c", "pass"], cwd=ROOT, capture_output=True, check=True), rounds=10, warmup_rounds=1
    )


def test_accuracy_warm(benchmark: Any, collector: Collector) -> None:
    """Aim: 0.3 s beyond the kernels' own time, which the record's wall time inside the cage holds."""
    tree, case = read_folder(collector.task.workspace), collector.public_case("chain-1k")
    seconds: list[float] = []

    def once() -> None:
        record = collector.accuracy(tree, case)
        seconds.append(record.entry_s)

    benchmark.pedantic(once, rounds=10, warmup_rounds=1)
    kernels = sorted(seconds)[len(seconds) // 2]
    benchmark.extra_info["kernels_s"] = round(kernels, 4)
    benchmark.extra_info["harness_s"] = round(benchmark.stats.stats.median - kernels, 4)


def test_timing_to_the_second_look(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Aim: 4 s for a call of 0.2 ms, base against base included, in warm cages."""
    task = load(str(ROOT / "tests" / "aa" / "tasks" / "loop"))
    tree, found = read_folder(task.workspace), []
    monkeypatch.setattr(crossover, "LOOKS", LOOKS[1:2])
    with Collector(task, seeds.new_secret()) as warm:
        case = warm.public_case("only")
        benchmark.pedantic(lambda: found.append(standing.timing(warm, tree, tree, case)), rounds=3, warmup_rounds=1)
    assert task.spec.timing and {len(record.restarts) for record in found} == {LOOKS[1].restarts}
    assessed = timing.assess(found[-1], task.spec.timing, task.spec)
    benchmark.extra_info["call_ms"] = round(assessed.base_s * 1e3, 3)
    benchmark.extra_info["smallest_visible"] = round(assessed.visible or 0.0, 4)
