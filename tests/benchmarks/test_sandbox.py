"""What the cage costs. Each beside its aim; the comparison with a fresh process is a ratio within one run."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.profile import Profile, load
from infra_agent.task.tree import pack

pytestmark = pytest.mark.benchmark

OP = "import torch\ntorch.set_num_threads(1)\nx = torch.ones(64, 64) @ torch.ones(64, 64)\nassert x[0, 0] == 64\n"
TIMED = OP + "import time\nfrom sandboxes.runtime import request\nrequest.current().write_report(str(time.monotonic_ns()).encode())\n"
NOTHING = "from sandboxes.runtime import request\nrequest.current().serve(lambda first, count: None)\n"
EMPTY = Profile(name="empty", about="Nothing preloaded")


@pytest.fixture(scope="module")
def warm() -> Iterator[Cage]:
    """A cage with torch and triton preloaded."""
    with Cage(load("triton-interpret")) as cage:
        cage.run("sandboxes.runtime.shell", {"command": "true"})
        yield cage


def test_start_to_pid_1(benchmark: Any) -> None:
    """Aim: 60 ms, until PID 1 answers from Python."""
    started: list[Cage] = []

    def end_the_last() -> None:
        while started:
            started.pop().close()

    benchmark.pedantic(lambda: started.append(Cage(EMPTY)), setup=end_the_last, rounds=20, warmup_rounds=1)
    end_the_last()


def test_start_preloaded(benchmark: Any) -> None:
    """torch and triton imported: what a spare cage saves."""
    benchmark.pedantic(lambda: Cage(load("triton-interpret")).close(), rounds=3)


def test_fork_to_first_op(benchmark: Any, warm: Cage) -> None:
    """Aim: 15 ms from the judge's request to the end of the first torch operation in the child."""
    tree = pack({"op.py": TIMED.encode()})
    milliseconds = []

    def once() -> None:
        began = time.monotonic_ns()
        result = warm.run("op", {}, {"tree": tree})
        milliseconds.append((int(result.report) - began) / 1e6)

    benchmark.pedantic(once, rounds=40, warmup_rounds=3)
    benchmark.extra_info["first_op_ms"] = round(statistics.median(milliseconds), 2)


def test_whole_request_beside_a_fresh_process(benchmark: Any, warm: Cage) -> None:
    """Aims: 20 ms; at least 50 times faster than a fresh process that does the same operation."""
    tree = pack({"op.py": OP.encode()})
    fresh = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", OP], check=True)
        fresh.append(time.perf_counter() - began)

    def once() -> None:
        assert warm.run("op", {}, {"tree": tree}).ok

    benchmark.pedantic(once, rounds=60, warmup_rounds=3)
    benchmark.extra_info["fresh_process_s"] = round(statistics.median(fresh), 3)
    benchmark.extra_info["times_faster"] = round(statistics.median(fresh) / benchmark.stats.stats.median, 1)


def test_relay_of_a_call(benchmark: Any, warm: Cage) -> None:
    """Aim: 0.2 ms on the judge's clock: continue, relay, reply; the child does nothing. Seeing that all is stopped comes after it."""
    assert warm.start("nothing", {}, {"tree": pack({"nothing.py": NOTHING.encode()})}).status == "ok"
    replies = []

    def once() -> None:
        replies.append(warm.call())

    benchmark.pedantic(once, rounds=500, warmup_rounds=20)
    warm.stop()
    assert {reply.status for reply in replies} == {"ok"}
    benchmark.extra_info["on_the_clock_ms"] = round(statistics.median(reply.wall_ns for reply in replies) / 1e6, 3)
    benchmark.extra_info["idle_cpu_ms"] = round(statistics.median(reply.idle_cpu_ns for reply in replies[1:]) / 1e6, 3)


def test_five_hundred_requests_in_a_row(benchmark: Any, warm: Cage) -> None:
    """Aim: no growth: in time, in this process's descriptors, in PID 1's memory."""
    tree = pack({"op.py": OP.encode()})
    assert warm._started
    before = _held(warm._started.pid1)
    seconds = []

    def once() -> None:
        began = time.perf_counter()
        assert warm.run("op", {}, {"tree": tree}).ok
        seconds.append(time.perf_counter() - began)

    benchmark.pedantic(once, rounds=500)
    after = _held(warm._started.pid1)
    first, last = statistics.median(seconds[:100]), statistics.median(seconds[-100:])
    benchmark.extra_info["last_hundred_to_first"] = round(last / first, 3)
    benchmark.extra_info["descriptors"] = f"{before[0]} to {after[0]}"
    benchmark.extra_info["pid1_mb"] = f"{before[1]:.1f} to {after[1]:.1f}"


def _held(pid1: int) -> tuple[int, float]:
    """Descriptors of this process, resident MiB of PID 1."""
    pages = int(Path(f"/proc/{pid1}/statm").read_text().split()[1])
    return len(os.listdir("/proc/self/fd")), pages * os.sysconf("SC_PAGE_SIZE") / 2**20
