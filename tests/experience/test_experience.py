"""What an approved change taught: kept in git, told to the next session as unverified, taken back when it is wrong."""

import json
import threading
from pathlib import Path

import pytest

from infra_agent.agent import session
from infra_agent.errors import UsageError
from infra_agent.experience.lesson import Lesson, lesson_of, relevant, symbols_of
from infra_agent.experience.store import Experience
from infra_agent.models.base import Reply
from infra_agent.models.scripted import Scripted
from infra_agent.proposal import approval
from infra_agent.proposal.store import Proposal, find_proposal, open_session
from infra_agent.session.budget import Limits
from infra_agent.session.events import ToolCall
from infra_agent.task.load import Task
from infra_agent.task.repository import Repository
from tests.conftest import Cli
from tests.support import call, mark_audited, rows_task

WORK = [
    call("accuracy"),
    call("hypothesis", do="state", claim="the product is transposed", prediction="product falls", check="accuracy"),
    call("hypothesis", do="settle", id="h-1", outcome="refuted", observation="a-1"),
    call("hypothesis", do="state", claim="the sum runs along the wrong axis", prediction="running falls", check="accuracy"),
    call("edit", path="rows/entry.py", old="torch.cumsum(product, 1)", new="torch.cumsum(product, 0)"),
    call("accuracy"),
    call("hypothesis", do="settle", id="h-2", outcome="confirmed", observation="a-6"),
    call("propose", title="Sum rows along axis 0", summary="The running sum ran along columns."),
]


def sample(number: int = 1, **more: object) -> Lesson:
    known = {
        "id": f"e-{number:012}", "session": "s", "task": "t", "title": "T", "summary": "S", "families": ("incorrect",),
        "signals": ("a: b: c",),
        "instruments": ("accuracy",), "symbols": ("m/entry.py", "fused_scan"), "cases": (), "dtypes": (), "platform": "cpu", "target": "",
        "patch": "p", "base": "b", "confirmed": (), "refuted": ("no",), "spent": {}, "reviewer": "r", "reason": "y", "rollback": "x",
    }  # fmt: skip
    return Lesson.model_validate(known | more)


@pytest.fixture
def task(tmp_path: Path, home: Path) -> Task:
    made = rows_task(tmp_path)
    mark_audited(made, home)
    return made


def approved(task: Task, home: Path) -> Proposal:
    replies = [Reply("", (ToolCall(id=f"c{n}", name=name, arguments=text),)) for n, (name, text) in enumerate(WORK)]
    _, outcome = session.run(task, Scripted(replies), "model:scripted", session.Options(False, Limits(steps=20), home), lambda event: None)
    assert outcome.proposal
    approval.decide(outcome.proposal, "approve", "A Reviewer", "the axis was wrong")
    return find_proposal(outcome.proposal)


def test_a_lesson_says_what_showed_it_and_what_was_refuted(task: Task, home: Path) -> None:
    proposal = approved(task, home)
    lesson = lesson_of(proposal, "A Reviewer", "the axis was wrong")
    assert lesson.id == f"e-{proposal.id[2:]}" and lesson.task == "rows" and lesson.families == ("incorrect",)
    assert any("stage running" in signal and "incorrect" in signal for signal in lesson.signals)
    assert lesson.instruments == ("accuracy",) and {"rows/entry.py", "run"} <= set(lesson.symbols)
    assert lesson.confirmed == ("the sum runs along the wrong axis",) and lesson.refuted == ("the product is transposed",)
    assert lesson.spent["steps"] == len(WORK) and lesson.cases == ("small", "large") and proposal.id in lesson.rollback
    Experience(home).keep(lesson)
    name, _ = session.run(task, Scripted([]), "model:scripted", session.Options(False, Limits(steps=1), home), lambda event: None)
    told = open_session(name).blobs.get(open_session(name).header.brief).decode()
    assert "Unverified here" in told and lesson.id in told and "refuted: the product is transposed" in told
    name, _ = session.run(task, Scripted([]), "model:scripted", session.Options(True, Limits(steps=1), home), lambda event: None)
    assert "Unverified" not in open_session(name).blobs.get(open_session(name).header.brief).decode()


