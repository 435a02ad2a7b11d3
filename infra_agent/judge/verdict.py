"""From checks to a decision."""

from infra_agent.session.observation import Status
from infra_agent.session.verdict import Check, Decision

_ORDER: tuple[Status, ...] = ("fail", "inconclusive", "not_run")


def decide(checks: tuple[Check, ...]) -> Decision:
    """The worst of the checks in the order fail > inconclusive > not_run > pass; an undecided one is inconclusive."""
    required = {check.status for check in checks if not (check.excused and check.status == "not_run")}
    if "fail" in required:
        return "fail"
    return "pass" if required == {"pass"} else "inconclusive"


def first_failure(checks: tuple[Check, ...]) -> Check | None:
    """The check that a reader should look at first."""
    return next((check for status in _ORDER for check in checks if check.status == status and not check.excused), None)
