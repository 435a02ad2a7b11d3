"""Approve, reject, merge: an approval is bound to what the reviewer saw, and worth nothing when any of it changes."""

from pathlib import Path

from infra_agent import canonical
from infra_agent.errors import JudgedError, UsageError
from infra_agent.gates import recompute
from infra_agent.proposal.store import Proposal, find_proposal
from infra_agent.session import events
from infra_agent.session.log import SessionLog
from infra_agent.task.repository import BRANCH, Repository

_ELSEWHERE = "merge into a new branch: --into NAME"


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


def merge(name: str, home: Path, into: str = BRANCH) -> events.Merged:
    """Commit an approved proposal onto a branch. Raises when there is no approval, or it no longer binds.

    The session is locked before anything is read, so that two merges of one proposal cannot both happen.
    """
    with SessionLog(find_proposal(name).session.folder) as log:
        proposal = find_proposal(name)
        review = proposal.review
        if proposal.merged:
            raise UsageError(f"{proposal.id} is merged already, as {proposal.merged.commit[:12]}")
        if review is None or review.decision != "approve":
            raise UsageError(f"{proposal.id} is not approved; run: infra-agent approve {proposal.id} --reviewer NAME --reason TEXT")
        if review.binding != binding(proposal):
            raise JudgedError(f"{proposal.id}: the approval is void: patch, base, policy, evidence or verdict changed since; approve again")
        commit = _commit(proposal, Repository(home / "repos" / f"{proposal.session.header.task}.git"), into)
        event = events.Merged(proposal=proposal.id, commit=commit, branch=into)
        log.append(event)
    return event


def _commit(proposal: Proposal, repository: Repository, into: str) -> str:
    """Move the branch to a commit whose tree is the one that was judged; a branch that does not exist starts at base."""
    made = proposal.made
    head = repository.branch(into)
    judged = repository.apply(made.base, proposal.session.blobs.get(made.patch))
    parent = head or made.base
    if not repository.contains(parent, made.base):
        raise UsageError(f"branch '{into}' does not contain base {made.base[:12]}: the workspace changed; {_ELSEWHERE}")
    if repository.tree_of(parent) == judged and head is not None:
        raise UsageError(f"branch '{into}' has these files already; there is nothing to merge")
    change = repository.commit_tree(judged, [made.base], _message(proposal))
    if repository.merge(parent, change) != judged:
        raise JudgedError(f"branch '{into}' moved since base {made.base[:12]}: the merged files were never judged; {_ELSEWHERE}")
    commit = repository.commit_tree(judged, [parent], _message(proposal))
    repository.move_branch(into, commit, head)
    return commit


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
