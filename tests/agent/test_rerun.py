"""A recorded session again in live cages: what is exact is exact, what is noise is held to its bound, and the verdict is asked anew."""

import json
from pathlib import Path

import pytest

from infra_agent import canonical
from infra_agent.agent import session
from infra_agent.agent.rerun import Asked, render, rerun
from infra_agent.errors import UsageError
from infra_agent.models.base import Reply
from infra_agent.models.scripted import Scripted
from infra_agent.proposal.store import Session, open_session
from infra_agent.session import events
from infra_agent.session.budget import Limits
from infra_agent.session.events import ToolCall
from infra_agent.session.log import SessionLog
from infra_agent.task.load import Task, load
from tests.conftest import Cli
from tests.support import call, mark_audited, rows_task

EDIT = call("edit", path="rows/entry.py", old="torch.cumsum(product, 1)", new="torch.cumsum(product, 0)")
WORK = [
    call("accuracy"),
    call("hypothesis", do="state", claim="the axis is wrong", prediction="running falls", check="accuracy"),
    EDIT,
    call("shell", command="wc -c rows/entry.py"),
    call("view", path="absent.py"),
    call("accuracy"),
    call("recall", query="running"),
    call("propose", title="Sum rows along axis 0", summary="The running sum ran along columns."),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Task, Path, str]:
    """A task, a home and a session that went all the way."""
    folder = tmp_path_factory.mktemp("rerun")
    home, task = folder / "home", rows_task(folder)
    mark_audited(task, home)
    said = [Reply("", (ToolCall(id=f"c{n}", name=name, arguments=text),)) for n, (name, text) in enumerate(WORK)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFRA_AGENT_HOME", str(home))
        name, outcome = session.run(task, Scripted(said), "model:scripted", session.Options(False, Limits(steps=20), home), lambda e: None)
    assert outcome.exit_code == 0, outcome
    return task, home, name


def test_the_same_machine_says_the_same(recorded: tuple[Task, Path, str]) -> None:
    task, home, name = recorded
    found = rerun(Asked(open_session(str(home / "sessions" / name)), task, home))
    assert found.agrees, render(found)
    compared = {(row.tool, row.what, row.kind) for row in found.rows}
    assert {("edit", "files", "exact"), ("shell", "output", "exact"), ("propose", "patch", "exact")} <= compared
    assert ("accuracy", "output of compare.small", "exact") in compared, compared
    assert any(kind == "toleranced" and what == "error.running@small" for _, what, kind in compared)
    assert [(held.recorded, held.now) for held in found.verdicts] == [("pass", "pass")]
    assert "the verdict holds on this machine" in render(found)


def changed(recorded: tuple[Task, Path, str], folder: Path, change: dict[str, object], tool: str) -> Session:
    """The session with the observations of one tool said to be other than they were; every hash right."""
    source = open_session(str(recorded[1] / "sessions" / recorded[2]))
    with SessionLog(folder / "told") as log:
        for blob in source.blobs.folder.iterdir():
            log.blobs.put(blob.read_bytes())
        for entry in source.entries:
            event = entry.event
            if isinstance(event, events.ObservationMade) and event.observation.instrument == tool:
                event = event.model_copy(update={"observation": event.observation.model_copy(update=change)})
            log.append(event)
    return open_session(str(folder / "told"))


def test_a_recorded_status_that_does_not_come_again_is_named(recorded: tuple[Task, Path, str], tmp_path: Path) -> None:
    told = changed(recorded, tmp_path, {"status": "fail", "kind": "timeout"}, "shell")
    found = rerun(Asked(told, recorded[0], recorded[1], until_divergence=True))
    assert not found.agrees and found.verdicts == [], "it stopped there"
    assert "DIFFERS a-4 shell: status (exact): fail (timeout) -> pass" in render(found)
    assert {row.action for row in found.rows} == {"a-1", "a-2", "a-3", "a-4"}


def test_a_figure_outside_its_bound_is_named(recorded: tuple[Task, Path, str], tmp_path: Path) -> None:
    source = open_session(str(recorded[1] / "sessions" / recorded[2]))
    first = next(e.event.observation for e in source.entries if isinstance(e.event, events.ObservationMade))
    metrics = tuple(m.model_copy(update={"value": 0.0}) if m.name == "error.running@small" else m for m in first.metrics)
    found = rerun(Asked(changed(recorded, tmp_path, {"metrics": metrics}, "accuracy"), recorded[0], recorded[1], until_divergence=True))
    assert [row.what for row in found.rows if not row.agrees] == ["error.running@small"]


def test_outputs_that_differ_in_a_bit_are_named(recorded: tuple[Task, Path, str], tmp_path: Path) -> None:
    source = open_session(str(recorded[1] / "sessions" / recorded[2]))
    first = next(e.event for e in source.entries if isinstance(e.event, events.ObservationMade))
    name, digest = next(item for item in first.records.items() if item[0].startswith("compare"))
    record = json.loads(source.blobs.get(digest)) | {"output_digest": "0" * 64}
    with SessionLog(tmp_path / "told") as log:
        for blob in source.blobs.folder.iterdir():
            log.blobs.put(blob.read_bytes())
        other = log.blobs.put(canonical.encode(record))
        for entry in source.entries:
            log.append(first.model_copy(update={"records": {**first.records, name: other}}) if entry.event == first else entry.event)
    found = rerun(Asked(open_session(str(tmp_path / "told")), recorded[0], recorded[1], until_divergence=True))
    assert [row.what for row in found.rows if not row.agrees] == [f"output of {name}"]


def test_another_task_is_refused(recorded: tuple[Task, Path, str], tmp_path: Path) -> None:
    other = rows_task(tmp_path)
    (other.workspace / "rows" / "more.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match="is not what it was; give --task FOLDER"):
        rerun(Asked(open_session(str(recorded[1] / "sessions" / recorded[2])), load(str(other.folder)), recorded[1]))


def test_by_command_line(recorded: tuple[Task, Path, str], cli: Cli) -> None:
    task, home, name = recorded
    done = cli("replay", name, "--rerun", "--task", str(task.folder), INFRA_AGENT_HOME=str(home))
    assert done.returncode == 0 and "holds on this machine" in done.stdout, done.stdout + done.stderr
    document = json.loads(cli("replay", name, "--rerun", "--task", str(task.folder), "--json", INFRA_AGENT_HOME=str(home)).stdout)
    assert document["agrees"] and document["verdicts"][0]["now"] == "pass" and document["rows"]
