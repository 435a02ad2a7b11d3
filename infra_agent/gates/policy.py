"""The action gate's policy: rules as data, each proved on its own examples when loaded."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from infra_agent.errors import UsageError
from infra_agent.frozen import Frozen, one_line
from infra_agent.session.observation import Isolation
from infra_agent.task.tree import matches

Ruling = Literal["allow", "ask", "deny", "abort"]
_STRICTNESS: tuple[Ruling, ...] = ("allow", "ask", "deny", "abort")


class Action(Frozen):
    """What a policy sees of an action. ``tool`` is @instrument for every instrument."""

    tool: str
    path: str = ""
    scope: bool = False
    """The path is in the task's edit scope."""
    protected: bool = False
    """The path exists at base and is protected."""


class Rule(Frozen):
    """One rule: it matches when tool and path do."""

    id: str
    tools: tuple[str, ...]
    paths: Literal["any", "scope", "protected"] = "any"
    globs: tuple[str, ...] = ()
    decision: Ruling
    reason: str
    match: tuple[Action, ...] = Field(min_length=1)
    not_match: tuple[Action, ...] = Field(min_length=1)

    def applies(self, action: Action) -> bool:
        """True when this rule has a say on ``action``."""
        if action.tool not in self.tools:
            return False
        if self.globs and not matches(action.path, self.globs):
            return False
        return {"any": True, "scope": action.scope, "protected": action.protected}[self.paths]


@dataclass(frozen=True)
class Decision:
    """What the gate decided, by which rule, and why."""

    ruling: Ruling
    rule: str
    reason: str


class Policy(Frozen):
    """Rules in file order, and the least isolation at which a verdict counts."""

    isolation: Isolation
    rule: tuple[Rule, ...] = Field(min_length=1)

    def decide(self, action: Action) -> Decision:
        """The strictest rule that applies; deny when none does."""
        found = [rule for rule in self.rule if rule.applies(action)]
        if not found:
            return Decision("deny", "no-match", f"no rule allows tool '{action.tool}'{f' on {action.path}' if action.path else ''}")
        strictest = max(found, key=lambda rule: _STRICTNESS.index(rule.decision))
        return Decision(strictest.decision, strictest.id, strictest.reason)


DEFAULT = Path(__file__).with_name("policy.toml")


def parse(text: str, where: str) -> Policy:
    """Read a policy; raises UsageError for a bad key or a rule that fails its own example."""
    try:
        policy = Policy.model_validate(tomllib.loads(text))
    except ValueError as error:
        raise UsageError(f"{where}: {one_line(error)}") from error
    for rule in policy.rule:
        for action in rule.match:
            if not rule.applies(action):
                raise UsageError(f"{where}: rule '{rule.id}' does not match its own example {_show(action)}")
        for action in rule.not_match:
            if rule.applies(action):
                raise UsageError(f"{where}: rule '{rule.id}' matches {_show(action)}, which it says it does not")
    return policy


def default() -> Policy:
    """The policy that is shipped."""
    return parse(DEFAULT.read_text(), str(DEFAULT))


def _show(action: Action) -> dict[str, Any]:
    return action.model_dump(exclude_defaults=True)
