"""The log itself: appending with fsync, reading and checking a whole one, and opening a long one to look at it."""

import statistics
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from infra_agent import canonical
from infra_agent.cli.stepper import Stepper, draw
from infra_agent.session import events
from infra_agent.session.events import ToolCall, Usage
from infra_agent.session.index import Index, Wanted
from infra_agent.session.log import FIRST, Blobs, SessionLog, envelope, read
from infra_agent.session.observation import Finding, Metric, Observation, TensorWhere
from tests.cli.test_show import Terminal

pytestmark = pytest.mark.benchmark
EVENTS = 100_000
DIGEST = "0" * 64


def some(number: int) -> events.Event:
    """One of seven kinds in turn, as a session that measures has them: 480 bytes a line on average."""
    action = f"a-{number // 7}"
    call = ToolCall(id=f"c{number}", name="accuracy", arguments='{"cases": "small", "shrink": false}')
    finding = Finding(
        kind="incorrect", where=TensorWhere(case="small", stage="running", tile=(0, 8, 0, 8)), magnitude=1.25, message="off by 0.3"
    )
    seen = Observation(
        instrument="accuracy", status="fail", kind="incorrect", headline="1 of 2 cases fail: small", findings=(finding,), cost_s=0.25,
        metrics=(Metric(name="error.running@small", value=0.123456789, target=1e-5),), platform="cpu-emulated", isolation="full",
        trust="judged", reproduce=("infra-agent", "measure", "rows", "accuracy"), evidence={"compare": DIGEST},
    )  # fmt: skip
    kinds: list[events.Event] = [
        events.ModelRequested(model="scripted", digest=DIGEST, messages=number),
        events.ModelReplied(request=DIGEST, text="The running sum runs along columns; I measure first.", tool_calls=(call,), usage=Usage()),
        events.ActionProposed(action=action, call=f"c{number}", tool="accuracy", arguments={"cases": "small", "shrink": False}),
        events.GateDecided(action=action, decision="allow", rule="measure", reason="an instrument the task allows, in a cage"),
        events.ExecStarted(action=action, program="accuracy", tree=DIGEST, arguments={"cases": "small"}),
        events.ExecFinished(action=action, ended="fail", seconds=0.25),
        events.ObservationMade(action=action, observation=seen, records={"compare": DIGEST}, evidence_kind="tensors", tree=DIGEST),
    ]
    return kinds[number % 7]


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of EVENTS events, put down without the writer: its fsyncs would take minutes."""
    folder = tmp_path_factory.mktemp("long")
    hashes = [FIRST]
    with open(folder / "session.jsonl", "wb") as log:
        for number in range(EVENTS):
            line = envelope(some(number), number, hashes[-1])
            log.write(canonical.encode(line) + b"\n")
            hashes.append(line["hash"])
    (folder / "HEAD").write_bytes(canonical.encode({"seq": EVENTS - 1, "hash": hashes[-1]}) + b"\n")
    return folder


def test_append_with_fsync(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Aim: 2 ms at the 99th percentile."""
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


def test_read_and_check(benchmark: BenchmarkFixture, long: Path) -> None:
    """Aim: 20,000 events a second, with chain, canonical form and schema checked."""
    taken = list[float]()

    def check() -> None:
        began = time.perf_counter()
        assert len(read(long)) == EVENTS
        taken.append(time.perf_counter() - began)

    benchmark.pedantic(check, rounds=5, iterations=1)
    benchmark.extra_info["events_per_s"] = round(EVENTS / statistics.median(taken))


def test_first_screen(benchmark: BenchmarkFixture, long: Path) -> None:
    """Aim: 0.3 s from the log to a drawn screen."""

    def first() -> None:
        with Index(long) as index:
            stepper = Stepper("long", index, Blobs(long / "blobs"), range(len(index)))
            assert "event 0 of 0-99999" in draw(stepper, stepper.begin(Wanted()), 120, 40)[0].plain

    benchmark.pedantic(first, rounds=10, iterations=1)


def test_first_screen_of_the_program(benchmark: BenchmarkFixture, long: Path) -> None:
    """Aim: 200 MB at most until the screen is there. The time has the interpreter's start and every import in it."""
    peaks = list[int]()

    def first() -> None:
        terminal = Terminal(long)
        terminal.until("q quit")
        status = Path(f"/proc/{terminal.process.pid}/status").read_text()
        peaks.append(int(status.partition("VmHWM:")[2].split()[0]))
        terminal.close()

    benchmark.pedantic(first, rounds=5, iterations=1)
    benchmark.extra_info["peak_mb"] = round(max(peaks) / 1024)
