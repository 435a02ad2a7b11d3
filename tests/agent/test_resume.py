"""A session that stopped goes on where it was: after a limit, a park, a crash at any byte; nothing is done twice, nothing is forgotten."""

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from infra_agent.agent import session
from infra_agent.agent.loop import Outcome
from infra_agent.errors import ContextError, ModelError, UsageError
from infra_agent.models.base import Reply, ToolSchema
from infra_agent.models.price import Price
from infra_agent.models.scripted import Scripted
from infra_agent.proposal.store import find_proposal, open_session
from infra_agent.replay.verify import verify
from infra_agent.session import events
from infra_agent.session.budget import Budget, Limits, limits_of
from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall, Usage
from infra_agent.session.log import mend, read
from infra_agent.task.load import Task, load
from tests.support import call, mark_audited, rows_task

EDIT = call("edit", path="rows/entry.py", old="torch.cumsum(product, 1)", new="torch.cumsum(product, 0)")
PROPOSE = call("propose", title="Sum rows along axis 0", summary="The running sum ran along columns.")
VIEW = call("view", path="rows/entry.py")


@pytest.fixture
def task(tmp_path: Path, home: Path) -> Task:
    made = rows_task(tmp_path)
    mark_audited(made, home)
    return made


def replies(*calls: tuple[str, str], usage: Usage | None = None) -> list[Reply]:
    return [Reply("", (ToolCall(id=f"c{n}", name=name, arguments=text),), usage or Usage()) for n, (name, text) in enumerate(calls)]


def options(home: Path, limits: Limits | None = None, **more: object) -> session.Options:
    return session.Options(False, limits or Limits(steps=30), home, **more)  # type: ignore[arg-type]


def start(task: Task, home: Path, *calls: tuple[str, str], limits: Limits | None = None) -> tuple[str, Outcome]:
    return session.run(task, Scripted(replies(*calls)), "model:scripted", options(home, limits), lambda event: None)


def go_on(task: Task, home: Path, name: str, *calls: tuple[str, str], limits: Limits | None = None) -> Outcome:
    folder = home / "sessions" / name
    return session.resume(task, folder, Scripted(replies(*calls)), "model:scripted", options(home, limits), lambda event: None)


def of_kind(name: str, kind: type[events.Event]) -> list[events.Event]:  # type: ignore[valid-type]
    return [entry.event for entry in open_session(name).entries if isinstance(entry.event, kind)]  # type: ignore[arg-type]


def test_after_a_limit_with_more_of_it(task: Task, home: Path) -> None:
    name, outcome = start(task, home, VIEW, EDIT, PROPOSE, limits=Limits(steps=2))
    assert outcome.exit_code == 4 and f"infra-agent resume {name} --add-budget steps=N" in outcome.reason
    more = limits_of(open_session(name).entries).plus(steps=3)
    assert more == Limits(steps=5)
    outcome = go_on(task, home, name, PROPOSE, limits=more)
    assert outcome.exit_code == 0 and outcome.proposal and find_proposal(outcome.proposal).state == "passed"
    assert b"cumsum(product, 0)" in open_session(name).blobs.get(find_proposal(outcome.proposal).made.patch)
    ended = of_kind(name, events.SessionEnded)
    assert [e.spent["steps"] for e in ended] == [2, 3]  # type: ignore[attr-defined]
    report = verify(open_session(name))
    assert report.agrees, report.differences
    assert len({e.secret for e in ended}) == 2  # type: ignore[attr-defined]


def test_a_resumed_session_has_not_more_than_it_had(task: Task, home: Path) -> None:
    name, _ = start(task, home, VIEW, VIEW, limits=Limits(steps=1))
    outcome = go_on(task, home, name, VIEW, limits=limits_of(open_session(name).entries))
    assert outcome.exit_code == 4 and len(of_kind(name, events.ModelRequested)) == 1


