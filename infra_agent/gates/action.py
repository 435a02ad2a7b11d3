"""The action gate: what a tool call would do, in the policy's words."""

from collections.abc import Sequence
from typing import Any

from infra_agent.gates import effects, risk
from infra_agent.gates.policy import Action
from infra_agent.task.patch import FileChange, Line
from infra_agent.task.spec import TaskSpec
from infra_agent.task.tree import matches, plain


def describe(
    tool: str, arguments: dict[str, Any], spec: TaskSpec, base_paths: frozenset[str], detectors: Sequence[risk.Detector] = ()
) -> Action:
    """The action that a tool call is. ``base_paths``: files that exist at base; new test files are welcome."""
    if tool in spec.instruments:
        return Action(tool="@instrument")
    path = str(arguments.get("path", ""))
    known = Action(
        tool=tool,
        path=path,
        scope=plain(path) and matches(path, spec.edit.allow),
        protected=path in base_paths and matches(path, spec.edit.protected),
    )
    if tool == "shell":
        command = str(arguments.get("command", ""))
        return known.model_copy(update={"effects": effects.effects(command), "size": len(command.encode())})
    if tool == "edit":
        change = _change(path, str(arguments.get("old", "")), str(arguments.get("new", "")))
        size = sum(len(line.text) + 1 for line in change.plus)
        return known.model_copy(update={"size": size, "risk": risk.assess([change], detectors).tier})
    return known.model_copy(update={"risk": arguments.get("risk") or "low"})


def _change(path: str, old: str, new: str) -> FileChange:
    """An edit as if it were the whole patch; its lines count from its own first."""
    minus, plus = (tuple(Line(n, line) for n, line in enumerate(text.encode().split(b"\n"), 1)) for text in (old, new))
    gone, come = {line.text for line in minus}, {line.text for line in plus}
    kept = gone & come  # lines that only give the edit its place
    return FileChange(
        path, "changed" if old else "added", (), tuple(line for line in plus if line.text not in kept),
        tuple(line for line in minus if line.text not in kept and old), False,
    )  # fmt: skip
