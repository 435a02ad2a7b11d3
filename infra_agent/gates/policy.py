"""The policy: rules, detectors and what an approval takes, as data. The strictest of three layers holds: shipped, task's, user's."""

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from infra_agent import canonical
from infra_agent.errors import UsageError
from infra_agent.frozen import Frozen, one_line
from infra_agent.gates.effects import Effect
from infra_agent.gates.lines import place
from infra_agent.gates.risk import TIERS, Detector, Tier
from infra_agent.session.observation import Isolation
from infra_agent.task.tree import matches

Ruling = Literal["allow", "ask", "deny", "abort"]
_STRICTNESS: tuple[Ruling, ...] = ("allow", "ask", "deny", "abort")
_ISOLATIONS: tuple[Isolation, ...] = ("none", "partial", "full")


class Action(Frozen):
    """What a policy sees of an action. ``tool`` is @instrument for every instrument."""

    tool: str
    path: str = ""
    scope: bool = False
    """The path is in the task's edit scope."""
    protected: bool = False
    """The path exists at base and is protected."""
    effects: tuple[Effect, ...] = ()
    """What a command does, as far as its words tell."""
    size: int = 0
    """Bytes of text that it puts somewhere."""
    risk: Tier = "low"
    """Of an edit by the detectors, of a proposal by the model's own estimate."""


class Rule(Frozen):
    """One rule: it matches when everything that it names does."""

    id: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    tools: tuple[str, ...] = Field(min_length=1)
    paths: Literal["any", "scope", "protected"] = "any"
    globs: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    """One of these is enough."""
    larger_than: int = Field(default=0, ge=0)
    """Bytes."""
    risk: Tier = "low"
    """This tier or a higher one."""
    decision: Ruling
    reason: str
    match: tuple[Action, ...] = Field(min_length=1)
    not_match: tuple[Action, ...] = Field(min_length=1)
    layer: str = ""
    """Which layer it comes from; filled in when layers are put together."""

    @model_validator(mode="after")
    def _proved(self) -> "Rule":
        if wrong := next((action for action in self.match if not self.applies(action)), None):
            raise ValueError(f"rule '{self.id}' does not match its own example {_show(wrong)}")
        if wrong := next((action for action in self.not_match if self.applies(action)), None):
            raise ValueError(f"rule '{self.id}' matches {_show(wrong)}, which it says it does not")
        return self

    def applies(self, action: Action) -> bool:
        """True when this rule has a say on ``action``."""
        return (
            action.tool in self.tools
            and (not self.globs or matches(action.path, self.globs))
            and {"any": True, "scope": action.scope, "protected": action.protected}[self.paths]
            and (not self.effects or bool(set(self.effects) & set(action.effects)))
            and (not self.larger_than or action.size > self.larger_than)
            and TIERS.index(action.risk) >= TIERS.index(self.risk)
        )

    def shadows(self, other: "Rule") -> bool:
        """True when ``other`` can never decide: this one applies wherever it does, and is as strict."""
        return (
            _STRICTNESS.index(self.decision) >= _STRICTNESS.index(other.decision)
            and set(self.tools) >= set(other.tools)
            and self.paths in ("any", other.paths)
            and (not self.globs or (bool(other.globs) and set(self.globs) >= set(other.globs)))
            and (not self.effects or (bool(other.effects) and set(self.effects) >= set(other.effects)))
            and self.larger_than <= other.larger_than
            and TIERS.index(self.risk) <= TIERS.index(other.risk)
        )


class Approval(Frozen):
    """What it takes to approve a change of one tier."""

    approvers: int = Field(default=1, ge=1)
    """People, by different names."""
    checks: tuple[str, ...] = ()
    """Checks that must have run and passed, whatever the task excuses."""


@dataclass(frozen=True)
class Decision:
    """What the gate decided, by which rule, and why."""

    ruling: Ruling
    rule: str
    reason: str


