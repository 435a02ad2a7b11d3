"""A conversation as the playbook reads it: tool calls with their answers, parsed from the text every model sees."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infra_agent.session.context import Message

_HEAD = re.compile(r"^\[(?P<action>a-\d+)\] (?P<tool>\S+): (?P<status>pass|fail|inconclusive|not_run)(?: \((?P<kind>[^)]*)\))?")
_METRIC = re.compile(r"^(?P<name>\S+) = (?P<value>\S+)(?: \S+)??(?: \[[^\]]*\])?(?: \(target (?P<target>\S+)\))?$", re.MULTILINE)
_LINE_FINDING = re.compile(r"^(?P<path>[^\s:]+):(?P<line>\d+): (?P<kind>[a-z_]+): (?P<message>.*)$", re.MULTILINE)


Call = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


@dataclass(frozen=True)
class Given:
    """What frames a conversation: the first user message, and the tools there are."""

    brief: str
    offered: frozenset[str]


@dataclass(frozen=True)
class LineFinding:
    """A finding that names a source line."""

    path: str
    line: int
    kind: str
    message: str


@dataclass(frozen=True)
class Step:
    """One tool call and what came back."""

    tool: str
    arguments: dict[str, Any]
    action: str
    status: str
    kind: str
    text: str

    @property
    def metrics(self) -> dict[str, tuple[float, float | None]]:
        """Metric name -> (value, target)."""
        found = {}
        for match in _METRIC.finditer(self.text):
            target = match["target"]
            found[match["name"]] = (float(match["value"]), float(target) if target else None)
        return found

    @property
    def line_findings(self) -> list[LineFinding]:
        """Findings that name a line, as printed."""
        return [LineFinding(m["path"], int(m["line"]), m["kind"], m["message"]) for m in _LINE_FINDING.finditer(self.text)]

    @property
    def file_lines(self) -> dict[int, str]:
        """Numbered lines of a ``view``."""
        rows = (re.match(r"^\s*(\d+) ?(.*)$", row) for row in self.text.splitlines()[1:])
        return {int(row[1]): row[2] for row in rows if row}


def steps(messages: Sequence[Message]) -> list[Step]:
    """Every answered tool call, in order."""
    calls = {call.id: call for message in messages for call in message.tool_calls}
    listed = []
    for message in messages:
        if message.role != "tool" or message.call not in calls:
            continue
        head = _HEAD.match(message.text)
        if head is None:
            continue
        call = calls[message.call]
        listed.append(Step(call.name, json.loads(call.arguments), head["action"], head["status"], head["kind"] or "", message.text))
    return listed
