"""Trajectories of mini-swe-agent, its formats ``mini-swe-agent-1`` and ``mini-swe-agent-1.1``, as what happened in order.

The file is another program's: its size, depth, types and numbers are checked before anything is made of it, and a fault is named with its
place. What has no meaning here stays in ``Trajectory.document``.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from infra_agent import canonical
from infra_agent.errors import UsageError
from infra_agent.frozen import one_line
from infra_agent.replay.formats.mini_swe_schema import Details, Document, Extra, Format, Item, Message, Response, Spoken, Stats, Tokens
from infra_agent.session.events import ToolCall, Usage

TOOL = "bash"
MOST_BYTES = 32 * 2**20
MOST_VALUES = 2_000_000
MOST_CALLS = 10_000
MOST_DEPTH = 64
_CODE = re.compile(r"\s*<returncode>(-?\d{1,9})</returncode>")
_FENCES = ("```bash", "```mswea_bash_command")


@dataclass(frozen=True)
class Said:
    """A reply of the model. ``carried_out``: its calls were; a reply that could not be read had none."""

    time: float | None
    text: str
    calls: tuple[ToolCall, ...]
    reasoning: str
    usage: Usage
    carried_out: bool = True


@dataclass(frozen=True)
class Seen:
    """What a call led to. ``call``: its id, None where the format has none. ``code``: exit status, None where it is not recorded."""

    time: float | None
    call: str | None
    text: str
    code: int | None
    fault: str


@dataclass(frozen=True)
class Told:
    """Something else that was said: to the model or, of how the run ended, to nobody."""

    time: float | None
    text: str
    to_model: bool = True


Moment = Said | Seen | Told


@dataclass(frozen=True)
class Trajectory:
    """A run, in order. Times are seconds since 1970, None where they are not recorded."""

    format: str
    version: str
    model: str
    system: str
    brief: str
    began: float | None
    moments: tuple[Moment, ...]
    exit_status: str
    """Empty for a run that had not ended."""
    calls: int | None
    """Model calls, by the program's own count."""
    usd: float | None
    """What they cost, None where the program could not say."""
    document: dict[str, Any]


def parse(data: bytes) -> Trajectory:
    """Read a trajectory. Raises UsageError that names the place of the first thing that is not as it should be."""
    document = _json(data)
    if not isinstance(document, dict):
        raise UsageError("not a trajectory: it is not a JSON object")
    stated = document.get("trajectory_format")
    if stated not in get_args(Format):
        raise UsageError(f"trajectory_format: found {str(stated)[:80]!r}; can be read: {', '.join(get_args(Format))}")
    try:
        return _trajectory(Document.model_validate(document), document)
    except ValidationError as error:
        raise UsageError(one_line(error)) from error


def _json(data: bytes) -> Any:
    if len(data) > MOST_BYTES:
        raise UsageError(f"more than {MOST_BYTES} bytes")
    try:
        found = json.loads(data, parse_constant=_no_number)
        _check(found)
        canonical.encode(found)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON that can be read: {one_line(error)[:200]}") from error
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON's")


