"""A check, and the verdict made of checks. Missing is never a pass; no status is folded into another."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from infra_agent.session.observation import Finding, Status, Trust, Where

Decision = Literal["pass", "fail", "inconclusive"]
_ORDER: tuple[Status, ...] = ("fail", "inconclusive", "not_run")


class Check(BaseModel):
    """One question of the gate and its answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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


class Verdict(BaseModel):
    """What the gate decided, and what kind of evidence it decided on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    decision: Decision
    level: Literal["L0", "L1", "L2"]
    isolation: str
    platform: str
    checks: tuple[Check, ...]


def decide(checks: tuple[Check, ...]) -> Decision:
    """The worst of the checks in the order fail > inconclusive > not_run > pass; an undecided one is inconclusive."""
    required = {check.status for check in checks if not (check.excused and check.status == "not_run")}
    if "fail" in required:
        return "fail"
    return "pass" if required == {"pass"} else "inconclusive"


def first_failure(checks: tuple[Check, ...]) -> Check | None:
    """The check that a reader should look at first."""
    return next((check for status in _ORDER for check in checks if check.status == status and not check.excused), None)
