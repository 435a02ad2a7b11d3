"""A recorded model answers the requests it was recorded for, and names drift in any other."""

from pathlib import Path

import pytest

from infra_agent.errors import ModelError
from infra_agent.models.base import ToolSchema
from infra_agent.models.recorded import Recorded, tools_digest
from infra_agent.session import events
from infra_agent.session.context import Message, chain
from infra_agent.session.events import ToolCall, Usage
from infra_agent.session.log import SessionLog

TOOLS = [ToolSchema("view", "Show a file", {})]
TALK = [Message("system", "be brief"), Message("user", "go")]
CALL = ToolCall(id="c1", name="view", arguments="{}")


def recorded(folder: Path) -> Recorded:
    digest = chain(tools_digest(TOOLS), TALK)
    with SessionLog(folder) as log:
        log.append(events.ModelReplied(request=digest, text="hm", tool_calls=(CALL,), usage=Usage()))
        return Recorded(log.entries)


def test_the_same_request_has_the_recorded_reply(tmp_path: Path) -> None:
    reply = recorded(tmp_path).complete(TALK, TOOLS)
    assert (reply.text, reply.tool_calls) == ("hm", (CALL,))


def test_drift_in_prompt_or_tools_is_named(tmp_path: Path) -> None:
    model = recorded(tmp_path)
    for messages, tools in (
        ([Message("system", "be long"), TALK[1]], TOOLS),
        (TALK, [ToolSchema("view", "Show it", {})]),
        (TALK[:1], TOOLS),
    ):
        with pytest.raises(ModelError, match="drifted"):
            model.complete(messages, tools)
