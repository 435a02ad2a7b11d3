"""A rule that asks parks the session; a person decides, perhaps elsewhere; resume goes on from the same action."""

import shutil
import threading
from pathlib import Path

import pytest

from infra_agent.agent import session
from infra_agent.agent.loop import Outcome
from infra_agent.errors import UsageError
from infra_agent.models.base import Reply
from infra_agent.models.scripted import Scripted
from infra_agent.proposal import parked
from infra_agent.proposal.store import open_session
from infra_agent.replay.verify import verify
from infra_agent.session import events
from infra_agent.session.budget import Limits
from infra_agent.session.context import project
from infra_agent.session.events import ToolCall
from infra_agent.session.log import SessionLog
from infra_agent.task.load import Task, load
from tests.conftest import Cli
from tests.support import call, mark_audited, rows_task

ASK = """
[[rule]]
id = "look-at-edits"
tools = ["edit"]
decision = "ask"
reason = "a person looks at every edit of this task"
match = [{ tool = "edit", path = "a.py", scope = true }]
not_match = [{ tool = "view" }]
"""
EDIT = call("edit", path="rows/entry.py", old="torch.cumsum(product, 1)", new="torch.cumsum(product, 0)")
VIEW = call("view", path="rows/entry.py")
PROPOSE = call("propose", title="Sum rows along axis 0", summary="The running sum ran along columns.")


@pytest.fixture
def task(tmp_path: Path, home: Path) -> Task:
    folder = rows_task(tmp_path).folder
    (folder / "policy.toml").write_text(ASK)
    made = load(str(folder))
    mark_audited(made, home)
    return made


def replies(*calls: tuple[str, str]) -> list[Reply]:
    return [Reply("", (ToolCall(id=f"c{n}", name=name, arguments=text),)) for n, (name, text) in enumerate(calls)]


def start(task: Task, home: Path, *said: Reply) -> tuple[str, Outcome]:
    return session.run(task, Scripted(list(said)), "model:scripted", session.Options(False, Limits(steps=9), home), lambda event: None)


def go_on(task: Task, home: Path, name: str, *calls: tuple[str, str]) -> Outcome:
    options = session.Options(False, Limits(steps=9), home)
    return session.resume(task, home / "sessions" / name, Scripted(replies(*calls)), "model:scripted", options, lambda event: None)


def test_approved_the_action_is_carried_out_once(task: Task, home: Path) -> None:
    before = threading.active_count()
    name, outcome = start(task, home, *replies(VIEW, EDIT, PROPOSE))
    assert outcome.exit_code == 5 and f"infra-agent approve {name}/a-2" in outcome.reason
    assert threading.active_count() == before, "the cages are gone"
    with pytest.raises(UsageError, match="a-2 waits for a person"):
        go_on(task, home, name, PROPOSE)
    parked.decide(f"{name}/a-2", "approve", "A Reviewer", "one axis, as claimed")
    outcome = go_on(task, home, name, PROPOSE)
    assert outcome.exit_code == 0
    opened = open_session(name)
    edits = [e.event for e in opened.entries if isinstance(e.event, events.ExecStarted) and e.event.program == "edit"]
    assert [e.action for e in edits] == ["a-2"]
    said = project(opened.entries, opened.blobs, None)
    assert "rows/entry.py" in next(m.text for m in said if m.text.startswith("[a-2]"))
    assert verify(opened).agrees, verify(opened).differences


def test_rejected_the_model_is_told_why(task: Task, home: Path) -> None:
    name, _ = start(task, home, *replies(EDIT))
    parked.decide("a-1", "reject", "A Reviewer", "not that file")
    outcome = go_on(task, home, name, VIEW)
    assert outcome.exit_code == 7
    opened = open_session(name)
    assert "rejected by a person, A Reviewer: not that file" in project(opened.entries, opened.blobs, None)[3].text
    assert not any(isinstance(e.event, events.ExecStarted) and e.event.program == "edit" for e in opened.entries)
    assert verify(opened).agrees


def test_calls_after_the_parked_one_in_the_same_reply_are_said_not_to_be_done(task: Task, home: Path) -> None:
    both = Reply("", tuple(ToolCall(id=f"c{n}", name=name, arguments=text) for n, (name, text) in enumerate([EDIT, VIEW])))
    name, _ = start(task, home, both)
    parked.decide("a-1", "approve", "A Reviewer", "fine")
    go_on(task, home, name, PROPOSE)
    opened = open_session(name)
    answers = [m.text for m in project(opened.entries, opened.blobs, None) if m.role == "tool"]
    assert answers[0].startswith("[a-1]") and answers[1].startswith("not carried out")


def test_a_crash_between_approval_and_its_end_does_not_do_it_twice(task: Task, home: Path) -> None:
    name, _ = start(task, home, *replies(EDIT))
    parked.decide("a-1", "approve", "A Reviewer", "fine")
    with SessionLog(home / "sessions" / name) as log:  # it was begun, and then the machine went away
        log.append(events.ExecStarted(action="a-1", program="edit", tree="0" * 64, arguments={}))
    go_on(task, home, name, VIEW)
    opened = open_session(name)
    assert sum(isinstance(e.event, events.ExecStarted) and e.event.action == "a-1" for e in opened.entries) == 1
    assert any("a-1 (edit) started and did not finish" in note for note in verify(opened).notes)


def test_a_decision_is_made_once(task: Task, home: Path) -> None:
    start(task, home, *replies(EDIT))
    parked.decide("a-1", "approve", "A Reviewer", "fine")
    with pytest.raises(UsageError, match="action 'a-1' waits for nobody; waiting: nothing"):
        parked.decide("a-1", "reject", "Another", "no")


def test_by_command_line_on_another_machine(task: Task, home: Path, tmp_path: Path, cli: Cli) -> None:
    """The session's folder is all that has to go there; the task is the same one."""
    name, _ = start(task, home, *replies(EDIT))
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(home / "sessions", elsewhere / "sessions")
    shutil.copytree(home / "audit", elsewhere / "audit")
    shutil.rmtree(home)
    there = {"INFRA_AGENT_HOME": str(elsewhere)}
    refused = cli("resume", name, "--task", str(task.folder), "--model", "playbook", **there)
    assert refused.returncode == 2 and "a-1 waits for a person" in refused.stderr
    given = cli("approve", "a-1", "--reviewer", "A Reviewer", "--reason", "fine", **there)
    assert given.returncode == 0 and f"{name}/a-1 (edit): approved by A Reviewer" in given.stdout, given.stderr
    assert cli("approve", f"{name}/a-1", "--reviewer", "B", "--reason", "x", **there).returncode == 2
    resumed = cli("resume", name, "--task", str(task.folder), "--model", "playbook", **there)
    assert resumed.returncode != 2, resumed.stderr
    assert "[a-1] edit: pass" in cli("show", name, **there).stdout
