"""The instrument ``hang`` in a real cage, on threads that wait for each other."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.profile import load
from infra_agent.task.tree import pack

ENTRY = """
import ctypes
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor

first, second, own = threading.Lock(), threading.RLock(), threading.Lock()


def left():
    with first:
        time.sleep(0.1)
        with second:  # EARLY
            pass


def right():
    with second:  # TAKEN
        time.sleep(0.4)
        with first:  # LATE
            pass


def cycle(x):
    threads = [threading.Thread(target=target, name=target.__name__) for target in (left, right)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()  # JOINS


def itself(x):
    with own:
        with own:  # AGAIN
            pass


def keeps_the_gil(x):
    threading.Thread(target=left, name="left").start()
    time.sleep(0.05)
    ctypes.PyDLL(None).sleep(60)  # KEEPS


def everything(x):
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(abs, [-1, 2])) == [1, 2]
    condition, items = threading.Condition(), []

    def give():
        with condition, condition:
            items.append(1)
            condition.notify_all()

    with condition:
        threading.Timer(0.05, give).start()
        assert condition.wait_for(lambda: items, timeout=5)
    barrier, jobs = threading.Barrier(2), queue.Queue(1)
    threading.Thread(target=lambda: (barrier.wait(), jobs.get(), jobs.task_done())).start()
    barrier.wait()
    jobs.put(1)
    jobs.join()
    assert not first.acquire(timeout=0.01) if first.locked() else first.acquire()
    assert not first.acquire(timeout=0.01) and not first.acquire(False)
    first.release()
    try:
        first.release()
    except RuntimeError:
        return {"y": x}


def fail(x):
    raise ValueError("no pages")  # FAIL
"""
LINES = {line.rpartition("# ")[2]: n for n, line in enumerate(ENTRY.splitlines(), 1) if "# " in line}


@pytest.fixture
def cage() -> Iterator[Cage]:
    with Cage(load("observe")) as made:
        yield made


def ask(cage: Cage, name: str, limit_s: float = 1.0) -> dict[str, Any]:
    args = {"entry": {"module": "work.entry", "callable": name, "mutates": []}, "limit_s": limit_s}
    tree = {"work/entry.py": ENTRY.encode(), "work/__init__.py": b""}
    result = cage.run("feedback.hang", args, {"tree": pack(tree), "inputs": save({"x": np.ones(4, np.float32)})})
    assert result.ok, result.text.decode()
    found: dict[str, Any] = json.loads(result.report)
    return found


def test_what_ends_in_time_passes_with_its_seconds_and_every_primitive_works_as_before(cage: Cage) -> None:
    report = ask(cage, "everything", limit_s=10.0)
    assert report["status"] == "pass", report
    assert 0.05 < report["metrics"][0]["value"] < 10.0
    assert not report.get("findings")


def test_a_cycle_of_locks_is_told_thread_by_thread_and_the_one_that_closed_it_is_worst(cage: Cage) -> None:
    report = ask(cage, "cycle")
    assert report["status"] == "fail"
    late, early, joins = report["findings"]
    assert late["where"] == {"type": "line", "path": "work/entry.py", "line": LINES["LATE"]}
    assert "thread right waits for lock 'first'" in late["message"] and "held by thread left" in late["message"]
    assert "closes the cycle right -> left -> right" in late["message"]
    assert early["where"]["line"] == LINES["EARLY"]
    assert (
        f"reentrant lock 'second' (made at work/entry.py:8), held by thread right, taken at work/entry.py:{LINES['TAKEN']}"
        in early["message"]
    )
    assert joins["where"]["line"] == LINES["JOINS"] and "waits for the end of thread left" in joins["message"]


def test_a_thread_that_waits_for_its_own_lock_is_a_cycle_of_one(cage: Cage) -> None:
    worst = ask(cage, "itself")["findings"][0]
    assert worst["where"]["line"] == LINES["AGAIN"]
    assert "held by itself" in worst["message"] and "closes the cycle main -> main" in worst["message"]


def test_who_keeps_the_gil_is_named_although_no_python_can_run(cage: Cage) -> None:
    report = ask(cage, "keeps_the_gil")
    assert "one keeps the GIL" in report["headline"]
    worst = report["findings"][0]
    assert worst["where"]["line"] == LINES["KEEPS"]
    assert "sleep" in worst["message"] and "holds the GIL" in worst["message"]
    other = next(finding for finding in report["findings"] if "thread left" in finding["message"])
    assert f"waits for the GIL, held by thread main, taken at work/entry.py:{LINES['KEEPS']}" in other["message"]


def test_without_ptrace_stacks_come_from_a_signal_handler_and_what_is_missing_is_said() -> None:
    with Cage(load("observe").model_copy(update={"ptrace": False})) as cage:
        kept, cycle = ask(cage, "keeps_the_gil"), None
    assert "C functions are not named: py-spy" in kept["headline"]
    assert LINES["KEEPS"] in {finding["where"].get("line") for finding in kept["findings"]}
    with Cage(load("observe").model_copy(update={"ptrace": False})) as cage:
        cycle = ask(cage, "cycle")
    assert cycle["findings"][0]["where"]["line"] == LINES["LATE"]


def test_an_entry_that_fails_is_a_failure_with_its_line(cage: Cage) -> None:
    report = ask(cage, "fail")
    assert report["status"] == "fail" and "ValueError: no pages" in report["headline"]
    assert report["findings"][0]["where"]["line"] == LINES["FAIL"]