def test_parked_from_outside_between_two_calls_of_one_reply(task: Task, home: Path) -> None:
    stop = threading.Event()
    both = Reply("", tuple(ToolCall(id=f"c{n}", name=name, arguments=text) for n, (name, text) in enumerate([EDIT, VIEW])))

    def listen(event: events.Event) -> None:
        if isinstance(event, events.ObservationMade):
            stop.set()

    asked = options(home, stop=stop)
    name, outcome = session.run(task, Scripted([both]), "model:scripted", asked, listen)
    assert outcome.exit_code == 5 and "parked" in outcome.reason and f"resume {name}" in outcome.reason
    assert len(of_kind(name, events.ObservationMade)) == 1
    seen: list[Message] = []
    model = Watching(replies(PROPOSE), seen)
    folder = home / "sessions" / name
    assert session.resume(task, folder, model, "model:scripted", options(home), lambda event: None).exit_code == 0
    assert [m.text.split(":")[0] for m in seen if m.role == "tool"] == ["[a-1] edit", "not carried out"]
    assert verify(open_session(name)).agrees


class Watching(Scripted):
    """Keeps the last conversation it was shown."""

    def __init__(self, said: list[Reply], seen: list[Message]) -> None:
        super().__init__(said)
        self._seen = seen

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
        self._seen[:] = messages
        return super().complete(messages, tools)


def test_what_was_begun_and_not_finished_is_not_done_again_unseen(task: Task, home: Path) -> None:
    name, _ = start(task, home, EDIT, call("shell", command="echo once"), VIEW, limits=Limits(steps=2))
    folder = home / "sessions" / name
    cut(folder, lambda event: event["type"] == "exec.started" and event["data"]["program"] == "shell")
    report = verify(open_session(name))
    assert report.notes == ["a-2 (shell) started and did not finish"]
    seen: list[Message] = []
    model = Watching(replies(PROPOSE), seen)
    assert session.resume(task, folder, model, "model:scripted", options(home), lambda event: None).exit_code == 0
    assert seen[-1].text.startswith("not carried out") and len(of_kind(name, events.ExecStarted)) == 2
    assert verify(open_session(name)).agrees


def cut(folder: Path, last: Callable[[dict[str, object]], bool]) -> None:
    """End the log with the first line that ``last`` says; HEAD as it would have been then."""
    lines = (folder / "session.jsonl").read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if last(json.loads(line)))
    (folder / "session.jsonl").write_bytes(b"".join(lines[: at + 1]))
    head = json.loads(lines[at])
    (folder / "HEAD").write_bytes(json.dumps({"hash": head["hash"], "seq": at}, separators=(",", ":")).encode() + b"\n")


def test_a_torn_line_is_cut_by_resume_alone(task: Task, home: Path) -> None:
    name, _ = start(task, home, EDIT, limits=Limits(steps=1))
    log = home / "sessions" / name / "session.jsonl"
    with open(log, "ab") as file:
        file.write(b'{"half a li')
    with pytest.raises(UsageError, match="cut off"):
        open_session(name)
    assert mend(log.parent) == len(b'{"half a li') and mend(log.parent) == 0
    assert go_on(task, home, name, PROPOSE).exit_code == 0


def test_nothing_whole_is_mended_away(task: Task, home: Path) -> None:
    name, _ = start(task, home, VIEW, limits=Limits(steps=1))
    log = home / "sessions" / name / "session.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], lines[1].replace(b"a", b"b"), *lines[2:]]) + b"torn")
    before = log.read_bytes()
    with pytest.raises(UsageError, match="line 2"):
        mend(log.parent)
    assert log.read_bytes() == before
    log.write_bytes(b"".join(lines[:-2]))
    mend(log.parent)
    with pytest.raises(UsageError, match="lines are missing"):
        read(log.parent)


@pytest.mark.parametrize(("calls", "said"), [((EDIT, PROPOSE), "is over"), ((call("edit", path=".git/x", old="", new="y"),), "is over")])
def test_what_is_over_is_not_gone_on_with(task: Task, home: Path, calls: tuple[tuple[str, str], ...], said: str) -> None:
    name, _ = start(task, home, *calls)
    before = (home / "sessions" / name / "session.jsonl").read_bytes()
    with pytest.raises(UsageError, match=said):
        go_on(task, home, name, VIEW)
    assert (home / "sessions" / name / "session.jsonl").read_bytes() == before


