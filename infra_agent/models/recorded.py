"""A model that answers as a recorded session did, keyed by the digest of the request."""

from collections.abc import Sequence

from infra_agent import canonical
from infra_agent.errors import ModelError
from infra_agent.models.base import Reply, ToolSchema
from infra_agent.session import events
from infra_agent.session.context import Message, chain
from infra_agent.session.log import Entry


class Recorded:
    """Replies of ``entries``; a request that was never made raises ModelError: prompt, tools or feedback drifted."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.name = "recorded"
        replies = [entry.event for entry in entries if isinstance(entry.event, events.ModelReplied)]
        self._replies = {reply.request: Reply(reply.text, reply.tool_calls, reply.usage) for reply in replies}

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
        """The reply recorded for exactly this request."""
        digest = chain(tools_digest(tools), messages)
        if digest not in self._replies:
            raise ModelError(f"no recorded reply for request {digest[:12]} of {len(messages)} messages: prompt, tools or feedback drifted")
        return self._replies[digest]


def tools_digest(tools: Sequence[ToolSchema]) -> str:
    """Digest of the tools' schemas."""
    return canonical.digest_of([tool.as_dict() for tool in tools])
