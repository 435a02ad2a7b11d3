"""A log can be rewritten by whoever owns the disk. What does not follow from its records is found all the same."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra_agent import canonical
from infra_agent.agent import session
from infra_agent.errors import JudgedError
from infra_agent.models.base import Reply
from infra_agent.models.scripted import Scripted
from infra_agent.proposal import approval
from infra_agent.proposal.store import open_session, proposal_id, proposals_of
from infra_agent.replay.verify import verify
from infra_agent.session import events
from infra_agent.session.budget import Limits
from infra_agent.session.events import ToolCall
from infra_agent.session.log import Blobs, SessionLog
from infra_agent.task.load import Task
from tests.gates.test_builds import make as make_doubler
from tests.support import RIGHT, call, mark_audited, patch_of, rows_task, suite_task

RIGHT_EDIT = call("edit", path="rows/entry.py", old="torch.cumsum(product, 1)", new="torch.cumsum(product, 0)")
WRONG_EDIT = call("edit", path="rows/entry.py", old="product = a @ b", new="product = b @ a")
PROPOSE = call("propose", title="Sum rows", summary="s")
Change = Callable[[dict[str, Any], Blobs], None]


def recorded(tmp_path: Path, home: Path, edit: tuple[str, str], make: Callable[[Path], Task] = rows_task) -> tuple[Task, str]:
    """A real session with one proposal."""
    task = make(tmp_path)
    mark_audited(task, home)
    replies = [Reply("", (ToolCall(id=f"c{n}", name=name, arguments=text),)) for n, (name, text) in enumerate([edit, PROPOSE])]
    name, _ = session.run(task, Scripted(replies), "model:scripted", session.Options(False, Limits(steps=2), home), lambda event: None)
    return task, name


def forged(home: Path, name: str, change: Change) -> str:
    """The session written again, every hash right, with each event's data passed through ``change`` first."""
    source, folder = open_session(name), home / "sessions" / "forged"
    renamed: dict[str, str] = {}
    with SessionLog(folder) as log:
        for blob in source.blobs.folder.iterdir():
            log.blobs.put(blob.read_bytes())
        for entry in source.entries:
            text = json.dumps(entry.event.model_dump(mode="json"))
            for old, new in renamed.items():
                text = text.replace(old, new)
            data = json.loads(text)
            change(data, log.blobs)
            written = log.append(events.EVENT.validate_python(data))
            if isinstance(entry.event, events.ProposalMade):
                renamed[proposal_id(entry)] = proposal_id(written)
    return "forged"


def checks(data: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in data["verdict"]["checks"]}


def whole_pass(data: dict[str, Any], blobs: Blobs) -> None:
    if data["type"] == "verdict.given":
        data["verdict"]["decision"] = "pass"
        for check in data["verdict"]["checks"]:
            check["status"] = "pass" if check["status"] == "fail" else check["status"]


def excuse(data: dict[str, Any], blobs: Blobs) -> None:
    if data["type"] == "verdict.given":
        data["verdict"]["decision"] = "pass"
        for check in data["verdict"]["checks"]:
            if check["status"] != "pass":
                check.update(status="not_run", kind=None, excused=True, records={})


def drop_checks(data: dict[str, Any], blobs: Blobs) -> None:
    if data["type"] == "verdict.given":
        data["verdict"]["decision"] = "pass"
        data["verdict"]["checks"] = [c for c in data["verdict"]["checks"] if c["status"] == "pass"]


def drop_records(data: dict[str, Any], blobs: Blobs) -> None:
    if data["type"] == "verdict.given":
        data["verdict"]["decision"] = "pass"
        for check in data["verdict"]["checks"]:
            if check["status"] == "fail":
                check.update(status="pass", kind=None, records={})


def disallow(data: dict[str, Any], blobs: Blobs) -> None:
    if data["type"] == "gate.decided":
        data["decision"] = "deny"


@pytest.mark.parametrize("change", [whole_pass, excuse, drop_checks, drop_records, disallow])
def test_a_failed_proposal_cannot_be_made_to_pass(tmp_path: Path, home: Path, change: Change) -> None:
    _, name = recorded(tmp_path, home, WRONG_EDIT)
    report = verify(open_session(forged(home, name, change)))
    assert not report.agrees, report.recomputed


