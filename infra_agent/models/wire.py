"""The chat-completions form that most servers speak: messages to it, answers from it, whole or in pieces. Pure, on plain dictionaries."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from infra_agent.models import faults
from infra_agent.models.base import Reply, ToolSchema
from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall, Usage

Body = dict[str, Any]


def request(model: str, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Body:
    """The body of a request, answered in pieces and with its usage."""
    body: Body = {"model": model, "messages": [_message(message) for message in messages]}
    if tools:
        body["tools"] = [{"type": "function", "function": tool.as_dict()} for tool in tools]
    return body | {"stream": True, "stream_options": {"include_usage": True}}


def _message(message: Message) -> Body:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call, "content": message.text}
    body: Body = {"role": message.role, "content": message.text}
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in message.tool_calls
        ]
    return body


class Assembly:
    """An answer that comes in pieces; ``body`` is what it would have been as a whole."""

    def __init__(self) -> None:
        self._head: Body = {}
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[Body] = []
        self._places: dict[int, Body] = {}
        self._finish: str | None = None
        self._usage: Body | None = None

    def add(self, chunk: Mapping[str, Any]) -> None:
        """The next piece. Only the first choice counts: no more are asked for."""
        self._head = self._head or {key: chunk.get(key) for key in ("id", "created", "model")}
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or ():
            if choice.get("index"):
                continue
            delta = choice.get("delta") or {}
            self._text.append(delta.get("content") or "")
            self._reasoning.append(_reasoning(delta))
            for piece in delta.get("tool_calls") or ():
                self._add_call(piece)
            self._finish = choice.get("finish_reason") or self._finish

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        """Pieces of a call share an index; where a server leaves it out, a piece with a new id begins the next call."""
        function, index = piece.get("function") or {}, piece.get("index")
        call = self._places.get(index) if index is not None else (self._calls[-1] if self._calls else None)
        if call is None or (index is None and piece.get("id") not in (None, "", call["id"])):
            call = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            self._calls.append(call)
            if index is not None:
                self._places[index] = call
        call["id"] = piece.get("id") or call["id"]
        call["function"]["name"] = function.get("name") or call["function"]["name"]
        call["function"]["arguments"] += function.get("arguments") or ""

    def body(self) -> Body:
        """The whole of it."""
        message: Body = {"role": "assistant", "content": "".join(self._text) or None, "reasoning_content": "".join(self._reasoning) or None}
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._usage}


def reply(name: str, body: Mapping[str, Any]) -> Reply:
    """The reply in a whole answer. Raises TransientError, ModelError or ContextError for one of no use, whatever its status was."""
    choices = body.get("choices")
    if not choices:
        error = body.get("error")
        raise faults.of_body(name, error) if error else faults.TransientError(f"{name}: the answer has no choices")
    choice = choices[0]
    faults.finished(name, choice.get("finish_reason"))
    message = choice.get("message") or {}
    text, reasoning, calls = message.get("content") or "", _reasoning(message), _calls(message.get("tool_calls") or ())
    if not (text.strip() or reasoning.strip() or calls):
        raise faults.TransientError(f"{name}: the answer is empty")
    return Reply(text, calls, _usage(body.get("usage") or {}), json.dumps(body, ensure_ascii=False).encode(), reasoning=reasoning)


def _reasoning(message: Mapping[str, Any]) -> str:
    """Two names are in use."""
    said = message.get("reasoning_content") or message.get("reasoning") or ""
    return said if isinstance(said, str) else ""


def _calls(listed: Sequence[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    """Calls as the model wrote them, wrong ones too: what is wrong with them is for the loop to say."""
    calls = []
    for call in listed:
        function = call.get("function") or {}
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments)
        calls.append(ToolCall(id=str(call.get("id") or ""), name=str(function.get("name") or ""), arguments=text))
    return tuple(calls)


def _usage(said: Mapping[str, Any]) -> Usage:
    details = said.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens")
    return Usage(
        input_tokens=_count(said.get("prompt_tokens")),
        cached_tokens=_count(said.get("prompt_cache_hit_tokens") if cached is None else cached),
        output_tokens=_count(said.get("completion_tokens")),
        cost_usd=said["cost"] if isinstance(said.get("cost"), int | float) and said["cost"] >= 0 else None,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None