class Policy(Frozen):
    """One layer, or several put together."""

    isolation: Isolation = "none"
    """The least isolation at which a verdict counts."""
    rule: tuple[Rule, ...] = ()
    detector: tuple[Detector, ...] = ()
    approval: dict[Tier, Approval] = Field(default_factory=dict)
    never_overridden: tuple[str, ...] = ()
    """Checks that no person can set aside."""

    @model_validator(mode="after")
    def _sound(self) -> "Policy":
        for listed in (self.rule, self.detector):
            names = [entry.id for entry in listed]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(f"'{twice}' is there twice: an id names one rule or detector")
        layers = list(dict.fromkeys(rule.layer for rule in self.rule))
        for rule in self.rule:  # a layer on top may well leave a rule below nothing to decide: that is what it is for
            below = [other for other in self.rule if layers.index(other.layer) <= layers.index(rule.layer) and other is not rule]
            if over := next((other for other in below if other.shadows(rule)), None):
                raise ValueError(f"rule '{rule.id}' is shadowed: rule '{over.id}' applies wherever it does, and decides {over.decision}")
        return self

    def decide(self, action: Action) -> Decision:
        """The strictest rule that applies; deny when none does."""
        found = self.applying(action)
        if not found:
            return Decision("deny", "no-match", f"no rule allows tool '{action.tool}'{f' on {action.path}' if action.path else ''}")
        return Decision(found[0].decision, found[0].id, found[0].reason)

    def applying(self, action: Action) -> list[Rule]:
        """Every rule that has a say, strictest first."""
        return sorted((rule for rule in self.rule if rule.applies(action)), key=lambda rule: -_STRICTNESS.index(rule.decision))

    def approval_of(self, tier: Tier) -> Approval:
        """What approving a change of this tier takes: what every tier up to it asks for."""
        asked = [self.approval[name] for name in TIERS[: TIERS.index(tier) + 1] if name in self.approval]
        return _strictest(asked)

    def with_layer(self, other: "Policy") -> "Policy":
        """This policy and a stricter layer. Raises ValueError for a rule that cannot have an effect."""
        if loose := next((rule for rule in other.rule if rule.decision == "allow"), None):
            raise ValueError(f"rule '{loose.id}' allows: a layer on top can only be stricter than the one below")
        tiers = [tier for tier in TIERS if tier in self.approval or tier in other.approval]
        return Policy(
            isolation=max(self.isolation, other.isolation, key=_ISOLATIONS.index),
            rule=(*self.rule, *other.rule),
            detector=(*self.detector, *other.detector),
            approval={tier: _strictest([layer.approval[tier] for layer in (self, other) if tier in layer.approval]) for tier in tiers},
            never_overridden=tuple(dict.fromkeys((*self.never_overridden, *other.never_overridden))),
        )

    def encoded(self) -> bytes:
        """As it is kept with a session."""
        return canonical.encode(self.model_dump(mode="json"))


def _strictest(asked: list[Approval]) -> Approval:
    checks = dict.fromkeys(check for approval in asked for check in approval.checks)
    return Approval(approvers=max((approval.approvers for approval in asked), default=1), checks=tuple(checks))


SHIPPED = (Path(__file__).with_name("policy.toml"), Path(__file__).with_name("detectors.toml"))
"""The shipped layer: rules and what approvals take, and the detectors of risk."""


def user_file() -> Path:
    """The user's own layer, which may not be there."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "infra-agent" / "policy.toml"


def shipped() -> Policy:
    """The policy that is shipped."""
    rules, detectors = (parse(path.read_text(), str(path), "shipped") for path in SHIPPED)
    return rules.model_copy(update={"detector": detectors.detector})


def for_task(folder: Path | None) -> Policy:
    """What holds for a task: shipped, then the task's ``policy.toml``, then the user's. Raises UsageError naming file and line."""
    found = shipped()
    layers = [("task", folder / "policy.toml")] if folder else []
    for name, path in [*layers, ("user", user_file())]:
        if path.is_file():
            found = add_layer(found, path, name)
    return found


def add_layer(policy: Policy, path: Path, name: str) -> Policy:
    """``policy`` with the stricter one of a file."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    layer = parse(text, str(path), name)
    try:
        return policy.with_layer(layer)
    except ValueError as error:
        raise UsageError(f"{place(str(path), text, error)}: {one_line(error)}") from error


def parse(text: str, where: str, layer: str = "") -> Policy:
    """Read one layer; raises UsageError with the line of a bad key, a failing example or a rule that can never decide."""
    try:
        data = tomllib.loads(text)
        for rule in data.get("rule", []):
            if "layer" in rule:
                raise ValueError("rule.layer: filled in by the loader, not by a file")
            rule["layer"] = layer
        return Policy.model_validate(data)
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"{place(where, text, error)}: {one_line(error)}") from error


def pinned(kept: bytes) -> Policy:
    """The policy that a session keeps; sessions before layers kept the shipped file itself."""
    if not kept.startswith(b"{"):
        return parse(kept.decode(), "the session's policy")
    try:
        return Policy.model_validate_json(kept)
    except ValidationError as error:
        raise UsageError(f"the session's policy: {one_line(error)}") from error


def _show(action: Action) -> dict[str, Any]:
    return action.model_dump(exclude_defaults=True)
