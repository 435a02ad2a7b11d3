"""From a log to messages: repaired, elided, and else only ever longer."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra_agent import canonical
from infra_agent.session import events
from infra_agent.session.context import Conversation, Message, chain, project
from infra_agent.session.events import ToolCall, Usage
from infra_agent.session.log import Blobs, Entry
from infra_agent.session.observation import Observation

TOOLS = canonical.digest(b"tools")


def header(blobs: Blobs) -> events.SessionStarted:
    text = blobs.put(b"words")
    return events.SessionStarted(
        session="s", task="t", task_digest="d", base="b", base_files="f", cases="c", driver="unknown", feedback="dense", level="L2",
        isolation="full", platform="cpu", audited=True, spec="s", policy="p", system_prompt=text, brief=text, tools=TOOLS,
        secret_commitment="x", versions={}, machine={}, limits={},
    )  # fmt: skip


def replied(*calls: ToolCall, text: str = "") -> events.ModelReplied:
    return events.ModelReplied(request="r", text=text, tool_calls=calls, usage=Usage())


def call(identity: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id=identity, name="view", arguments=arguments)


def done(number: int, identity: str, body: str = "") -> list[events.Event]:
    """An action that was proposed and observed."""
    action = f"a-{number}"
    seen = Observation(instrument="view", status="pass", headline=f"file {number}", body=body or None)
    return [
        events.ActionProposed(action=action, call=identity, tool="view", arguments={}),
        events.ObservationMade(action=action, observation=seen, tree="t"),
    ]


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path)


def entries(blobs: Blobs, *later: events.Event) -> list[Entry]:
    return [Entry(n, "", "", event) for n, event in enumerate([header(blobs), *later])]


def test_the_chain_is_that_of_the_messages(blobs: Blobs) -> None:
    conversation = Conversation(blobs, None)
    conversation.read(entries(blobs, replied(call("c1")), *done(1, "c1")))
    messages, digest = conversation.request()
    assert [m.role for m in messages] == ["system", "user", "assistant", "tool"] and digest == chain(TOOLS, messages)


def test_ids_that_are_missing_or_used_twice_become_unique_and_answers_follow_them(blobs: Blobs) -> None:
    log = entries(
        blobs, replied(call("c1"), call("c1"), call("")), *done(1, "c1"), *done(2, "c1"), *done(3, ""), replied(call("c1")), *done(4, "c1")
    )
    messages = project(log, blobs, None)
    asked = [c.id for m in messages for c in m.tool_calls]
    assert len(set(asked)) == 4 and all(asked)
    assert [m.call for m in messages if m.role == "tool"] == asked
    assert [m.text.split()[0] for m in messages if m.role == "tool"] == ["[a-1]", "[a-2]", "[a-3]", "[a-4]"]


def test_arguments_that_no_server_takes_back_are_wrapped(blobs: Blobs) -> None:
    log = entries(blobs, replied(call("c1", '{"path": "half'), call("c2", "[1]")), *done(1, "c1"), *done(2, "c2"))
    sent = [json.loads(c.arguments) for m in project(log, blobs, None) for c in m.tool_calls]
    assert sent == [{"malformed": '{"path": "half'}, {"malformed": "[1]"}]


def test_calls_that_were_never_carried_out_are_answered(blobs: Blobs) -> None:
    log = entries(blobs, replied(call("c1"), call("c2")), *done(1, "c1"), events.Note(text="go on", to_model=True))
    messages = project(log, blobs, None)
    assert [(m.role, m.call) for m in messages[3:]] == [("tool", "c1"), ("tool", "c2"), ("user", None)]
    assert "not carried out" in messages[4].text


def test_a_note_waits_until_every_call_is_answered(blobs: Blobs) -> None:
    note = events.Note(text="you go round in circles", to_model=True)
    log = entries(blobs, replied(call("c1"), call("c2")), *done(1, "c1"), note, *done(2, "c2"))
    assert [m.role for m in project(log, blobs, None)[3:]] == ["tool", "tool", "user"]


def test_elision_goes_oldest_first_and_leaves_headline_and_digest(blobs: Blobs) -> None:
    steps = [event for n in range(1, 5) for event in (replied(call(f"c{n}")), *done(n, f"c{n}", "x" * 1000))]
    log = entries(blobs, *steps)
    conversation = Conversation(blobs, None)
    conversation.read(log)
    before, chosen = list(conversation.request()[0]), conversation.elidable()
    assert chosen == ["a-1", "a-2"]
    log.append(Entry(len(log), "", "", events.ContextElided(actions=tuple(chosen), reason="too long")))
    conversation.read(log)
    after, digest = conversation.request()
    assert digest == chain(TOOLS, after) and len(after) == len(before)
    changed = [n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert changed == [3, 5]
    whole = canonical.digest(before[3].text.encode())[:12]
    assert after[3].text.startswith("[a-1] view: pass — file 1\n") and whole in after[3].text and "recall a-1" in after[3].text
    assert conversation.elidable() == ["a-3"]
    assert after == project(log, blobs, None)


def test_there_is_nothing_left_to_elide(blobs: Blobs) -> None:
    conversation = Conversation(blobs, None)
    conversation.read(entries(blobs, replied(call("c1")), *done(1, "c1", "short")))
    assert conversation.elidable() == []


steps = st.lists(
    st.one_of(
        st.lists(st.sampled_from(["c1", "c2", ""]), max_size=3).map(lambda ids: ("reply", ids)),
        st.just(("note", [])),
        st.just(("observe", [])),
    ),
    max_size=12,
)


@given(steps)
def test_what_was_sent_stays_as_it_was(drawn: list[tuple[str, list[str]]]) -> None:
    """Whatever a model says: every request begins with the one before it, and has an answer to each call."""
    log, number, open_calls = entries(Memory()), 0, list[str]()
    conversation = Conversation(Memory(), None)
    requests: list[list[Message]] = []
    for what, ids in drawn:
        later: list[events.Event] = []
        if what == "reply":
            conversation.read(log)
            requests.append(list(conversation.request()[0]))
            later, open_calls = [replied(*(call(i) for i in ids), text="t")], list(ids)
        elif what == "note":
            later = [events.Note(text="n", to_model=True)]
        elif open_calls:
            number += 1
            later = done(number, open_calls.pop(0))
        log += [Entry(len(log) + n, "", "", event) for n, event in enumerate(later)]
    for earlier, later_one in pairwise(requests):
        assert later_one[: len(earlier)] == earlier
    for messages in requests:
        asked = [c.id for m in messages for c in m.tool_calls]
        assert len(set(asked)) == len(asked) and sorted(asked) == sorted(m.call or "" for m in messages if m.role == "tool")


class Memory(Blobs):
    """Blobs that need no folder."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"))

    def put(self, data: bytes) -> str:
        return canonical.digest(data)

    def get(self, name: str) -> bytes:
        return b"words"