def test_what_is_kept_is_read_and_what_is_forgotten_has_a_history(home: Path) -> None:
    store = Experience(home)
    assert store.all() == []
    store.keep(sample(1))
    store.keep(sample(2))
    store.keep(sample(2, title="Again"))
    assert [(lesson.id, lesson.title) for lesson in store.all()] == [("e-000000000001", "T"), ("e-000000000002", "Again")]
    assert store.forget("e-000000000001", "it was wrong").id == "e-000000000001"
    assert [lesson.id for lesson in store.all()] == ["e-000000000002"]
    log = Repository(home / "repos" / "experience.git").git("log", "--format=%B", "main").decode()
    assert "Forget e-000000000001\n\nit was wrong" in log and "Learn e-000000000001: T" in log
    with pytest.raises(UsageError, match="is unknown; the latest: e-000000000002"):
        store.find("e-1")


def test_two_who_learn_at_once_both_do(home: Path) -> None:
    Experience(home).keep(sample(0))
    threads = [threading.Thread(target=Experience(home).keep, args=(sample(n),)) for n in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Experience(home).all()) == 4


def test_a_file_that_is_no_lesson_is_named(home: Path) -> None:
    Experience(home).keep(sample(1))
    repository = Repository(home / "repos" / "experience.git")
    head = repository.branch("main")
    assert head
    tree = repository.write_tree({**repository.read_tree(head), "e-2.json": b"{}"})
    repository.move_branch("main", repository.commit_tree(tree, [head], "by hand\n"), head)
    with pytest.raises(UsageError, match=r"e-2\.json"):
        Experience(home).all()


def test_the_nearest_lessons_are_told(task: Task) -> None:
    texts = [b"def fused_scan(x):\n    return entry(x)\n"]
    near, same, far = sample(1), sample(2, task="rows", symbols=()), sample(3, symbols=("other_name",), instruments=("static",))
    assert relevant([far, near, same], task.spec, texts) == [same, near]
    assert relevant([sample(n) for n in range(9)], task.spec, texts, most=3) == [sample(n) for n in range(3)]
    assert relevant([far], task.spec, texts) == []


def test_symbols_are_files_and_what_stands_in_the_hunks() -> None:
    head = b"diff --git a/m/k.py b/m/k.py\n--- a/m/k.py\n+++ b/m/k.py\n"
    patch = head + b"@@ -3,4 +3,4 @@ def fused_scan(x):\n     a\n-def old(x):\n+def new(x):\n"
    assert symbols_of(patch) == ("m/k.py", "fused_scan", "old", "new")


def test_approving_learns_and_the_command_line_tells(cli: Cli, task: Task, home: Path) -> None:
    replies = [Reply("", (ToolCall(id=f"c{n}", name=name, arguments=text),)) for n, (name, text) in enumerate(WORK)]
    _, outcome = session.run(task, Scripted(replies), "model:scripted", session.Options(False, Limits(steps=20), home), lambda event: None)
    assert outcome.proposal
    done = cli("approve", outcome.proposal, "--reviewer", "A Reviewer", "--reason", "fine")
    lesson = f"e-{outcome.proposal[2:]}"
    assert done.returncode == 0 and f"Learnt: {lesson}" in done.stdout
    assert lesson in cli("experience", "list").stdout
    (listed,) = json.loads(cli("experience", "list", "--json").stdout)
    assert listed["families"] == ["incorrect"] and json.loads(cli("experience", "show", lesson, "--json").stdout) == listed
    shown = cli("experience", "show", lesson[:6]).stdout
    assert "the sum runs along the wrong axis" in shown and "refuted" in shown
    assert cli("experience", "forget", lesson, "--reason", "no use").returncode == 0
    assert json.loads(cli("experience", "list", "--json").stdout) == []
    assert cli("experience", "show", "e-none").returncode == 2
