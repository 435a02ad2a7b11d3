"""The playbook as a model: like any other it sees only messages and tool schemas."""

import json
from collections.abc import Sequence
from typing import Protocol

from infra_agent.models.base import Reply, ToolSchema
from infra_agent.models.playbook import fences, knobs, precision
from infra_agent.models.playbook.transcript import Call, Given, Step, steps
from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall


class Rule(Protocol):
    """A module that knows one family of faults."""

    NEEDS: frozenset[str]
    """Tools without which it does not apply."""

    def next_call(self, history: Sequence[Step], given: Given) -> Call | str:
        """The next tool call, or the reason to stop."""
        ...


_RULES: tuple[Rule, ...] = (precision, fences, knobs)


class Playbook:
    """Tries its rules in order. It keeps no state: the conversation is the state."""

    name = "playbook"

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
        """The next step of the rule whose turn it is, or a text that says why there is none."""
        given = Given(next((m.text for m in messages if m.role == "user"), ""), frozenset(tool.name for tool in tools))
        history = steps(messages)
        fitting = [rule for rule in _RULES if given.offered >= rule.NEEDS]
        if not fitting:
            needs = "; or ".join(", ".join(sorted(rule.NEEDS)) for rule in _RULES)
            return Reply(f"no rule of the playbook fits: it needs {needs}")
        step = _next(fitting, history, given)
        if isinstance(step, str):
            return Reply(step)
        name, arguments = step
        return Reply("", (ToolCall(id=f"call-{len(history) + 1}", name=name, arguments=json.dumps(arguments)),))


def _next(rules: list[Rule], history: Sequence[Step], given: Given) -> Call | str:
    """The step of the first rule that had not given up before the first edit. A rule that has edited is followed to its end."""
    edited = next((n for n, step in enumerate(history) if step.tool == "edit"), len(history))
    reasons: list[str] = []
    for length in range(edited + 1):
        step = rules[len(reasons)].next_call(history[:length], given)
        while isinstance(step, str):
            reasons.append(step)
            if len(reasons) == len(rules):
                return "; ".join(reasons)
            step = rules[len(reasons)].next_call(history[:length], given)
    return rules[len(reasons)].next_call(history, given)
