"""The instrument ``gil`` in a real cage, on an extension that is compiled there."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.profile import load
from infra_agent.task.tree import pack
from tests.pairs import extension
from tests.pairs.of_gil import _BURN, _C

ENTRY = """
import threading
import time

from work.build import extension


def hold(x):
    worker = threading.Thread(target=work, name="worker")
    worker.start()
    worker.join()
    return {"y": x}


def work():
    for _ in range(5):
        extension.burn(20.0)  # BURN


def compete(x):
    threads = [threading.Thread(target=count, name=f"counter{n}") for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"y": x}


def count():
    until = time.perf_counter() + 0.2
    while time.perf_counter() < until:  # COUNT
        sum(n for n in range(500))  # COUNT


def sleep(x):
    time.sleep(0.01)
    return {"y": x}


def fail(x):
    raise ValueError("no pages")  # FAIL
"""
LINES = {mark: n for n, line in enumerate(ENTRY.splitlines(), 1) for mark in ("BURN", "FAIL") if f"# {mark}" in line}
COUNTS = [n for n, line in enumerate(ENTRY.splitlines(), 1) if "# COUNT" in line]


@pytest.fixture(scope="module")
def cage() -> Iterator[Cage]:
    with Cage(load("observe")) as made:
        yield made


def tree(releases: bool) -> dict[str, bytes]:
    call = "Py_BEGIN_ALLOW_THREADS burn_it(ms); Py_END_ALLOW_THREADS" if releases else "burn_it(ms);"
    drawn = {"{inner}": "burn_it", "{loop}": _BURN, "{name}": "burn_pages", "{shown}": "burn", "{call}": call}
    return extension.tree(ENTRY, _C, drawn)


def ask(cage: Cage, name: str, releases: bool = False, seconds: float = 2.0) -> dict[str, Any]:
    args = {"entry": {"module": "work.entry", "callable": name, "mutates": []}, "seconds": seconds}
    sections = {"tree": pack(tree(releases)), "inputs": save({"x": np.ones(4, np.float32)})}
    result = cage.run("feedback.gil", args, sections)
    assert result.ok, result.text.decode()
    found: dict[str, Any] = json.loads(result.report)
    return found


def fraction(report: dict[str, Any]) -> float:
    return float(next(metric["value"] for metric in report["metrics"] if metric["name"] == "wait_fraction"))


def test_a_c_function_that_holds_the_gil_is_named_with_its_line_and_one_that_releases_it_is_not(cage: Cage) -> None:
    held, released = ask(cage, "hold"), ask(cage, "hold", releases=True)
    assert fraction(held) > 0.5
    assert fraction(held) >= 5 * fraction(released)
    worst = held["findings"][0]
    assert (worst["kind"], worst["where"]) == ("gil_held", {"type": "line", "path": "work/entry.py", "line": LINES["BURN"]})
    assert "burn_pages (extension.so)" in worst["message"] and "burn_it" in worst["message"] and "thread worker" in worst["message"]
    assert [f for f in released["findings"] if f["kind"] in ("gil_held", "gil_busy")] == []
    assert any(f"work/entry.py:{LINES['BURN']} work" in line for line in held["data"]["longest"][0]["stack"])
    longest = next(metric["value"] for metric in held["metrics"] if metric["name"] == "wait_p99")
    assert 0.010 < longest < 0.060


def test_threads_that_compete_are_told_apart_from_one_call_and_how_long_each_waits(cage: Cage) -> None:
    report = ask(cage, "compete")
    kinds = {finding["kind"] for finding in report["findings"]}
    assert "gil_busy" in kinds and "gil_held" not in kinds
    busy = [finding for finding in report["findings"] if finding["kind"] == "gil_busy"]
    assert {finding["where"]["line"] for finding in busy} <= set(COUNTS)
    waits = report["data"]["threads"]
    assert waits["counter0"] > 0.2 and waits["counter1"] > 0.2
    assert not any(name.startswith("heartbeat") for name in waits)


def test_a_program_that_sleeps_has_no_findings(cage: Cage) -> None:
    report = ask(cage, "sleep", seconds=1.0)
    assert report["findings"] == []
    assert fraction(report) < 0.1


def test_without_ptrace_the_line_is_still_found_and_what_cannot_be_named_is_said() -> None:
    with Cage(load("observe").model_copy(update={"ptrace": False})) as cage:
        report = ask(cage, "hold")
    worst = report["findings"][0]
    assert (worst["kind"], worst["where"]["line"]) == ("gil_held", LINES["BURN"])
    assert "the C function cannot be named: py-spy" in worst["message"]
    assert "no C function can be named" in report["headline"]
    assert fraction(report) > 0.5


def test_an_entry_that_fails_is_a_failure_with_its_line(cage: Cage) -> None:
    report = ask(cage, "fail")
    assert report["status"] == "fail" and "ValueError: no pages" in report["headline"]
    assert report["findings"][0]["where"]["line"] == LINES["FAIL"]
