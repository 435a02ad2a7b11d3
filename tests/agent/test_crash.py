"""kill -9 at any write and any fsync: what is left is a valid beginning, and the session goes on from it."""

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from infra_agent.proposal.store import open_session, proposals_of
from infra_agent.replay.verify import verify
from infra_agent.session import events
from infra_agent.session.budget import Budget, Limits
from infra_agent.session.log import mend
from infra_agent.task.load import Task
from tests.conftest import ROOT
from tests.support import mark_audited, rows_task


def crash(task: Task, home: Path, nth: int, *session: str) -> "subprocess.CompletedProcess[str]":
    argv = [sys.executable, "-m", "tests.agent.crashing", str(task.folder), str(nth), *session]
    env = {**os.environ, "INFRA_AGENT_HOME": str(home)}
    return subprocess.run(argv, capture_output=True, text=True, env=env, cwd=ROOT, timeout=300, check=False)


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return rows_task(tmp_path_factory.mktemp("crash"))


def survives(task: Task, home: Path, nth: int) -> str:
    """Kill at the nth moment, go on, and check what is left each time; returns how it ended."""
    mark_audited(task, home)
    done = crash(task, home, nth)
    assert done.returncode == -9, done.stderr
    folders = sorted((home / "sessions").iterdir()) if (home / "sessions").is_dir() else []
    if not folders:
        return "before the session"
    name = folders[0].name
    torn = (folders[0] / "session.jsonl").read_bytes()
    if b"\n" not in torn:
        again = crash(task, home, 0, name)
        assert again.returncode == 1 and "nothing was recorded" in again.stderr, again.stderr
        return "before the header"
    mend(folders[0])
    whole = (folders[0] / "session.jsonl").read_bytes()
    assert torn.startswith(whole) and b"\n" not in torn[len(whole) :]
    assert verify(open_session(str(folders[0]))).agrees
    before = Budget.of(Limits(), open_session(str(folders[0])).entries)
    again = crash(task, home, 0, name)
    opened = open_session(str(folders[0]))
    assert (folders[0] / "session.jsonl").read_bytes().startswith(whole)
    report = verify(opened)
    assert report.agrees, report.differences
    started = Counter(e.event.action for e in opened.entries if isinstance(e.event, events.ExecStarted))
    assert set(started.values()) <= {1}
    assert Budget.of(Limits(), opened.entries).steps >= before.steps
    last = [p for p in proposals_of(opened) if p.verdict][-1]
    assert last.state == "passed", again.stderr
    if again.returncode:
        assert "is over" in again.stderr, again.stderr
        return "after the end"
    return "went on"


@pytest.mark.parametrize("nth", [3, 21, 38, 60])
def test_killed_early_or_late_a_session_goes_on(task: Task, home: Path, nth: int) -> None:
    assert survives(task, home, nth) in ("before the header", "went on")


@pytest.mark.slow
def test_killed_at_a_hundred_moments_a_session_goes_on(task: Task, home: Path, tmp_path: Path) -> None:
    mark_audited(task, home)
    whole = crash(task, home, 0)
    assert whole.returncode == 0, whole.stderr
    moments = int(whole.stdout.split("moments ")[1])
    ends = Counter[str]()
    for n, nth in enumerate(random.Random(moments).sample(range(1, moments + 1), min(100, moments))):
        fresh = tmp_path / f"home-{n}"
        fresh.mkdir()
        ends[survives(task, fresh, nth)] += 1
    assert ends.total() == min(100, moments) and ends["went on"] > 50, ends
    print(f"{moments} moments: {dict(ends)}")
