"""The instrument ``trace`` in a real cage, and its reduction on timelines whose answer is known."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from feedback.trace import critical, findings, lanes
from feedback.trace.reduce import reduce
from feedback.trace.speedscope import convert
from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.judge.measure import measure
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.profile import load
from infra_agent.task.load import load as load_task
from infra_agent.task.tree import pack, read_folder
from tests.conftest import Cli

TASK = Path(__file__).parents[1] / "pairs" / "tasks" / "plain"
ENTRY = """
import threading
import time

import torch

TABLE = torch.ones(500, 500)
LOCK = threading.Lock()


def loop(x):
    out = torch.empty(600)
    for i in range(600):
        out[i] = (TABLE[i % 500] * 2).sum()  # LOOP
    return {"y": x}


def locked(x):
    threads = [threading.Thread(target=work, name=f"w{n}") for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"y": x}


def work():
    for _ in range(5):
        with LOCK:  # LOCK
            TABLE @ TABLE


def asleep(x):
    time.sleep(0.05)  # SLEEP
    return {"y": x}


def fail(x):
    raise ValueError("no pages")  # FAIL
"""
SWAPS = """
import os

from sandboxes.runtime.request import Request

write = Request.write_report


def swapped(request, data):
    os.unlink("/tmp/trace.json.gz")
    os.symlink("/etc/hostname", "/tmp/trace.json.gz")
    write(request, data)


Request.write_report = swapped


def run(x):
    return {"y": x * 2}
"""
LINES = {
    mark: n for n, line in enumerate(ENTRY.splitlines(), 1) for mark in ("LOOP", "LOCK", "SLEEP", "FAIL") if line.endswith(f"# {mark}")
}


@pytest.fixture(scope="module")
def cage() -> Iterator[Cage]:
    with Cage(load("observe")) as made:
        yield made


def ask(cage: Cage, name: str) -> dict[str, Any]:
    args = {"entry": {"module": "work.entry", "callable": name, "mutates": []}, "seconds": 0.3}
    tree = {"work/__init__.py": b"", "work/entry.py": ENTRY.encode()}
    result = cage.run("feedback.trace", args, {"tree": pack(tree), "inputs": save({"x": np.ones(4, np.float32)})})
    assert result.ok, result.text.decode()
    found: dict[str, Any] = json.loads(result.report)
    return found


def worst(report: dict[str, Any]) -> tuple[str, int]:
    first = report["findings"][0]
    return first["kind"], first["where"]["line"]


def test_a_loop_is_named_with_how_often_it_runs_and_what_of_it_torch_had(cage: Cage) -> None:
    report = ask(cage, "loop")
    assert worst(report) == ("hot_line", LINES["LOOP"])
    assert "runs 600 times a call" in report["findings"][0]["message"] and "PyTorch operations" in report["findings"][0]["message"]
    line = report["data"]["lines"][0]
    assert line["executions"] == 600
    assert 600 < line["operations"] < 6000
    assert 0 < line["in_operations_s"] < line["self_s"]


def test_threads_that_wait_for_one_lock_are_named_and_hardly_overlap(cage: Cage) -> None:
    report = ask(cage, "locked")
    assert worst(report) == ("serialised", LINES["LOCK"])
    assert set(report["data"]["busy_s"]) >= {"w0", "w1"}
    assert report["data"]["overlapped_s"].get("w0", 0.0) < 0.5 * report["data"]["busy_s"]["w0"]


def test_a_sleep_is_a_gap_of_its_length_and_the_whole_critical_path(cage: Cage) -> None:
    report = ask(cage, "asleep")
    assert worst(report) == ("gap", LINES["SLEEP"])
    (first, *_) = report["data"]["path"]
    assert (first["place"], first["state"]) == (f"work/entry.py:{LINES['SLEEP']}", "sleep")
    assert first["seconds"] == pytest.approx(0.05, rel=0.2)


def test_the_whole_trace_is_a_file_that_speedscope_reads_too(cage: Cage) -> None:
    ask(cage, "locked")
    events = json.loads(gzip.decompress(cage.get("tmp/trace.json.gz", 1 << 26)))["traceEvents"]
    assert {"line.run", "line.lock", "python", "cpu_op"} <= {event.get("cat") for event in events}
    document = convert(events)
    assert {"w0", "w1", "main"} <= {profile["name"] for profile in document["profiles"]}
    for profile in document["profiles"]:
        open_: list[int] = []
        times = [step["at"] for step in profile["events"]]
        assert times == sorted(times)
        for step in profile["events"]:
            open_.append(step["frame"]) if step["type"] == "O" else None
            assert step["type"] == "O" or open_.pop() == step["frame"]
        assert open_ == []


def test_an_entry_that_fails_is_a_failure_with_its_line(cage: Cage) -> None:
    report = ask(cage, "fail")
    assert report["status"] == "fail" and "ValueError: no pages" in report["headline"]
    assert report["findings"][0]["where"]["line"] == LINES["FAIL"]


def test_the_file_is_a_record_of_its_own_and_the_observation_stands_without_it() -> None:
    tree = read_folder(TASK / "workspace")
    with Collector(load_task(str(TASK)), seeds.new_secret()) as collector:
        observation, records = measure(collector, "trace", tree, tree, {"case": "", "seconds": 0.1}, ())
    assert set(records) == {"report", "artefact.trace.json.gz"} == set(observation.evidence)
    assert json.loads(gzip.decompress(records["artefact.trace.json.gz"]))["traceEvents"]


def test_a_link_in_place_of_the_file_is_not_followed_and_costs_the_file_alone() -> None:
    tree = read_folder(TASK / "workspace") | {"work/entry.py": SWAPS.encode()}
    with Collector(load_task(str(TASK)), seeds.new_secret()) as collector:
        observation, records = measure(collector, "trace", tree, tree, {"case": "", "seconds": 0.1}, ())
    assert observation.status == "pass"
    assert set(records) == {"report"}


def test_the_command_line_keeps_the_file(cli: Cli, tmp_path: Path) -> None:
    done = cli("measure", str(TASK), "trace", "--set", "seconds=0.1", "--keep", str(tmp_path / "kept"))
    assert done.returncode == 0, done.stderr
    kept, target = tmp_path / "kept" / "trace.json.gz", tmp_path / "trace.speedscope.json"
    argv = [sys.executable, "-m", "feedback.trace.speedscope", str(kept), str(target)]
    subprocess.run(argv, check=True, cwd=Path(__file__).parents[2])
    assert json.loads(target.read_text())["profiles"]


def piece(tid: int, state: str, start: float, end: float, line: int) -> lanes.Event:
    """A look's slice, times in ms."""
    args = {"path": "a.py", "line": line, "function": "f"}
    return {
        "ph": "X", "cat": f"line.{state}", "name": "f", "pid": 1, "tid": tid, "ts": start * 1e3, "dur": (end - start) * 1e3, "args": args,
    }  # fmt: skip


