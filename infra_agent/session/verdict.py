"""A check, and the verdict made of checks. Missing is never a pass; no status is folded into another."""

from typing import Literal

from pydantic import Field

from infra_agent.frozen import Frozen
from infra_agent.session.observation import Finding, Isolation, Status, Trust, Where

Decision = Literal["pass", "fail", "inconclusive"]


class Check(Frozen):
    """One question of the gate and its answer."""

    name: str
    status: Status
    kind: str | None = None
    """Why it failed; one of the kinds of DESIGN section 4."""
    trust: Trust
    figure: str = ""
    where: Where | None = None
    message: str
    findings: tuple[Finding, ...] = ()
    records: dict[str, str] = Field(default_factory=dict)
    """Name -> digest of the judge-written record this check is recomputed from."""
    excused: bool = False
    """True when the task says that this check may stay undecided on this platform."""


class Verdict(Frozen):
    """What the gate decided, and what kind of evidence it decided on."""

    decision: Decision
    level: Literal["L0", "L1", "L2"]
    isolation: Isolation
    platform: str
    checks: tuple[Check, ...]

    @property
    def basis(self) -> str:
        """What kind of evidence it stands on, printed with every verdict."""
        return f"evidence {self.level}, isolation {self.isolation}, platform {self.platform}"