def test_another_patch_is_neither_verified_nor_approved(tmp_path: Path, home: Path) -> None:
    """The verdict is real, the patch is not the one it is about."""
    task, name = recorded(tmp_path, home, RIGHT_EDIT)
    other = patch_of(task, home, rows__entry_py=RIGHT, setup_py="import os\n")

    def swap(data: dict[str, Any], blobs: Blobs) -> None:
        if data["type"] == "proposal.made":
            data["patch"] = blobs.put(other)

    opened = open_session(forged(home, name, swap))
    report = verify(opened)
    assert any("another patch" in d for d in report.differences), report.differences
    (proposal,) = proposals_of(opened)
    with pytest.raises(JudgedError, match="the verdict does not hold"):
        approval.decide(proposal.id, "approve", "A Reviewer", "looks fine")


def test_a_failing_case_cannot_be_left_out(tmp_path: Path, home: Path) -> None:
    _, name = recorded(tmp_path, home, RIGHT_EDIT)

    def drop_case(data: dict[str, Any], blobs: Blobs) -> None:
        if data["type"] == "verdict.given":
            accuracy = checks(data)["accuracy"]
            accuracy["records"].pop("compare.public.large")
            accuracy["figure"] = "1 of 1 cases"

    report = verify(open_session(forged(home, name, drop_case)))
    assert any("every public case" in d for d in report.differences), report.differences


def test_records_of_other_files_are_noticed(tmp_path: Path, home: Path) -> None:
    _, name = recorded(tmp_path, home, RIGHT_EDIT)

    def other_files(data: dict[str, Any], blobs: Blobs) -> None:
        if data["type"] == "verdict.given":
            records = checks(data)["determinism"]["records"]
            record = json.loads(blobs.get(records["determinism"]))
            records["determinism"] = blobs.put(json.dumps({**record, "tree": "0" * 64}).encode())

    report = verify(open_session(forged(home, name, other_files)))
    assert any("other files" in d for d in report.differences), report.differences


def test_tests_of_other_files_are_noticed(tmp_path: Path, home: Path) -> None:
    _, name = recorded(tmp_path, home, RIGHT_EDIT, suite_task)
    report = verify(open_session(name))
    assert report.agrees, report.differences

    def other_files(data: dict[str, Any], blobs: Blobs) -> None:
        if data["type"] == "verdict.given":
            records = checks(data)["tests"]["records"]
            record = json.loads(blobs.get(records["suite"]))
            records["suite"] = blobs.put(json.dumps({**record, "candidate": record["base"]}).encode())

    report = verify(open_session(forged(home, name, other_files)))
    assert any("record suite has other files for candidate" in d for d in report.differences), report.differences


def test_an_honest_copy_verifies(tmp_path: Path, home: Path) -> None:
    """The forger's tool itself changes nothing: what the tests above find is the change."""
    _, name = recorded(tmp_path, home, RIGHT_EDIT)
    report = verify(open_session(forged(home, name, lambda data, blobs: None)))
    assert report.agrees, report.differences


def test_another_file_than_the_build_left_is_a_difference(tmp_path: Path, home: Path) -> None:
    """What ran beside the sources is tied to the build's own record."""
    edit = call("edit", path="src/c.c", old="3 *", new="2 *")
    _, name = recorded(tmp_path, home, edit, lambda folder: make_doubler(folder / "doubler"))
    assert verify(open_session(name)).agrees

    def other_object(data: dict[str, Any], blobs: Blobs) -> None:
        if data["type"] == "verdict.given":
            listed = checks(data)["ran"]["records"]
            ran = json.loads(blobs.get(listed["ran"]))
            for part in ("built", "loaded"):
                ran[part]["doubler/_c.so"] = "0" * 64
            listed["ran"] = blobs.put(canonical.encode(ran))

    (difference,) = verify(open_session(forged(home, name, other_object))).differences
    assert "are not those that the build left" in difference