def spent(path: dict[critical.Part, float]) -> dict[tuple[str, str], float]:
    """Milliseconds by place and state."""
    return {(part.place, part.state): round(seconds * 1e3, 6) for part, seconds in path.items()}


def test_the_path_goes_through_the_thread_that_was_waited_for() -> None:
    events = [piece(1, "run", 0, 10, 1), piece(1, "join", 10, 50, 2), piece(1, "run", 50, 60, 3), piece(2, "run", 10, 50, 4)]
    summary = reduce([*events, piece(3, "run", 10, 30, 5)])
    assert spent(summary.path) == {("a.py:1", "run"): 10, ("a.py:4", "run"): 40, ("a.py:3", "run"): 10}
    assert {lane: round(seconds * 1e3, 6) for lane, seconds in summary.overlapped.items()} == {"2": 20, "3": 20}
    assert summary.gaps == []


def test_a_sleep_that_outlasts_the_work_is_the_gap_and_on_the_path_for_the_rest() -> None:
    summary = reduce([piece(1, "sleep", 0, 100, 1), piece(2, "run", 0, 60, 2)])
    assert spent(summary.path) == {("a.py:1", "sleep"): 40, ("a.py:2", "run"): 60}
    (gap,) = summary.gaps
    assert (gap.place, gap.count, round(gap.seconds * 1e3, 6)) == ("a.py:1", 1, 40)


def kernel(stream: int, start: float, end: float, launch: int) -> lanes.Event:
    """A kernel, times in us."""
    args = {"correlation": launch, "stream": stream}
    return {"ph": "X", "cat": "kernel", "name": f"k{stream}", "pid": 0, "tid": stream, "ts": start, "dur": end - start, "args": args}


def call(name: str, start: float, end: float, launch: int) -> lanes.Event:
    args = {"correlation": launch}
    return {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 9, "tid": 9, "ts": start, "dur": end - start, "args": args}


def test_streams_that_never_run_at_once_are_serialised_and_those_that_do_are_not() -> None:
    def kinds(second: tuple[float, float]) -> set[str]:
        events = [call("cudaLaunchKernel", 0, 5, 1), call("cudaLaunchKernel", 5, 10, 2), call("cudaDeviceSynchronize", 10, 1000, 3)]
        events += [kernel(7, 10, 500, 1), kernel(8, *second, 2)]
        summary = reduce(events)
        assert sum(summary.path.values()) == pytest.approx(summary.wall)
        assert spent(summary.path).get(("", "run"), 0) > 0
        return {finding["kind"] for finding in findings.findings(summary, 1, None)}

    assert "serialised" in kinds((500, 1000))
    assert "serialised" not in kinds((20, 520))


def test_an_idle_device_is_a_gap() -> None:
    events = [call("cudaLaunchKernel", 0, 5, 1), call("cudaLaunchKernel", 600, 605, 2), call("cudaDeviceSynchronize", 606, 710, 3)]
    summary = reduce([*events, kernel(7, 10, 100, 1), kernel(7, 610, 710, 2)])
    assert [round(gap.seconds * 1e6) for gap in summary.device_gaps] == [510]


def test_nothing_seen_is_no_success() -> None:
    assert reduce([]).wall == 0.0


def test_slices_that_overlap_are_cut_for_speedscope() -> None:
    events = [
        {"ph": "X", "cat": "python", "name": n, "pid": 1, "tid": 1, "ts": at, "dur": 10.0} for n, at in (("outer", 0.0), ("late", 5.0))
    ]
    (profile,) = convert(events)["profiles"]
    assert [(step["type"], step["frame"], step["at"]) for step in profile["events"]] == [
        ("O", 0, 0.0),
        ("O", 1, 5.0),
        ("C", 1, 10.0),
        ("C", 0, 10.0),
    ]
