"""Ctrl-C, SIGTERM and ``resume`` on the real command line."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra_agent.proposal.store import open_session
from infra_agent.replay.verify import verify
from infra_agent.task.load import Task
from tests.conftest import ROOT, Cli
from tests.support import call, mark_audited, rows_task

PROPOSE = call("propose", title="Sum rows along axis 0", summary="The running sum ran along columns.")


@pytest.fixture
def task(tmp_path: Path, home: Path) -> Task:
    made = rows_task(tmp_path)
    mark_audited(made, home)
    return made


def interruptible(task: Task, tmp_path: Path) -> "subprocess.Popen[str]":
    """``run`` with a model that is a folder; a test run in the background ignores SIGINT, and so would its child."""
    argv = [sys.executable, "-m", "infra_agent.cli.main", "run", str(task.folder), "--model", f"manual:{tmp_path / 'talk'}"]
    process = subprocess.Popen(
        argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    threading.Timer(90, process.kill).start()
    return process


def until(process: "subprocess.Popen[str]", there: Callable[[], bool]) -> None:
    while not there() and process.poll() is None:
        time.sleep(0.05)


def say(tmp_path: Path, number: int, *calls: tuple[str, str]) -> None:
    listed = [{"name": name, "arguments": json.loads(arguments)} for name, arguments in calls]
    (tmp_path / "part").write_text(json.dumps({"tool_calls": listed}))
    (tmp_path / "part").rename(tmp_path / "talk" / f"reply-{number:04}.json")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_a_session_parks_and_goes_on(cli: Cli, task: Task, tmp_path: Path, home: Path, number: int) -> None:
    process = interruptible(task, tmp_path)
    until(process, (tmp_path / "talk" / "request-0001.json").exists)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    name = next((home / "sessions").iterdir()).name
    assert process.returncode == 5 and f"parked: it was asked to stop; infra-agent resume {name} goes on" in said
    say(tmp_path, 2, call("edit", path="rows/entry.py", old="torch.cumsum(product, 1)", new="torch.cumsum(product, 0)"), PROPOSE)
    done = cli("resume", name[:-2], "--task", str(task.folder), "--add-budget", "steps=3", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["session"] == name and "resumed after event" in done.stderr
    assert cli("replay", name).stdout.rstrip().endswith("agrees")
    again = cli("resume", name, "--task", str(task.folder))
    assert again.returncode == 2 and "is over" in again.stderr and "Traceback" not in again.stderr


def test_asked_twice_a_session_stops_where_it_stands(task: Task, tmp_path: Path, home: Path) -> None:
    process = interruptible(task, tmp_path)
    until(process, (tmp_path / "talk" / "request-0001.json").exists)
    say(tmp_path, 1, call("shell", command="sleep 60"))
    log = next((home / "sessions").iterdir()) / "session.jsonl"
    until(process, lambda: b"exec.started" in log.read_bytes())
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    report = verify(open_session(log.parent.name))
    assert report.agrees and report.notes == ["a-1 (shell) started and did not finish"]


@pytest.mark.parametrize("text", ["steps", "steps=0", "hours=1", "usd=-1", "steps=x", "steps=1.5"])
def test_a_budget_of_another_form_says_which_is_right(cli: Cli, text: str) -> None:
    done = cli("resume", "any", "--add-budget", text)
    assert done.returncode == 2 and f"--add-budget {text}: expected steps=N, wall=SECONDS or usd=X" in done.stderr
