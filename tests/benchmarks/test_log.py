"""The log itself: appending with fsync (aim: 2 ms at the 99th percentile), reading and checking (aim: 20,000 events a second)."""

import statistics
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from infra_agent.session import events
from infra_agent.session.log import SessionLog, read

pytestmark = pytest.mark.benchmark
EVENTS = 20_000


def some(number: int) -> events.Event:
    """One of four kinds in turn; none is synced by itself."""
    kinds: list[events.Event] = [
        events.ActionProposed(action=f"a-{number}", call="c", tool="view", arguments={"path": "rows/entry.py", "start": 1, "lines": 400}),
        events.GateDecided(action=f"a-{number}", decision="allow", rule="read", reason="reads and notes change nothing"),
        events.CheckFinished(proposal="p-0123456789ab", name="accuracy", status="pass"),
        events.Note(text="one of the remarks that a host makes"),
    ]
    return kinds[number % 4]


def test_append_with_fsync(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    with SessionLog(tmp_path / "session") as log:
        event = events.ExecFinished(action="a-1", ended="pass", seconds=0.1)
        taken = list[float]()

        def append() -> None:
            began = time.perf_counter()
            log.append(event)
            taken.append(time.perf_counter() - began)

        benchmark.pedantic(append, rounds=1_000, iterations=1)
    taken.sort()
    benchmark.extra_info["p99_ms"] = round(1e3 * taken[int(0.99 * len(taken))], 2)


def test_read_and_check(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    with SessionLog(tmp_path / "session") as log:
        for number in range(EVENTS):
            log.append(some(number))
    taken = list[float]()

    def check() -> None:
        began = time.perf_counter()
        assert len(read(tmp_path / "session")) == EVENTS
        taken.append(time.perf_counter() - began)

    benchmark.pedantic(check, rounds=5, iterations=1)
    benchmark.extra_info["events_per_s"] = round(EVENTS / statistics.median(taken))
