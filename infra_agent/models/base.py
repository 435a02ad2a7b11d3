"""What the loop knows of a model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall, Usage


@dataclass(frozen=True)
class ToolSchema:
    """A tool as the model is told of it; ``parameters`` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """For digests and for files."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}


@dataclass(frozen=True)
class Reply:
    """What a model answered. ``raw`` is the provider's own reply, kept as a blob."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    raw: bytes | None = None
    waited_s: float = 0.0
    """Seconds between attempts, in which nobody worked."""
    reasoning: str = ""
    """What the model thought aloud, where the provider shows it; it is not sent back."""


class Model(Protocol):
    """A model. ``complete`` raises ModelError when there is no usable reply, ContextError when the conversation is too long."""

    name: str

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
        """Answer the conversation."""
        ...
