"""Exports keep every call, figure and order of a real session, and what a model writes stays text."""

import html
import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from typer.testing import CliRunner

from infra_agent.agent import session
from infra_agent.cli import formats
from infra_agent.errors import UsageError
from infra_agent.markdown import visible
from infra_agent.models.base import Reply
from infra_agent.models.scripted import Scripted
from infra_agent.proposal.store import Session, open_session
from infra_agent.replay.export import FORMATS, export
from infra_agent.replay.formats import atif, chrome, markdown
from infra_agent.session import events
from infra_agent.session.budget import Limits
from infra_agent.session.events import ToolCall, Usage
from infra_agent.session.log import Entry, SessionLog, read
from infra_agent.session.origin import Origin
from tests.proposal.recorded import EDIT, PROPOSE
from tests.replay.rebuilt import check, events_of
from tests.support import call, mark_audited, rows_task

STATE = call("hypothesis", do="state", claim="sums the wrong axis", prediction="error of running falls to 1e-7", check="accuracy")
SETTLE = call("hypothesis", do="settle", id="h-1", outcome="confirmed", observation="a-3", note="it did")
WHOLE = Usage(input_tokens=900, cached_tokens=0, output_tokens=30, cost_usd=0.002)


def reply(*calls: tuple[str, str], usage: Usage = WHOLE, text: str = "", **more: Any) -> Reply:
    return Reply(
        text, tuple(ToolCall(id=f"c{n}", name=name, arguments=arguments) for n, (name, arguments) in enumerate(calls)), usage, **more
    )


