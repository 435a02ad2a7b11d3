"""What the loop itself costs: ten thousand scripted steps with a kilobyte of observation each, on a real log that is synced."""

import resource
import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from infra_agent.agent import session
from infra_agent.models.base import Reply, ToolSchema
from infra_agent.session import events
from infra_agent.session.budget import Limits
from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall
from tests.support import mark_audited, rows_task

pytestmark = pytest.mark.benchmark
STEPS = 10_000


class Endless:
    """Views another part of a file in every step."""

    name = "endless"

    def __init__(self) -> None:
        self._step = 0

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
        """The next call."""
        self._step += 1
        call = ToolCall(id=f"c{self._step}", name="view", arguments=f'{{"path": "rows/long.py", "start": {self._step}, "lines": 20}}')
        return Reply("", (call,))


def test_steps_cost_the_same_from_first_to_last(benchmark: BenchmarkFixture, tmp_path: Path, home: Path) -> None:
    task = rows_task(tmp_path)
    (task.workspace / "rows" / "long.py").write_text("# forty-six characters are in this very line\n" * (STEPS + 20))
    mark_audited(task, home)
    began: list[float] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.ModelRequested):
            began.append(time.perf_counter())

    def run() -> None:
        session.run(task, Endless(), "model:endless", session.Options(False, Limits(steps=STEPS), home), listen)

    benchmark.pedantic(run, rounds=1, iterations=1)
    steps = [later - earlier for earlier, later in pairwise(began)]
    first, last = statistics.median(steps[:100]), statistics.median(steps[-100:])
    benchmark.extra_info |= {
        "steps": len(steps) + 1, "median_ms": round(1e3 * statistics.median(steps), 2), "first_100_ms": round(1e3 * first, 2),
        "last_100_ms": round(1e3 * last, 2), "last_over_first": round(last / first, 2),
        "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    }  # fmt: skip
    assert len(began) == STEPS
