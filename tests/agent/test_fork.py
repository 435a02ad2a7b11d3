"""A fork shares its parent's beginning, carries what it spent, and goes on differently."""

from pathlib import Path

import pytest

from infra_agent.agent import session
from infra_agent.agent.fork import fork
from infra_agent.agent.loop import Outcome
from infra_agent.errors import UsageError
from infra_agent.models.base import Reply
from infra_agent.models.scripted import Scripted
from infra_agent.proposal.store import find_proposal, open_session
from infra_agent.replay.compare import compare, render
from infra_agent.replay.verify import verify
from infra_agent.session import events
from infra_agent.session.budget import Limits
from infra_agent.session.context import project
from infra_agent.session.events import ToolCall, Usage
from infra_agent.task.load import Task
from tests.conftest import Cli
from tests.support import call, mark_audited, rows_task

EDIT = call("edit", path="rows/entry.py", old="torch.cumsum(product, 1)", new="torch.cumsum(product, 0)")
WRONG = call("edit", path="rows/entry.py", old="product = a @ b", new="product = b @ a")
VIEW = call("view", path="rows/entry.py")
PROPOSE = call("propose", title="Sum rows along axis 0", summary="The running sum ran along columns.")


@pytest.fixture
def task(tmp_path: Path, home: Path) -> Task:
    made = rows_task(tmp_path)
    mark_audited(made, home)
    return made


def replies(*calls: tuple[str, str]) -> list[Reply]:
    spent = Usage(input_tokens=100, output_tokens=10, cost_usd=0.01)
    return [Reply("", (ToolCall(id=f"c{n}", name=name, arguments=text),), spent) for n, (name, text) in enumerate(calls)]


def start(task: Task, home: Path, *calls: tuple[str, str]) -> tuple[str, Outcome]:
    options = session.Options(False, Limits(steps=len(calls)), home)
    return session.run(task, Scripted(replies(*calls)), "model:scripted", options, lambda event: None)


def seq_of(name: str, kind: type, nth: int) -> int:
    return [entry.seq for entry in open_session(name).entries if isinstance(entry.event, kind)][nth]


def go_on(task: Task, home: Path, folder: Path, *calls: tuple[str, str], steps: int = 9) -> Outcome:
    options = session.Options(False, Limits(steps=steps), home)
    return session.resume(task, folder, Scripted(replies(*calls)), "model:other", options, lambda event: None)


def test_from_before_a_wrong_turn(task: Task, home: Path) -> None:
    name, first = start(task, home, VIEW, EDIT, WRONG, PROPOSE)
    assert first.exit_code == 4
    at = seq_of(name, events.ObservationMade, 1)
    folder = fork(open_session(name), at, home, "leave the product as it is")
    outcome = go_on(task, home, folder, PROPOSE)
    assert outcome.exit_code == 0 and outcome.proposal
    opened = open_session(folder.name)
    assert opened.header.parent and (opened.header.parent.session, opened.header.parent.at) == (name, at)
    assert opened.header.parent.head == open_session(name).entries[at].hash
    said = [message.text for message in project(opened.entries, opened.blobs, None)]
    assert (
        "leave the product as it is" in said and said[:5] == [m.text for m in project(open_session(name).entries, opened.blobs, None)][:5]
    )
    ended = next(e.event for e in opened.entries if isinstance(e.event, events.SessionEnded))
    assert ended.spent["steps"] == 3 and ended.spent["input_tokens"] == 300 and ended.spent["usd"] == pytest.approx(0.03)
    report = verify(opened)
    assert report.agrees, report.differences
    assert b"b @ a" not in opened.blobs.get(find_proposal(outcome.proposal).made.patch)
    shown = render(compare(open_session(name), opened))
    assert "* proposal 1" in shown and "fail (accuracy" in shown and "pass: Sum rows" in shown and "  task " in shown, shown


def test_what_the_parent_spent_counts(task: Task, home: Path) -> None:
    name, _ = start(task, home, VIEW, VIEW, VIEW)
    folder = fork(open_session(name), seq_of(name, events.ObservationMade, 2), home)
    assert go_on(task, home, folder, VIEW, steps=3).exit_code == 4


def test_places_where_nothing_could_go_on(task: Task, home: Path) -> None:
    name, outcome = start(task, home, EDIT, PROPOSE)
    opened = open_session(name)
    for at in (0, -1, len(opened.entries)):
        with pytest.raises(UsageError, match="event 0 is its header"):
            fork(opened, at, home)
    with pytest.raises(UsageError, match="a proposal had passed by then"):
        fork(opened, len(opened.entries) - 1, home)
    assert [folder.name for folder in (home / "sessions").iterdir()] == [name] and outcome.exit_code == 0


def test_within_a_call_that_had_begun(task: Task, home: Path) -> None:
    """It is not carried out again unseen: the model is told that it was not."""
    name, _ = start(task, home, VIEW, EDIT)
    folder = fork(open_session(name), seq_of(name, events.ExecStarted, 1), home)
    go_on(task, home, folder, EDIT, PROPOSE)
    opened = open_session(folder.name)
    assert any(m.text.startswith("not carried out") for m in project(opened.entries, opened.blobs, None))
    assert verify(opened).agrees


def test_by_command_line_and_in_the_tree_of_sessions(task: Task, home: Path, cli: Cli) -> None:
    name, _ = start(task, home, VIEW, EDIT)
    at = str(seq_of(name, events.ObservationMade, 0))
    done = cli("fork", name, "--at", at, "--model", "playbook", "--task", str(task.folder), "--add-budget", "steps=1", "--json")
    assert done.returncode in (1, 3, 4), done.stderr
    listed = cli("sessions").stdout
    assert f"{name}@{at}" in listed
    other = next(p.name for p in (home / "sessions").iterdir() if p.name != name)
    compared = cli("compare", name, other)
    assert compared.returncode == 0 and "* driver" in compared.stdout
    assert cli("fork", name, "--at", "999", "--task", str(task.folder)).returncode == 2
