"""A model that says what it was given, in order. Deterministic and real: tests need no mock."""

from collections.abc import Iterable, Sequence

from infra_agent.errors import ModelError
from infra_agent.models.base import Reply, ToolSchema
from infra_agent.session.context import Message


class Scripted:
    """Replies in order, whatever is asked; raises ModelError when there are no more."""

    def __init__(self, replies: Iterable[Reply], name: str = "scripted") -> None:
        self.name = name
        self._replies = iter(list(replies))

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
        """The next reply."""
        reply = next(self._replies, None)
        if reply is None:
            raise ModelError("the script has no more replies")
        return reply
