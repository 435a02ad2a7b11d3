"""``review``, ``approve``, ``reject``, ``merge``: a person's part."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from infra_agent.cli.output import Sandbox, answer, document, page, progress
from infra_agent.errors import UsageError

if TYPE_CHECKING:
    from infra_agent.proposal.store import Proposal

Name = Annotated[str, typer.Argument(help="proposal id")]
Waiting = Annotated[str, typer.Argument(metavar="PROPOSAL|ACTION", help="proposal id, or a waiting action: SESSION/a-N, or a-N alone")]
Reviewer = Annotated[str, typer.Option(help="who decides, by name")]
Reason = Annotated[str, typer.Option(help="why")]
Minutes = Annotated[float, typer.Option(min=0, help="of your time that it took; shown with the review")]
TaskFolder = Annotated[str, typer.Option("--task", help="the task's folder, where its id alone does not find it")]
Json = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]


def review(
    proposal: Name,
    as_json: Json = False,
    patch_only: Annotated[bool, typer.Option("--patch-only", help="the patch's bytes and nothing else")] = False,
    again: Annotated[
        bool, typer.Option("--rerun", help="judge it again in fresh cages and say what moved; exit as the new verdict")
    ] = False,
    task: TaskFolder = "",
    sandbox: Sandbox = "auto",
) -> None:
    """Show a proposal: summary, risk, checks, figures before and after, what was tried and refuted, the change."""
    from infra_agent.proposal.review import render
    from infra_agent.proposal.store import find_proposal

    found = find_proposal(proposal)
    if patch_only:
        sys.stdout.buffer.write(found.session.blobs.get(found.made.patch))
    elif again:
        _judge_again(found, task, sandbox, as_json)
    elif as_json:
        document(_as_dict(found))
    else:
        page(render(found))


def _as_dict(found: "Proposal") -> dict[str, object]:
    from infra_agent.proposal.approval import obstacles
    from infra_agent.proposal.review import figures, tried

    return {
        "id": found.id, "state": found.state, "title": found.made.title, "summary": found.made.summary, "base": found.made.base,
        "session": found.session.header.session, "verdict": found.verdict.verdict.model_dump(mode="json") if found.verdict else None,
        "hypotheses": [t.__dict__ for t in tried(found)], "figures": [f.__dict__ for f in figures(found)],
        "risk": found.risk.model_dump(mode="json"), "approval": found.policy.approval_of(found.risk.tier).model_dump(mode="json"),
        "in_the_way": obstacles(found), "reviews": [review.model_dump(mode="json") for review in found.reviews],
    }  # fmt: skip


def _judge_again(found: "Proposal", task: str, sandbox: str, as_json: bool) -> None:
    from infra_agent.agent.loop import EXIT
    from infra_agent.proposal.rerun import rerun
    from infra_agent.proposal.review import check_line, moved
    from infra_agent.share import home

    if found.verdict is None:
        raise UsageError(f"{found.id} was never judged: there is nothing to compare with; infra-agent gate judges any patch")
    verdict = rerun(found, home(), task, sandbox, lambda check: progress(check_line(check))).verdict
    changed = moved(found.verdict.verdict, verdict)
    if as_json:
        document(
            {"proposal": found.id, "moved": changed, "recorded": found.verdict.verdict.decision, "verdict": verdict.model_dump(mode="json")}
        )
    else:
        answer("\n".join([f"{verdict.decision}   {verdict.basis}", *([f"moved  {line}" for line in changed] or ["nothing moved"])]))
    raise typer.Exit(EXIT[verdict.decision])


def approve(
    name: Waiting,
    reviewer: Reviewer,
    reason: Reason,
    override: Annotated[
        list[str] | None, typer.Option(help="a check that did not pass and that you answer for; may be given more than once")
    ] = None,
    minutes: Minutes = 0.0,
) -> None:
    """Approve a proposal, or an action that waits. A proposal's approval binds to its patch, base, policy, evidence and verdict."""
    from infra_agent.experience.lesson import lesson_of
    from infra_agent.experience.store import Experience
    from infra_agent.proposal.parked import names_action
    from infra_agent.proposal.store import find_proposal
    from infra_agent.share import home

    if names_action(name):
        if override:
            raise UsageError("--override names a check of a proposal; an action has none")
        _decide_action(name, "approve", reviewer, reason, minutes)
        return
    _decide(name, "approve", reviewer, reason, override or [], minutes)
    found = find_proposal(name, whole=True)
    lesson = lesson_of(found, reviewer, reason)
    Experience(home()).keep(lesson)
    after = f"Merge:  infra-agent merge {name}" if found.state == "approved" else f"{found.state}: another person's approval is needed"
    answer(f"Learnt: {lesson.id} (infra-agent experience show {lesson.id})\n{after}")


def reject(name: Waiting, reviewer: Reviewer, reason: Reason, minutes: Minutes = 0.0) -> None:
    """Reject a proposal, or an action that waits."""
    from infra_agent.proposal.parked import names_action
    from infra_agent.proposal.store import find_proposal

    if names_action(name):
        _decide_action(name, "reject", reviewer, reason, minutes)
        return
    if find_proposal(name).verdict is None:
        raise UsageError(f"{name} was never judged: there is nothing to reject")
    _decide(name, "reject", reviewer, reason, [], minutes)


def _named(reviewer: str, reason: str) -> None:
    if not reviewer.strip() or not reason.strip():
        raise UsageError("--reviewer and --reason must not be empty: a person answers for this by name")


def _decide(proposal: str, decision: str, reviewer: str, reason: str, overrides: list[str], minutes: float) -> None:
    from infra_agent.proposal.approval import decide
    from infra_agent.proposal.store import find_proposal

    _named(reviewer, reason)
    found = find_proposal(proposal, whole=True)
    event = decide(found.id, decision, reviewer, reason, overrides, minutes)
    aside = f", setting aside {', '.join(overrides)}" if overrides else ""
    answer(f"{found.id}: {event.decision}d by {event.reviewer}{aside}, bound to {event.binding[:16]}")


def _decide_action(name: str, decision: str, reviewer: str, reason: str, minutes: float) -> None:
    from infra_agent.proposal.parked import decide

    _named(reviewer, reason)
    parked = decide(name, "approve" if decision == "approve" else "reject", reviewer, reason, minutes)
    answer(f"{parked.name} ({parked.proposed.tool}): {decision}d by {reviewer}\nGo on:  infra-agent resume {parked.session.header.session}")


def merge(
    proposal: Name,
    into: Annotated[str, typer.Option(help="branch of the task's repository")] = "main",
    task: TaskFolder = "",
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Commit an approved proposal. Refused when anything the approval binds to has changed; judged again when the branch has moved."""
    from infra_agent.proposal.merge import Target
    from infra_agent.proposal.merge import merge as merge_proposal
    from infra_agent.proposal.store import find_proposal
    from infra_agent.share import home

    found = find_proposal(proposal, whole=True)
    merged = merge_proposal(found.id, Target(home(), into, task, sandbox))
    repository = home() / "repos" / f"{found.session.header.task}.git"
    if as_json:
        document({"proposal": found.id, "commit": merged.commit, "branch": merged.branch, "repository": str(repository)})
    else:
        answer(
            f"{found.id} merged into {merged.branch} as {merged.commit[:12]}\nSee:  git --git-dir {repository} show {merged.commit[:12]}"
        )
