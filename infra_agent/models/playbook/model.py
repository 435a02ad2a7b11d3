"""The playbook as a model: like any other it sees only messages and tool schemas."""

import json
from collections.abc import Sequence

from infra_agent.models.base import Reply, ToolSchema
from infra_agent.models.playbook import precision
from infra_agent.models.playbook.transcript import steps
from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall

_RULES = (precision,)


class Playbook:
    """Applies the first rule whose instruments are there. It keeps no state: the conversation is the state."""

    name = "playbook"

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
        """The next step of the rule, or a text that says why there is none."""
        offered = {tool.name for tool in tools}
        history = steps(messages)
        for rule in _RULES:
            if offered >= rule.NEEDS:
                step = rule.next_call(history)
                if isinstance(step, str):
                    return Reply(step)
                name, arguments = step
                return Reply("", (ToolCall(id=f"call-{len(history) + 1}", name=name, arguments=json.dumps(arguments)),))
        return Reply(f"no rule of the playbook fits: it needs {', '.join(sorted(precision.NEEDS))}")
