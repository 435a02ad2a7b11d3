"""What a reviewer is shown: risk beside the line, figures, people, and what moves when the gate runs again."""

import json
import os
import pty
import sys
from pathlib import Path

import pytest

from infra_agent.agent import session
from infra_agent.cli.output import page
from infra_agent.gates.policy import shipped
from infra_agent.gates.risk import assess
from infra_agent.models.base import Reply
from infra_agent.models.scripted import Scripted
from infra_agent.proposal import approval
from infra_agent.proposal.review import figures, marked, moved, render
from infra_agent.proposal.store import find_proposal
from infra_agent.session.budget import Limits
from infra_agent.session.events import ToolCall
from infra_agent.task.patch import changes
from tests.conftest import Cli
from tests.proposal.recorded import EDIT, PROPOSE, long_patch, session_of
from tests.support import call, mark_audited, rows_task


def test_marks_stand_beside_their_lines(tmp_path: Path) -> None:
    patch = long_patch(tmp_path, 20)
    shown = marked(patch.decode(), assess(changes(patch), shipped().detector).marks)
    assert [line for line in shown if "<--" in line] == ["+lock = threading.Lock()    <-- high: concurrency"]
    assert [line.partition("    <--")[0] for line in shown] == patch.decode().split("\n")


def test_the_review_of_a_real_proposal(tmp_path: Path, home: Path, cli: Cli) -> None:
    _, identity = session_of(rows_task(tmp_path), home)
    approval.decide(identity, "approve", "Ada", "the axis", minutes=4)
    text = render(find_proposal(identity))
    assert "Risk: low; takes 1 approver\n" in text and "Ada: approve (4 minutes): the axis" in text
    assert "Cost: 2 steps, " in text and "people 4 minutes" in text
    assert "error of running in small" in text and "-> " in text
    assert f"infra-agent review {identity} --rerun" in text
    piped = cli("review", identity)
    assert piped.stdout.rstrip("\n") == text.rstrip("\n") and "\x1b" not in piped.stdout
    document = json.loads(cli("review", identity, "--json").stdout)
    assert document["risk"]["tier"] == "low" and document["in_the_way"] == {} and document["reviews"][0]["reviewer"] == "Ada"


def test_errors_at_base_stand_beside_those_of_the_change(tmp_path: Path, home: Path) -> None:
    task = rows_task(tmp_path)
    mark_audited(task, home)
    said = [Reply("", (ToolCall(id=f"c{n}", name=a, arguments=b),)) for n, (a, b) in enumerate([call("accuracy"), EDIT, PROPOSE])]
    _, outcome = session.run(task, Scripted(said), "model:scripted", session.Options(False, Limits(steps=3), home), lambda event: None)
    assert outcome.proposal
    found = {figure.name: figure for figure in figures(find_proposal(outcome.proposal))}
    running = found["error of running in small"]
    assert float(running.before) > 0.1 > 1e-5 > float(running.after)


def test_the_gate_again_says_what_moved(tmp_path: Path, home: Path, cli: Cli) -> None:
    task = rows_task(tmp_path)
    _, identity = session_of(task, home)
    done = cli("review", identity, "--rerun", "--task", str(task.folder))
    assert done.returncode == 0 and "nothing moved" in done.stdout, done.stdout + done.stderr
    verdict = find_proposal(identity).verdict
    assert verdict
    other = verdict.verdict.model_copy(
        update={
            "decision": "fail",
            "checks": tuple(
                c.model_copy(update={"status": "fail", "kind": "incorrect"}) if c.name == "accuracy" else c for c in verdict.verdict.checks
            ),
        }
    )
    assert [line.partition(":")[0] for line in moved(verdict.verdict, other)] == ["decision", "accuracy"]
    (task.folder / "task.toml").write_text((task.folder / "task.toml").read_text() + "\n")
    changed = cli("review", identity, "--rerun", "--task", str(task.folder))
    assert changed.returncode == 2 and "is not what it was when" in changed.stderr


def test_on_a_terminal_it_is_coloured_and_what_a_model_wrote_moves_no_cursor(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "cat")
    monkeypatch.setenv("TERM", "xterm")
    master, slave = pty.openpty()
    child = os.fork()
    if child == 0:
        os.dup2(slave, 1)
        sys.stdout = os.fdopen(1, "w")
        page("+added\n-gone\nplain \x1b[2J")
        os._exit(0)
    os.close(slave)
    shown = b""
    while True:
        try:
            data = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        shown += data
    os.waitpid(child, 0)
    assert b"\x1b[32m+added" in shown and b"\\u001b[2J" in shown and b"\x1b[2J" not in shown
