"""The action gate: what a tool call would touch, in the policy's words."""

from typing import Any

from infra_agent.gates.policy import Action
from infra_agent.task.spec import TaskSpec
from infra_agent.task.tree import matches, plain


def describe(tool: str, arguments: dict[str, Any], spec: TaskSpec, base_paths: frozenset[str]) -> Action:
    """The action that a tool call is. ``base_paths``: files that exist at base; new test files are welcome."""
    if tool in spec.instruments:
        return Action(tool="@instrument")
    path = str(arguments.get("path", ""))
    protected = path in base_paths and matches(path, spec.edit.protected)
    return Action(tool=tool, path=path, scope=plain(path) and matches(path, spec.edit.allow), protected=protected)
