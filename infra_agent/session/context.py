"""Messages for the model: a pure projection of the log, append-only so that a provider's prefix cache hits.

A request's digest is a chain: the head (system prompt, tools), then one link per message. A long conversation is
stored once, and drift in prompt or tools shows at the first link.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from infra_agent import canonical
from infra_agent.session import events
from infra_agent.session.events import ToolCall
from infra_agent.session.log import Blobs, Entry


@dataclass(frozen=True)
class Message:
    """One message. ``call`` is the id of the tool call that a tool message answers."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    call: str | None = None


def project(entries: Iterable[Entry], blobs: Blobs, sparse_metric: str | None) -> list[Message]:
    """The conversation so far. ``sparse_metric`` is the one metric a sparse run shows, None for a dense run."""
    messages: list[Message] = []
    calls: dict[str, str] = {}
    for entry in entries:
        match entry.event:
            case events.SessionStarted() as header:
                messages.append(Message("system", blobs.get(header.system_prompt).decode()))
                messages.append(Message("user", blobs.get(header.brief).decode()))
            case events.ModelReplied() as reply:
                messages.append(Message("assistant", reply.text, reply.tool_calls))
            case events.ActionProposed() as proposed:
                calls[proposed.action] = proposed.call
            case events.ObservationMade() as made:
                text = f"[{made.action}] {made.observation.for_model(sparse_metric)}"
                messages.append(Message("tool", text, call=calls[made.action]))
            case events.Note(to_model=True) as note:
                messages.append(Message("user", note.text))
            case _:
                continue
    return messages


def chain(tools_digest: str, messages: Sequence[Message]) -> str:
    """Digest of a request: a link per message over the digest of the tools' schemas."""
    link = canonical.digest(f"request\0{tools_digest}".encode())
    for message in messages:
        body = {**asdict(message), "tool_calls": [call.model_dump() for call in message.tool_calls]}
        link = canonical.digest_of([link, body])
    return link