def _check(document: Any) -> None:
    """Depth and number of values, before anything walks through them. Raises ValueError."""
    level, count = [document], 0
    for _ in range(MOST_DEPTH):
        count += len(level)
        if count > MOST_VALUES:
            raise ValueError(f"more than {MOST_VALUES} values")
        level = [
            child for value in level if isinstance(value, dict | list) for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise ValueError(f"more than {MOST_DEPTH} levels deep")


def _trajectory(document: Document, whole: dict[str, Any]) -> Trajectory:
    info, messages = document.info, document.messages
    stats = info.model_stats or Stats()
    opening = _opening(messages)
    moments = tuple(_moments(messages[len(opening) :]))
    if sum(len(moment.calls) for moment in moments if isinstance(moment, Said)) > MOST_CALLS:
        raise UsageError(f"messages: more than {MOST_CALLS} calls")
    ending = next((m.more.exit_status for m in reversed(messages) if m.more.exit_status), "")
    return Trajectory(
        format=document.trajectory_format,
        version=info.mini_version or "",
        model=(info.config and info.config.model and info.config.model.model_name) or "",
        system=_text(opening[0].content) if opening and opening[0].role == "system" else "",
        brief=_text(opening[-1].content) if opening and opening[-1].role == "user" else "",
        began=next((m.time for m in messages if m.time is not None), None),
        moments=moments,
        exit_status=info.exit_status or ending,
        calls=stats.api_calls,
        usd=stats.instance_cost or None,  # 0 is written where no price was known
        document=whole,
    )


def _opening(messages: Sequence[Message]) -> Sequence[Message]:
    """The system prompt and the brief, where they are."""
    roles = [message.role for message in messages[:2]]
    return messages[: 2 if roles == ["system", "user"] else 1 if roles[0] in ("system", "user") else 0]


def _moments(messages: Sequence[Message]) -> Iterator[Moment]:
    waiting = 0  # calls of the last reply of which nothing was seen yet
    for message in messages:
        if message.role == "assistant" or message.object == "response":
            said = _said(message)
            waiting = len(said.calls)
            yield said
        elif _answers(message, waiting):
            waiting -= 1
            yield _seen(message)
        else:
            if (lost := _unread(message)) is not None:
                yield lost
            yield Told(message.time, _text(message.content), message.role != "exit" and not message.more.exit_status)


def _answers(message: Message, waiting: int) -> bool:
    """True for what a call led to. Where calls are blocks of text, that is what the user says next, unless it says that it is not."""
    if message.role == "tool" or message.type == "function_call_output":
        return True
    return message.role == "user" and waiting > 0 and not _of_the_program(message.more)


def _of_the_program(extra: Extra) -> bool:
    """A user's message that answers no call: an interruption, a person's own command, the end."""
    return bool(extra.interrupt_type or extra.actions or extra.exit_status)


def _seen(message: Message) -> Seen:
    text = message.output if isinstance(message.output, str) else _text(message.content)
    written = _CODE.match(text)
    code = message.more.returncode if message.more.returncode is not None else int(written[1]) if written else None
    return Seen(message.time, message.tool_call_id or message.call_id, text, code, message.more.exception_info or "")


def _said(message: Message) -> Said:
    text, calls = _text(message.content), _calls(message)
    reasoning = message.reasoning_content or ""
    if isinstance(message.output, list):
        text, reasoning = _of_items(message.output)
    if not calls:
        commands = _commands(text) if message.more.actions is None else [action.command for action in message.more.actions]
        calls = tuple(ToolCall(id="", name=TOOL, arguments=canonical.encode({"command": command}).decode()) for command in commands)
    return Said(message.time, text, calls, reasoning, _usage(message))


def _unread(message: Message) -> Said | None:
    """A reply in which the program found no call that it could read: only the provider's answer was kept, beside the complaint."""
    response = message.more.response
    if not isinstance(response, Response):
        return None
    items = [item for item in response.output if isinstance(item, Item)] if isinstance(response.output, list) else []
    said = response.choices[0].message if response.choices else Spoken(output=items)
    text, reasoning = _of_items(items) if items else (_text(said.content), said.reasoning_content or "")
    return Said(message.time, text, _calls(said), reasoning, _usage(message), carried_out=False)


def _text(content: str | list[dict[str, Any]] | None) -> str:
    """Text of a message; a part that is no text is named."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part["text"] if isinstance(part.get("text"), str) else f"[{str(part.get('type'))[:40]}]" for part in content)


def _of_items(items: Sequence[Item]) -> tuple[str, str]:
    """Text and reasoning of an answer in pieces."""
    text = [_text(item.content) for item in items if item.type == "message"]
    return "\n".join(text), "\n".join(_text(item.summary) for item in items if item.type == "reasoning")


def _calls(said: Spoken) -> tuple[ToolCall, ...]:
    calls = [ToolCall(id=c.id or "", name=c.function.name or "", arguments=_arguments(c.function.arguments)) for c in said.tool_calls or ()]
    items = said.output if isinstance(said.output, list) else ()
    pieces = [item for item in items if item.type == "function_call"]
    return (*calls, *(ToolCall(id=i.call_id or "", name=i.name or "", arguments=i.arguments or "") for i in pieces))


def _arguments(written: str | dict[str, Any] | None) -> str:
    return written if isinstance(written, str) else canonical.encode(written or {}).decode()


def _commands(text: str) -> list[str]:
    """The command of a reply that carries it as a block of shell; none unless there is exactly one block."""
    found, block, inside = list[str](), list[str](), False
    for line in text.split("\n"):
        if not inside and line.rstrip().endswith(_FENCES):
            inside, block = True, []
        elif inside and line.startswith("```"):
            inside = False
            found.append("\n".join(block).strip())
        elif inside:
            block.append(line)
    return found if len(found) == 1 else []


def _usage(message: Message) -> Usage:
    """What the provider said; None where it did not. A cost of 0 is written where no price was known."""
    response = message.more.response if isinstance(message.more.response, Response) else None
    said = message.usage or (response.usage if response else None) or Tokens()
    details = said.prompt_tokens_details or said.input_tokens_details or Details()
    return Usage(
        input_tokens=said.input_tokens if said.prompt_tokens is None else said.prompt_tokens,
        cached_tokens=details.cached_tokens,
        output_tokens=said.output_tokens if said.completion_tokens is None else said.completion_tokens,
        cost_usd=message.more.cost or None,
    )
