"""Approve and reject: an approval is bound to what the reviewer saw, and worth nothing when any of it changes."""

import getpass
from collections.abc import Sequence

from infra_agent import canonical
from infra_agent.errors import JudgedError, UsageError
from infra_agent.gates import recompute
from infra_agent.proposal.store import Proposal, find_proposal, person
from infra_agent.session import events
from infra_agent.session.log import SessionLog


def account() -> str:
    """The account that this runs under."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a uid without a name
        return "unknown"


def binding(proposal: Proposal) -> str:
    """Digest over patch, base, policy, evidence, verdict and the proposal's own event.

    Raises JudgedError when the verdict does not follow from its records, BrokenLogError when a record is not what it was.
    """
    session, made = proposal.session, proposal.made
    if proposal.verdict is None:
        raise UsageError(f"{proposal.id} was never judged; its session ended before the gate did")
    verdict = proposal.verdict.verdict
    found = recompute.faults(verdict, made, session.header, session.blobs)
    if found:
        raise JudgedError(f"{proposal.id}: the verdict does not hold: {found[0]}; see: infra-agent replay {session.header.session}")
    evidence = sorted({digest for check in verdict.checks for digest in check.records.values()})
    for digest in (*evidence, made.patch, session.header.policy):
        session.blobs.get(digest)  # raises when the bytes are not what was judged
    bound = {
        "patch": made.patch,
        "base": made.base,
        "policy": session.header.policy,
        "evidence": evidence,
        "verdict": verdict.model_dump(mode="json"),
        "proposal": proposal.entry.hash,
    }
    return canonical.digest_of(bound)


def obstacles(proposal: Proposal) -> dict[str, str]:
    """Check -> why it stands in the way of an approval: it did not pass, or the tier asks for it and it is excused or missing."""
    verdict = proposal.verdict.verdict if proposal.verdict else None
    checks = {check.name: check for check in verdict.checks} if verdict else {}
    found: dict[str, str] = {name: check.status for name, check in checks.items() if check.status != "pass" and not check.excused}
    tier = proposal.risk.tier
    for name in proposal.policy.approval_of(tier).checks:
        if name not in checks or checks[name].status != "pass":
            state = checks[name].status if name in checks else "not a check of this task"
            found.setdefault(name, f"{state}, and a change of {tier} risk must have it")
    return found


def decide(
    name: str, decision: str, reviewer: str, reason: str, overrides: Sequence[str] = (), minutes: float = 0.0
) -> events.ReviewDecided:
    """Record a person's decision on a proposal. The session is locked first: of two who decide at once, one is the second.

    Raises JudgedError when what did not pass is approved without ``overrides``.
    """
    with SessionLog(find_proposal(name).session.folder) as log:
        proposal = find_proposal(name)
        if proposal.merged:
            raise UsageError(f"{proposal.id} is merged already, as {proposal.merged.commit[:12]}")
        if decision == "approve":
            _may_approve(proposal, reviewer, overrides)
        elif overrides:
            raise UsageError("--override goes with an approval: a rejection sets no check aside")
        event = events.ReviewDecided.model_validate(
            {
                "proposal": proposal.id, "decision": decision, "reviewer": " ".join(reviewer.split()), "reason": reason,
                "binding": binding(proposal), "overrides": tuple(overrides), "minutes": minutes, "account": account(),
            }
        )  # fmt: skip
        log.append(event)
    return event


def _may_approve(proposal: Proposal, reviewer: str, overrides: Sequence[str]) -> None:
    if proposal.verdict is None:
        raise JudgedError(f"{proposal.id} unjudged: only a proposal that the gate judged can be approved")
    before = next((review for review in proposal.approvals if person(review.reviewer) == person(reviewer)), None)
    if before and set(before.overrides) == set(overrides) and before.binding == binding(proposal):
        raise UsageError(f"{proposal.id} is approved by {before.reviewer} already; another approval must be another person's")
    standing = obstacles(proposal)
    if firm := [name for name in overrides if name in proposal.policy.never_overridden]:
        raise JudgedError(f"{proposal.id}: the policy lets nobody set check {firm[0]} aside")
    if idle := [name for name in overrides if name not in standing]:
        raise UsageError(f"--override {idle[0]}: that check does not stand in the way; these do: {', '.join(standing) or 'none'}")
    if left := {name: why for name, why in standing.items() if name not in overrides}:
        listed = "; ".join(f"{name} ({why})" for name, why in left.items())
        raise JudgedError(
            f"{proposal.id} {proposal.state}: only a proposal that passed the gate can be approved; in its way: {listed}; "
            f"see: infra-agent review {proposal.id}; to answer for a check by name: --override CHECK --reason TEXT"
        )


def ready(proposal: Proposal) -> None:
    """Raises when a proposal may not be merged: merged already, not approved by as many as its risk takes, or void."""
    if proposal.merged:
        raise UsageError(f"{proposal.id} is merged already, as {proposal.merged.commit[:12]}")
    if not proposal.approvals:
        raise UsageError(f"{proposal.id} is not approved; run: infra-agent approve {proposal.id} --reviewer NAME --reason TEXT")
    bound = binding(proposal)
    if any(review.binding != bound for review in proposal.approvals):
        raise JudgedError(f"{proposal.id}: the approval is void: patch, base, policy, evidence or verdict changed since; approve again")
    wanted, tier = proposal.policy.approval_of(proposal.risk.tier).approvers, proposal.risk.tier
    if len(proposal.approvals) < wanted:
        given = ", ".join(review.reviewer for review in proposal.approvals)
        raise UsageError(f"{proposal.id} is of {tier} risk and takes {wanted} approvers; so far: {given}")
    unanswered = [name for name in obstacles(proposal) for review in proposal.approvals if name not in review.overrides]
    if unanswered:
        raise JudgedError(f"{proposal.id}: check {unanswered[0]} stands in the way and not every approval sets it aside; approve again")
