"""Figures against their limits, as judged instruments print them. Pure: from what a tool said to how far each limit is missed."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from infra_agent.models.playbook.transcript import Step

LATER = ("credited@", "microbench.")
"""How limits begin that are asked only when all others hold: where they are not asked, what was last said of them stands."""
_TINY, _MOST = 1e-30, math.log(1e6)
_GROWTH = re.compile(r"error of (?P<stage>\S+) may grow at most (?P<most>\S+) times from case (?P<start>\S+) to case (?P<to>[^\s;,]+)")
_OVER = re.compile(r"^(?P<case>[^:\n]+): stage (?P<stage>\w+).*: relative error (?P<value>\S+), limit (?P<limit>\S+)", re.MULTILINE)
_PEAK = re.compile(r"^(?P<case>[^:\n]+): stage (?P<stage>\w+).*, (?P<over>\S+) times the limit for one", re.MULTILINE)


@dataclass
class Look:
    """What the judged instruments said of one setting, on one draw of contents."""

    tools: list[str] = field(default_factory=list)
    figures: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Name -> (figure, limit); larger figures are worse."""

    def add(self, step: Step) -> None:
        """Read one observation."""
        self.tools.append(step.tool)
        found: dict[str, tuple[float, float]] = {}
        for name, (value, target) in step.metrics.items():
            if name.startswith("error.") and target is not None:
                found[name] = (value, target)
            elif name.startswith("credited@"):
                slower = 1.0 / max(value, _TINY)
                found[name] = (slower if step.status == "fail" else min(slower, 1.0), 1.0)
        for match in _OVER.finditer(step.text):  # the list of metrics may be cut short; what fails is listed as well
            found.setdefault(f"error.{match['stage']}@{match['case']}", (float(match["value"]), float(match["limit"])))
        for match in _PEAK.finditer(step.text):
            found[f"peak.{match['stage']}@{match['case']}"] = (float(match["over"]), 1.0)
        if step.status != "pass" and all(value <= limit for value, limit in found.values()):
            found[f"{step.tool}.{step.kind or step.status}"] = (1e6, 1.0)  # it crashed, or failed in a way that has no figure
        self.figures |= found

    def limits(self, brief: str) -> dict[str, float]:
        """Limit -> ln(figure / limit): above 0 it fails. Limits on growth, which the brief states, are among them."""
        found = {name: _over(value, limit) for name, (value, limit) in self.figures.items()}
        for match in _GROWTH.finditer(brief):
            start, to = (self.figures.get(f"error.{match['stage']}@{match[case]}") for case in ("start", "to"))
            if start and to:
                found[f"growth.{match['stage']}"] = _over(to[0] / max(start[0], _TINY), float(match["most"]))
        return found


def _over(value: float, limit: float) -> float:
    return max(-_MOST, min(_MOST, math.log(max(value, _TINY) / max(limit, _TINY))))


def excess(limits: Mapping[str, float]) -> float:
    """How far the limits that fail are missed, summed; infinite where nothing was measured."""
    return sum(over for over in limits.values() if over > 0) if limits else math.inf


def hold(limits: Mapping[str, float]) -> bool:
    """Every limit that was measured, and there is one."""
    return bool(limits) and excess(limits) == 0
