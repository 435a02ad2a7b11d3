"""``review``, ``approve``, ``reject``, ``merge``: a person's part."""

import sys
from typing import Annotated

import typer

from infra_agent.cli.output import answer, document
from infra_agent.errors import UsageError

Name = Annotated[str, typer.Argument(help="proposal id")]
Reviewer = Annotated[str, typer.Option(help="who decides, by name")]
Reason = Annotated[str, typer.Option(help="why")]
Json = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]


def review(
    proposal: Name,
    as_json: Json = False,
    patch_only: Annotated[bool, typer.Option("--patch-only", help="the patch's bytes and nothing else")] = False,
) -> None:
    """Show a proposal: summary, checks, what was tried and refuted, the change."""
    from infra_agent.proposal.review import render, tried
    from infra_agent.proposal.store import find_proposal

    found = find_proposal(proposal)
    if patch_only:
        sys.stdout.buffer.write(found.session.blobs.get(found.made.patch))
    elif as_json:
        verdict = found.verdict.verdict.model_dump(mode="json") if found.verdict else None
        hypotheses = [t.__dict__ for t in tried(found)]
        document({"id": found.id, "state": found.state, "title": found.made.title, "summary": found.made.summary, "base": found.made.base,
                  "session": found.session.header.session, "verdict": verdict, "hypotheses": hypotheses})  # fmt: skip
    else:
        answer(render(found))


def _decide(proposal: str, decision: str, reviewer: str, reason: str) -> None:
    from infra_agent.proposal.approval import decide
    from infra_agent.proposal.store import find_proposal

    if not reviewer.strip() or not reason.strip():
        raise UsageError("--reviewer and --reason must not be empty: a person answers for this by name")
    found = find_proposal(proposal, whole=True)
    event = decide(found, decision, reviewer, reason)
    answer(f"{found.id}: {event.decision}d by {event.reviewer}, bound to {event.binding[:16]}")


def approve(proposal: Name, reviewer: Reviewer, reason: Reason) -> None:
    """Approve a proposal that passed the gate; the approval binds to its patch, base, policy, evidence and verdict."""
    from infra_agent.experience.lesson import lesson_of
    from infra_agent.experience.store import Experience
    from infra_agent.proposal.store import find_proposal
    from infra_agent.share import home

    _decide(proposal, "approve", reviewer, reason)
    lesson = lesson_of(find_proposal(proposal, whole=True), reviewer, reason)
    Experience(home()).keep(lesson)
    answer(f"Learnt: {lesson.id} (infra-agent experience show {lesson.id})\nMerge:  infra-agent merge {proposal}")


def reject(proposal: Name, reviewer: Reviewer, reason: Reason) -> None:
    """Reject a proposal."""
    from infra_agent.proposal.store import find_proposal

    if find_proposal(proposal).verdict is None:
        raise UsageError(f"{proposal} was never judged: there is nothing to reject")
    _decide(proposal, "reject", reviewer, reason)


def merge(
    proposal: Name, into: Annotated[str, typer.Option(help="branch of the task's repository")] = "main", as_json: Json = False
) -> None:
    """Commit an approved proposal. Refused when anything the approval binds to has changed."""
    from infra_agent.proposal.approval import merge as merge_proposal
    from infra_agent.proposal.store import find_proposal
    from infra_agent.share import home

    found = find_proposal(proposal, whole=True)
    merged = merge_proposal(found.id, home(), into)
    repository = home() / "repos" / f"{found.session.header.task}.git"
    if as_json:
        document({"proposal": found.id, "commit": merged.commit, "branch": merged.branch, "repository": str(repository)})
    else:
        answer(
            f"{found.id} merged into {merged.branch} as {merged.commit[:12]}\nSee:  git --git-dir {repository} show {merged.commit[:12]}"
        )
