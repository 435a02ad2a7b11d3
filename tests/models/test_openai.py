"""The OpenAI adapter against a real server with planted faults."""

import json

import pytest

from infra_agent.errors import ModelError
from infra_agent.models.base import Reply, ToolSchema
from infra_agent.models.openai import OpenAI
from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall
from tests.loopback import Answer, completion, serve

TOOLS = [ToolSchema("view", "Show a file", {"type": "object", "properties": {"path": {"type": "string"}}})]
TALK = [
    Message("system", "be brief"),
    Message("user", "go"),
    Message("assistant", "", (ToolCall(id="c1", name="view", arguments='{"path": "a"}'),)),
    Message("tool", "[a-1] view: pass", call="c1"),
]


def ask(*answers: Answer) -> tuple[Reply, list[dict[str, object]]]:
    with serve(list(answers)) as (url, seen):
        return OpenAI("m", url, first_wait_s=0.01).complete(TALK, TOOLS), seen


def test_text_calls_and_usage_arrive() -> None:
    reply, seen = ask(completion("thinking", [("view", '{"path": "b"}')], "tool_calls"))
    assert reply.text == "thinking" and reply.tool_calls == (ToolCall(id="call-view-0", name="view", arguments='{"path": "b"}'),)
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.output_tokens, reply.usage.cost_usd) == (11, 5, 7, None)
    assert reply.raw and json.loads(reply.raw)["model"] == "loopback"
    sent = seen[0]
    assert [m["role"] for m in sent["messages"]] == ["system", "user", "assistant", "tool"]  # type: ignore[index, union-attr]
    assert sent["messages"][3]["tool_call_id"] == "c1" and sent["tools"][0]["function"]["name"] == "view"  # type: ignore[index]


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_transient_faults_are_tried_again_and_the_waiting_is_booked(status: int) -> None:
    reply, seen = ask((status, {"Retry-After": "0.05"}, b'{"error": {"message": "later"}}'), completion("ok"))
    assert reply.text == "ok" and len(seen) == 2 and reply.waited_s == pytest.approx(0.05)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_lasting_faults_are_not_tried_again(status: int) -> None:
    with serve([(status, {}, b'{"error": {"message": "no such thing"}}'), completion("never")]) as (url, seen):
        with pytest.raises(ModelError, match=f"answered {status}.*no such thing"):
            OpenAI("m", url, first_wait_s=0.01).complete(TALK, TOOLS)
        assert len(seen) == 1


def test_it_gives_up_in_the_end() -> None:
    with serve([(503, {}, b"{}")] * 9) as (url, seen):
        with pytest.raises(ModelError, match="503"):
            OpenAI("m", url, first_wait_s=0.001).complete(TALK, TOOLS)
        assert len(seen) == 5


@pytest.mark.parametrize(
    "answer",
    [(200, {}, b'{"error": {"message": "overloaded"}}'), (200, {}, b"<html>busy</html>"), completion("half", finish=None)],
    ids=["error-body", "not-json", "cut"],
)
def test_an_unusable_200_is_an_error(answer: Answer) -> None:
    with pytest.raises(ModelError, match="unusable answer"):
        ask(answer)


def test_an_unreachable_server_is_named() -> None:
    with pytest.raises(ModelError, match=r"cannot reach http://127\.0\.0\.1:9"):
        OpenAI("m", "http://127.0.0.1:9/v1", first_wait_s=0.001).complete(TALK, TOOLS)


def test_a_missing_key_says_what_to_do() -> None:
    with pytest.raises(ModelError, match=r"OPENAI_API_KEY is not set; export it, or .*--base-url"):
        OpenAI("m")