SCRIPT = [
    reply(text="I would look first.", usage=Usage()),
    reply(STATE, reasoning="the axis looks wrong", raw=b'{"id": "r-1"}'),
    reply(call("view", path="rows/entry.py"), ("view", '{"path": '), waited_s=0.5),
    reply(EDIT, usage=Usage(input_tokens=1200, output_tokens=40)),
    reply(call("accuracy"), SETTLE),
    reply(PROPOSE),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        task = rows_task(folder)
        mark_audited(task, folder)
        options = session.Options(False, Limits(steps=9), folder)
        name, outcome = session.run(task, Scripted(SCRIPT), "model:scripted", options, lambda event: None)
    assert outcome.exit_code == 0, outcome
    return open_session(str(folder / "sessions" / name))


def said_of(opened: Session) -> list[tuple[int, str, events.Event]]:
    return [(entry.seq, entry.time, entry.event) for entry in opened.entries]


def logged(opened: Session, kind: type) -> list[Entry]:
    return [entry for entry in opened.entries if isinstance(entry.event, kind)]


def continued(opened: Session, folder: Path, more: list[tuple[float, events.Event]], **header: Any) -> Session:
    """The same log with further events, each so many seconds after the last entry."""
    last = datetime.fromisoformat(opened.entries[-1].time)
    with SessionLog(folder) as log:
        for path in opened.blobs.folder.iterdir():
            log.blobs.put(path.read_bytes())
        log.append(opened.header.model_copy(update=header), opened.entries[0].time)
        for entry in opened.entries[1:]:
            log.append(entry.event, entry.time)
        for after, event in more:
            log.append(event, (last + timedelta(seconds=after)).isoformat())
    return Session(folder, read(folder))


RESUMED = events.SessionResumed(dropped_bytes=0, last_seq=1, secret_commitment="s", limits={}, driver="person")
PARKED: list[tuple[float, events.Event]] = [
    (0.25, RESUMED),
    (1, events.ModelRequested(model="m", digest="d", messages=20)),
    (4, events.ModelFailed(request="d", reason="the server is away", waited_s=2.5)),
    (5, events.ApprovalRequested(action="a-1", reason="it asks")),
    (6, events.SessionEnded(reason="parked", exit_code=5, secret="", spent={})),
    (26, events.ApprovalGiven(action="a-1", decision="approve", reviewer="Ada", reason="fine")),
    (36, RESUMED),
    (37, events.Note(text="aside")),
    (38, events.Note(text="go on", to_model=True)),
    (39, events.ContextElided(actions=("a-1",), reason="too long")),
    (40, events.ModelRequested(model="m", digest="e", messages=21)),
    (41, events.SessionEnded(reason="killed", exit_code=1, secret="", spent={})),
]


def test_atif_says_what_the_log_says(recorded: Session) -> None:
    document = json.loads(export(recorded, "atif"))
    check(document)
    assert events_of(document) == said_of(recorded)
    assert (document["schema_version"], document["session_id"]) == ("ATIF-v1.8", recorded.header.session)
    agent = document["agent"]
    assert (agent["name"], agent["model_name"]) == ("infra-agent", "scripted")
    assert [tool["function"]["name"] for tool in agent["tool_definitions"]][:2] == ["view", "search"]
    steps = document["steps"]
    assert [step["source"] for step in steps[:5]] == ["system", "user", "agent", "user", "agent"]
    assert "Make both stages right." in steps[1]["message"] and "propose" in steps[3]["message"]
    assert steps[4]["reasoning_content"] == "the axis looks wrong"
    malformed = steps[5]["tool_calls"][1]
    assert malformed["arguments"] == {"malformed": '{"path": '} and malformed["extra"]["written"]["arguments"] == '{"path": '
    assert steps[5]["observation"]["results"][1]["content"].startswith("[a-3] view: fail (bad_arguments)")


def test_atif_says_nothing_of_what_is_not_known(recorded: Session) -> None:
    document = atif.document(recorded)
    agents = [step for step in document["steps"] if step["source"] == "agent"]
    assert "metrics" not in agents[0] and agents[3]["metrics"] == {"prompt_tokens": 1200, "completion_tokens": 40}
    assert agents[1]["metrics"] == {"prompt_tokens": 900, "completion_tokens": 30, "cached_tokens": 0, "cost_usd": 0.002}
    final = document["final_metrics"]
    assert set(final) == {"total_steps", "extra"} and final["total_steps"] == len(document["steps"])
    assert final["extra"]["known_only"]["prompt_tokens"] == {"sum": 4 * 900 + 1200, "replies": 5}
    assert final["extra"]["known_only"]["cost_usd"]["replies"] == 4
    entries = [
        Entry(e.seq, e.time, e.hash, e.event.model_copy(update={"usage": WHOLE}) if isinstance(e.event, events.ModelReplied) else e.event)
        for e in recorded.entries
    ]
    every = atif.document(Session(recorded.folder, entries))["final_metrics"]
    assert every["total_prompt_tokens"] == 5400 and every["total_cached_tokens"] == 0 and every["total_cost_usd"] == pytest.approx(0.012)


def test_atif_of_a_session_that_parked_failed_and_was_forked(recorded: Session, tmp_path: Path) -> None:
    parent = Origin(session="other", at=recorded.entries[-1].seq, head="h")
    opened = continued(recorded, tmp_path / "parked", PARKED, parent=parent)
    document = json.loads(export(opened, "atif"))
    check(document)
    assert events_of(document) == said_of(opened)
    copied = [step.get("is_copied_context", False) for step in document["steps"]]
    assert copied == [True] * (len(copied) - 2) + [False] * 2
    assert [step["source"] for step in document["steps"][-2:]] == ["system", "user"]


def test_numbers_that_json_does_not_have_stay_text(recorded: Session, tmp_path: Path) -> None:
    odd = ToolCall(id="n", name="view", arguments='{"start": NaN, "lines": 1e999}')
    more: list[tuple[float, events.Event]] = [
        (1, events.ModelRequested(model="m", digest="d", messages=1)),
        (2, events.ModelReplied(request="d", text="", tool_calls=(odd,), usage=Usage())),
    ]
    opened = continued(recorded, tmp_path / "odd", more)
    document = json.loads(export(opened, "atif"), parse_constant=lambda name: pytest.fail(name))
    assert document["steps"][-1]["tool_calls"][0]["arguments"] == {"malformed": odd.arguments}
    assert events_of(document) == said_of(opened)


def spans_of(opened: Session) -> tuple[list[dict[str, Any]], datetime]:
    trace = json.loads(export(opened, "chrome"))
    shown = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert [(event["ts"], -event["dur"]) for event in shown] == sorted((event["ts"], -event["dur"]) for event in shown)
    for tid in range(1, len(chrome.TRACKS) + 1):
        nested(sorted(((event["ts"], event["ts"] + event["dur"]) for event in shown if event["tid"] == tid), key=lambda s: (s[0], -s[1])))
    names = {event["tid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert names == dict(enumerate(chrome.TRACKS, 1))
    return shown, min(datetime.fromisoformat(entry.time) for entry in opened.entries)


def nested(spans: list[tuple[int, int]]) -> None:
    """On one track an event lies beside another or within it, or a viewer shows neither right."""
    around: list[int] = []
    for begin, end in spans:
        while around and around[-1] <= begin:
            around.pop()
        assert not around or end <= around[-1]
        around.append(end)


def micros(opened: Session, seq: int, origin: datetime) -> int:
    return (datetime.fromisoformat(opened.entries[seq].time) - origin) // timedelta(microseconds=1)


def test_chrome_durations_are_those_of_the_log(recorded: Session) -> None:
    shown, origin = spans_of(recorded)
    calls = [event for event in shown if event["cat"] == "model"]
    for event, asked, replied in zip(calls, logged(recorded, events.ModelRequested), logged(recorded, events.ModelReplied), strict=True):
        assert (event["ts"], event["ts"] + event["dur"]) == (micros(recorded, asked.seq, origin), micros(recorded, replied.seq, origin))
    assert calls[0]["args"]["usage"] == {} and calls[1]["args"]["usage"]["cached_tokens"] == 0
    assert [c["name"] for c in calls[2]["args"]["calls"]] == ["view", "view"]
    ran = [event for event in shown if event["cat"] == "executions"]
    finished = logged(recorded, events.ExecFinished)
    for event, began, ended in zip(ran, logged(recorded, events.ExecStarted), finished, strict=True):
        assert event["dur"] == micros(recorded, ended.seq, origin) - micros(recorded, began.seq, origin)
        assert event["args"]["seconds"] <= event["dur"] / 1e6 + 0.01
    gate = [event for event in shown if event["cat"] == "gate"]
    verdict = logged(recorded, events.VerdictGiven)[0].event
    assert isinstance(verdict, events.VerdictGiven) and gate[0]["args"]["decision"] == "pass"
    assert {event["name"] for event in gate[1:]} == {c.name for c in verdict.verdict.checks}
    assert sum(event["dur"] for event in gate[1:]) <= gate[0]["dur"]


def test_chrome_shows_what_was_waited_for(recorded: Session, tmp_path: Path) -> None:
    opened = continued(recorded, tmp_path / "parked", PARKED)
    shown, _ = spans_of(opened)
    waits = [(event["name"].partition(":")[0], event["dur"]) for event in shown if event["cat"] == "waiting"]
    assert waits[1:] == [("resume", 250_000), ("provider", 2_500_000), ("approval of a-1", 21_000_000), ("resume", 10_000_000)]
    assert waits[0][0] == "provider" and waits[0][1] <= 500_000, "no longer than the call in which it was waited"
    assert [event for event in shown if event["cat"] == "model"][-1]["args"]["answered"] is False


BENIGN = "plain"
HOSTILE = [
    "```\n# a heading\n```", "````\n```\n````", "~~~\n# x", "# h", "| a | b |", "a \\| b", "\\|", "a\\", "<script>alert(1)</script>",
    "<!--", "[a](http://b)", "![a](b)", "**bold**", "`code", "&#124;", "---", "===", "- item", "1. item", "    code", "a\r```\r# x",
    "a\u2028```\u2028# x", "a\x0b# x", "https://x.example", "www.x.example", "$x$", "@team", "\u202egnp", "\x1b[2J", "|\n|---|\n", "</td>",
    "~~x~~", ":x:", "_x_", "{{ x }}",
]  # fmt: skip
PIECES = st.lists(
    st.sampled_from([*HOSTILE, *"`~|\\<>[]()#*_-=+!&\n\r\t 1.", "```", "\n\n"]) | st.text(max_size=8), min_size=1, max_size=12
)
TEXT = PIECES.map("".join).filter(lambda text: text.strip() and not re.search(r"[\ud800-\udfff]", text))


def with_text(opened: Session, text: str) -> Session:
    """The same session in which everything that somebody else writes is ``text``."""
    brief = opened.blobs.put(text.encode())
    changed = [Entry(e.seq, e.time, e.hash, _written(e.event, text)) for e in opened.entries]
    first = opened.header.model_copy(update={"brief": brief, "task": text, "driver": text, "session": text})
    return Session(opened.folder, [Entry(0, opened.entries[0].time, "", first), *changed[1:]])


def _written(event: events.Event, text: str) -> events.Event:
    match event:
        case events.ModelReplied():
            calls = tuple(c.model_copy(update={"name": text, "arguments": text}) for c in event.tool_calls)
            return event.model_copy(update={"text": text, "reasoning": text, "tool_calls": calls})
        case events.ObservationMade():
            seen = event.observation.model_copy(update={"headline": text, "kind": text, "body": text})
            return event.model_copy(update={"observation": seen})
        case events.VerdictGiven():
            checks = tuple(c.model_copy(update={"message": text, "figure": text, "kind": text, "name": text}) for c in event.verdict.checks)
            return event.model_copy(update={"verdict": event.verdict.model_copy(update={"checks": checks, "platform": text})})
        case events.ActionProposed():
            return event.model_copy(update={"problem": text, "tool": text})
        case events.SessionEnded() | events.ModelFailed() | events.ApprovalGiven():
            return event.model_copy(update={"reason": text, **({"reviewer": text} if isinstance(event, events.ApprovalGiven) else {})})
        case events.Note():
            return event.model_copy(update={"text": text})
        case events.HypothesisStated():
            return event.model_copy(update={"claim": text, "prediction": text, "check": text})
        case events.HypothesisSettled():
            return event.model_copy(update={"note": text})
        case events.ProposalMade():
            return event.model_copy(update={"title": text, "summary": text})
        case _:
            return event


def parsed(opened: Session) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(markdown.encode(opened).decode())


def structure(tokens: list[Token]) -> list[tuple[str, str, int, tuple[str, ...]]]:
    return [(t.type, t.tag, t.level, tuple(child.type for child in t.children or ())) for t in tokens]


@pytest.fixture(scope="module")
def parked(recorded: Session, tmp_path_factory: pytest.TempPathFactory) -> Session:
    return continued(recorded, tmp_path_factory.mktemp("parked") / "session", PARKED)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXT)
def test_no_text_makes_structure_of_its_own(parked: Session, text: str) -> None:
    tokens = parsed(with_text(parked, text))
    assert structure(tokens) == structure(parsed(with_text(parked, BENIGN)))
    fences = [token.content for token in tokens if token.type == "fence"]
    shown = visible(text.replace("\r\n", "\n").replace("\r", "\n")).replace("\x00", "\ufffd")
    assert set(fences) == {f"{shown}\n"}


@pytest.mark.parametrize("text", HOSTILE)
def test_known_ways_out_of_a_cell_or_a_fence(parked: Session, text: str) -> None:
    tokens = parsed(with_text(parked, text))
    assert structure(tokens) == structure(parsed(with_text(parked, BENIGN)))
    cells = [token.content for token in tokens if token.type == "inline"]
    flat = visible(" ".join(text.split()))
    assert sum(html.unescape(cell) == flat for cell in cells) >= 3, "it reads as it was written"


def test_the_transcript_of_a_real_session(recorded: Session) -> None:
    text = markdown.encode(recorded).decode()
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads[1:4] == ["## Goal", "# Product and running sum", "## Hypotheses"] and heads[-1] == "## End"
    assert "| h-1 | sums the wrong axis | error of running falls to 1e-7 | accuracy | confirmed | a-3 | it did |" in text
    assert "**fail** (bad&#95;arguments): arguments are not JSON" in text
    assert "| tokens in / cached / out | 4800 / 0 / 160 |" in text and "; 1200 tokens in, 40 out" in text
    assert "Verdict: **pass**" in text and "| accuracy | pass |" in text


def test_the_command(recorded: Session, tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(formats.export)
    app.command("import")(formats.import_)
    for name in FORMATS:
        shown = CliRunner().invoke(app, ["export", str(recorded.folder), "--to", name])
        assert shown.exit_code == 0 and shown.stdout_bytes == export(recorded, name)
        kept = CliRunner().invoke(app, ["export", str(recorded.folder), "--to", name, "--out", str(tmp_path / name)])
        assert kept.exit_code == 0 and kept.stdout == "" and (tmp_path / name).read_bytes() == export(recorded, name)
    with pytest.raises(UsageError, match="--to xml: there are: atif, chrome, markdown"):
        export(recorded, "xml")