def test_a_task_that_changed_is_another(task: Task, home: Path) -> None:
    name, _ = start(task, home, VIEW, limits=Limits(steps=1))
    (task.workspace / "rows" / "note.py").write_text("x = 1\n")
    changed = load(str(task.folder))
    mark_audited(changed, home)
    with pytest.raises(UsageError, match="is not what it was"):
        go_on(changed, home, name, VIEW)


def test_failed_calls_and_their_waits_are_on_the_ledger(task: Task, home: Path) -> None:
    class Failing(Scripted):
        def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
            raise ModelError("the server is away", waited_s=7.5)

    name, outcome = session.run(task, Failing([]), "model:scripted", options(home), lambda event: None)
    assert (outcome.exit_code, outcome.reason) == (7, "the server is away")
    ledger = Budget.of(Limits(), open_session(name).entries)
    assert (ledger.steps, ledger.waited_s, ledger.usd) == (1, 7.5, None)
    assert go_on(task, home, name, EDIT, PROPOSE).exit_code == 0
    assert Budget.of(Limits(), open_session(name).entries).steps == 3


def test_a_price_makes_a_cost_and_a_limit_on_it(task: Task, home: Path) -> None:
    usage = Usage(input_tokens=1_000_000, cached_tokens=500_000, output_tokens=100_000)
    asked = options(home, Limits(usd=3.0), price=Price(2.0, 10.0, 0.2))
    name, outcome = session.run(task, Scripted(replies(VIEW, EDIT, VIEW, usage=usage)), "model:scripted", asked, lambda event: None)
    assert outcome.exit_code == 4 and "$3.00" in outcome.reason
    spent = of_kind(name, events.SessionEnded)[0].spent  # type: ignore[attr-defined]
    assert spent["usd"] == pytest.approx(4.2) and spent["cached_tokens"] == 1_000_000


def test_a_full_context_is_elided_and_recalled(task: Task, home: Path) -> None:
    class Narrow(Scripted):
        def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
            if sum(len(m.text) for m in messages) > 9000:
                raise ContextError("m: the server answered 400: Prompt exceeds max length")
            return super().complete(messages, tools)

    long = call("edit", path="rows/long.py", old="", new="# line\n" * 400)
    calls = [long, call("view", path="rows/long.py"), EDIT, call("recall", query="a-2"), PROPOSE]
    name, outcome = session.run(task, Narrow(replies(*calls)), "model:scripted", options(home), lambda event: None)
    assert outcome.exit_code == 0
    elided = of_kind(name, events.ContextElided)
    assert elided[0].actions == ("a-2",)  # type: ignore[attr-defined]
    recalled = of_kind(name, events.ObservationMade)[3].observation  # type: ignore[attr-defined]
    assert recalled.body.startswith("[a-2]") or "rows/long.py, lines 1-400 of 400" in recalled.body
    assert verify(open_session(name)).agrees


def test_a_context_that_nothing_makes_smaller_is_an_error(task: Task, home: Path) -> None:
    class Full(Scripted):
        def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
            raise ContextError("m: the server answered 400: Prompt exceeds max length")

    _, outcome = session.run(task, Full([]), "model:scripted", options(home), lambda event: None)
    assert (outcome.exit_code, outcome.reason) == (7, "m: the server answered 400: Prompt exceeds max length")


def test_who_goes_round_in_circles_is_told_once_and_then_stopped(task: Task, home: Path) -> None:
    name, outcome = start(task, home, *[VIEW] * 9)
    assert outcome.exit_code == 1 and "it was stuck: the same call of view" in outcome.reason
    notes = [note.text for note in of_kind(name, events.Note)]  # type: ignore[attr-defined]
    assert len(notes) == 1 and "You go round in circles" in notes[0]
    assert len(of_kind(name, events.ObservationMade)) == 6
    assert verify(open_session(name)).agrees


def test_a_session_of_nothing_but_its_first_half_line_says_so(home: Path, task: Task) -> None:
    name, _ = start(task, home, VIEW, limits=Limits(steps=1))
    folder = home / "sessions" / name
    (folder / "session.jsonl").write_bytes((folder / "session.jsonl").read_bytes()[:40])
    (folder / "HEAD").unlink()
    with pytest.raises(UsageError, match="nothing was recorded"):
        go_on(task, home, name, VIEW)
