"""The action gate: what a tool call would touch, in the policy's words."""

from pathlib import PurePosixPath
from typing import Any

from infra_agent.gates.policy import Action
from infra_agent.task.spec import TaskSpec
from infra_agent.task.tree import matches


def describe(tool: str, arguments: dict[str, Any], spec: TaskSpec, base_paths: frozenset[str]) -> Action:
    """The action that a tool call is. ``base_paths``: files that exist at base; new test files are welcome."""
    if tool in spec.instruments:
        return Action(tool="@instrument")
    path = str(arguments.get("path", ""))
    clean = not PurePosixPath(path).is_absolute() and ".." not in PurePosixPath(path).parts and "\0" not in path
    protected = path in base_paths and matches(path, spec.edit.protected)
    return Action(tool=tool, path=path, scope=clean and matches(path, spec.edit.allow), protected=protected)
