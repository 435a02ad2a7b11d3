"""What the OpenAI adapter sends, and what it makes of an answer that comes whole or in pieces."""

import json

import pytest

from infra_agent.models.base import Reply, ToolSchema
from infra_agent.models.openai import OpenAI
from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall
from tests.loopback import Answer, chunk, completion, serve, stream, usage_chunk

TOOLS = [ToolSchema("view", "Show a file", {"type": "object", "properties": {"path": {"type": "string"}}})]
TALK = [
    Message("system", "be brief"),
    Message("user", "go"),
    Message("assistant", "", (ToolCall(id="c1", name="view", arguments='{"path": "a"}'),)),
    Message("tool", "[a-1] view: pass", call="c1"),
]


def ask(*answers: Answer) -> tuple[Reply, list[dict[str, object]]]:
    with serve(list(answers)) as (url, seen):
        return OpenAI("m", url).complete(TALK, TOOLS), seen


def piece(index: int | None, arguments: str = "", **more: str) -> bytes:
    function = {"arguments": arguments, **({"name": more["name"]} if "name" in more else {})}
    call = {"type": "function", "function": function, **({} if index is None else {"index": index})}
    return chunk({"tool_calls": [call | ({"id": more["id"]} if "id" in more else {})]})


def test_text_calls_and_usage_arrive() -> None:
    reply, seen = ask(completion("thinking", [("view", '{"path": "b"}')], "tool_calls"))
    assert reply.text == "thinking" and reply.tool_calls == (ToolCall(id="call-view-0", name="view", arguments='{"path": "b"}'),)
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.output_tokens, reply.usage.cost_usd) == (11, 5, 7, None)
    assert reply.raw and json.loads(reply.raw)["model"] == "loopback"
    sent = seen[0]
    assert [m["role"] for m in sent["messages"]] == ["system", "user", "assistant", "tool"]  # type: ignore[index, union-attr]
    assert sent["messages"][3]["tool_call_id"] == "c1" and sent["tools"][0]["function"]["name"] == "view"  # type: ignore[index]
    assert sent["stream"] is True and sent["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("indexed", [True, False], ids=["with-index", "without"])
def test_pieces_make_the_same_reply(indexed: bool) -> None:
    at = (lambda n: n) if indexed else (lambda n: None)
    pieces = [
        chunk({"role": "assistant", "content": None, "reasoning_content": "first "}),
        chunk({"reasoning_content": "look"}),
        chunk({"content": "I "}),
        chunk({"content": "look"}),
        piece(at(0), id="c1", name="view"),
        piece(at(0), '{"path"'),
        piece(at(0), ': "b"}'),
        piece(at(1), "{}", id="c2", name="view"),
        chunk({}, "tool_calls"),
        usage_chunk(),
    ]
    reply, _ = ask(stream(*pieces))
    assert (reply.text, reply.reasoning) == ("I look", "first look")
    assert reply.tool_calls == (
        ToolCall(id="c1", name="view", arguments='{"path": "b"}'),
        ToolCall(id="c2", name="view", arguments="{}"),
    )
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.output_tokens) == (11, 5, 7)
    assert reply.raw and json.loads(reply.raw)["choices"][0]["message"]["content"] == "I look"


def test_what_a_model_writes_wrongly_arrives_as_it_was_written() -> None:
    """Wrong arguments, ids that are missing or used twice: the loop says what is wrong with them."""
    function = {"name": "view", "arguments": '{"path": "b'}
    calls = [
        {"id": "c1", "type": "function", "function": function},
        {"id": "c1", "type": "function", "function": {"name": "view", "arguments": {"path": "a"}}},
        {"type": "function", "function": {"name": "view", "arguments": None}},
    ]
    reply, _ = ask(completion(None, finish="tool_calls", tool_calls=calls))
    assert [(call.id, call.arguments) for call in reply.tool_calls] == [("c1", '{"path": "b'), ("c1", '{"path": "a"}'), ("", "{}")]


def test_thinking_alone_is_an_answer() -> None:
    reply, _ = ask(completion("", reasoning="hm"))
    assert (reply.text, reply.reasoning, reply.tool_calls) == ("", "hm", ())


def test_a_price_that_the_server_states_is_taken() -> None:
    status, headers, data = completion("ok")
    said = json.loads(data)
    said["usage"] |= {"cost": 0.25, "prompt_tokens_details": None, "prompt_cache_hit_tokens": 4}
    reply, _ = ask((status, headers, json.dumps(said).encode()))
    assert (reply.usage.cost_usd, reply.usage.cached_tokens) == (0.25, 4)
