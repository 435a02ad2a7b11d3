"""Approve, reject, merge: an approval is bound to what the reviewer saw, and worth nothing when any of it changes."""

from pathlib import Path

from infra_agent import canonical
from infra_agent.errors import JudgedError, UsageError
from infra_agent.proposal.store import Proposal
from infra_agent.session import events
from infra_agent.session.log import SessionLog
from infra_agent.task.repository import BRANCH, Repository


def binding(proposal: Proposal) -> str:
    """Digest over patch, base, policy, evidence and the proposal's own event. Reads every blob it binds to."""
    blobs = proposal.session.blobs
    if proposal.verdict is None:
        raise UsageError(f"{proposal.id} was never judged; run: infra-agent gate")
    evidence = sorted({digest for check in proposal.verdict.verdict.checks for digest in check.records.values()})
    for digest in (*evidence, proposal.made.patch, proposal.session.header.policy):
        blobs.get(digest)  # raises when the bytes are not what was judged
    bound = {
        "patch": proposal.made.patch,
        "base": proposal.made.base,
        "policy": proposal.session.header.policy,
        "evidence": evidence,
        "verdict": proposal.verdict.verdict.model_dump(mode="json"),
        "proposal": proposal.entry.hash,
    }
    return canonical.digest_of(bound)


def decide(proposal: Proposal, decision: str, reviewer: str, reason: str) -> events.ReviewDecided:
    """Record a person's decision. Raises JudgedError when a proposal that did not pass is approved."""
    if proposal.merged:
        raise UsageError(f"{proposal.id} is merged already, as {proposal.merged.commit[:12]}")
    if decision == "approve" and (proposal.verdict is None or proposal.verdict.verdict.decision != "pass"):
        state = proposal.state
        raise JudgedError(
            f"{proposal.id} {state}: only a proposal that passed the gate can be approved; see: infra-agent review {proposal.id}"
        )
    event = events.ReviewDecided.model_validate(
        {"proposal": proposal.id, "decision": decision, "reviewer": reviewer, "reason": reason, "binding": binding(proposal)}
    )
    with SessionLog(proposal.session.folder) as log:
        log.append(event)
    return event


def merge(proposal: Proposal, home: Path, into: str = BRANCH) -> events.Merged:
    """Commit an approved proposal onto a branch. Raises when there is no approval, or it no longer binds."""
    if proposal.merged:
        raise UsageError(f"{proposal.id} is merged already, as {proposal.merged.commit[:12]}")
    review = proposal.review
    if review is None or review.decision != "approve":
        raise UsageError(f"{proposal.id} is not approved; run: infra-agent approve {proposal.id} --reviewer NAME --reason TEXT")
    if review.binding != binding(proposal):
        raise JudgedError(
            f"{proposal.id}: the approval is void: patch, base, policy, evidence or verdict changed since; review and approve again"
        )
    repository = Repository(home / "repos" / f"{proposal.session.header.task}.git")
    head = repository.branch(into)
    if head is None:
        raise UsageError(f"branch '{into}' does not exist in {repository.folder}")
    patch = proposal.session.blobs.get(proposal.made.patch)
    change = repository.commit_tree(repository.apply(proposal.made.base, patch), [proposal.made.base], _message(proposal))
    tree = repository.merge(head, change)
    commit = repository.commit_tree(tree, [head], _message(proposal))
    repository.move_branch(into, commit, head)
    event = events.Merged(proposal=proposal.id, commit=commit, branch=into)
    with SessionLog(proposal.session.folder) as log:
        log.append(event)
    return event


def _message(proposal: Proposal) -> str:
    """Title, summary and trailers of the commit."""
    header, review = proposal.session.header, proposal.review
    assert review is not None
    trailers = [
        f"Infra-Agent-Session: {header.session}",
        f"Infra-Agent-Proposal: {proposal.id}",
        f"Infra-Agent-Evidence: sha256:{review.binding}",
        f"Reviewed-by: {review.reviewer}",
        f"Assisted-by: infra-agent ({header.driver})",
    ]
    return f"{proposal.made.title}\n\n{proposal.made.summary}\n\n" + "\n".join(trailers) + "\n"
