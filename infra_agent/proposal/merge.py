"""Merge: an approved proposal becomes an ordinary commit on a branch. No working tree and no index of anybody's is touched."""

import re
from dataclasses import dataclass
from pathlib import Path

from infra_agent import canonical
from infra_agent.errors import JudgedError, UsageError
from infra_agent.gates.proposal import ProposalGate
from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.proposal.approval import ready
from infra_agent.proposal.store import Proposal, find_proposal
from infra_agent.session import events
from infra_agent.session.log import SessionLog
from infra_agent.task.load import Task, load
from infra_agent.task.repository import BRANCH, Repository

_ELSEWHERE = "merge into a new branch: --into NAME"
_CALLS = re.compile(r"((?<!\w)@(?=\w)|#(?=\d)|\bGH-(?=\d)|/(?=(?:issues|pull)/\d))", re.IGNORECASE)
"""Where a mention of a person or an issue begins: ``@name``, ``#3``, ``GH-3``, ``…/issues/3``."""
_TRAILER = "Infra-Agent-Proposal"


@dataclass(frozen=True)
class Target:
    """Where to merge, and how to judge merged files that nobody judged yet."""

    home: Path
    into: str = BRANCH
    task: str = ""
    """The task's folder, where its id alone does not find it."""
    sandbox: str = "auto"


def merge(name: str, target: Target) -> events.Merged:
    """Commit an approved proposal onto a branch. Raises when it is not approved, no longer as approved, or does not merge cleanly.

    The session is locked before anything is read, so that two merges of one proposal cannot both happen; the branch moves only if it is
    still where it was. A merge that broke off after that is found by its commit and recorded.
    """
    with SessionLog(find_proposal(name).session.folder) as log:
        proposal = find_proposal(name)
        ready(proposal)
        repository = Repository(target.home / "repos" / f"{proposal.session.header.task}.git")
        head = repository.branch(target.into)
        if head is not None and f"{_TRAILER}: {proposal.id}" in repository.message(head).splitlines():
            return _record(log, proposal, head, target.into, _checked_before(log, proposal, repository, head))
        parent, tree = head or proposal.made.base, _merged_tree(proposal, repository, head, target.into)
        moved = tree != repository.apply(proposal.made.base, proposal.session.blobs.get(proposal.made.patch))
        checked = _judge_again(proposal, repository, log, parent, tree, target) if moved else ""
        commit = repository.commit_tree(tree, [parent], message(proposal))
        try:
            repository.move_branch(target.into, commit, head)
        except UsageError as error:
            raise UsageError(
                f"branch '{target.into}' moved while {proposal.id} was being merged; nothing was changed, merge again"
            ) from error
        return _record(log, proposal, commit, target.into, checked)


def _record(log: SessionLog, proposal: Proposal, commit: str, branch: str, checked: str) -> events.Merged:
    event = events.Merged(proposal=proposal.id, commit=commit, branch=branch, checked=checked)
    log.append(event)
    return event


def _checked_before(log: SessionLog, proposal: Proposal, repository: Repository, commit: str) -> str:
    """The check by which a merge that broke off had passed: that of the files which the commit has, on the commit before it."""
    parent = repository.git("rev-parse", f"{commit}^").decode().strip()
    for entry in reversed(log.entries):
        found = entry.event
        if isinstance(found, events.MergeChecked) and found.proposal == proposal.id and found.head == parent:
            return entry.hash
    return ""


def _merged_tree(proposal: Proposal, repository: Repository, head: str | None, into: str) -> str:
    """The tree of a clean three-way merge; a branch that does not exist starts at base."""
    made = proposal.made
    judged = repository.apply(made.base, proposal.session.blobs.get(made.patch))
    if head is None:
        return judged
    if not repository.contains(head, made.base):
        raise UsageError(f"branch '{into}' does not contain base {made.base[:12]}: the workspace changed; {_ELSEWHERE}")
    tree = repository.merge(head, repository.commit_tree(judged, [made.base], "judged\n"))
    if tree == repository.tree_of(head):
        raise UsageError(f"branch '{into}' has these files already; there is nothing to merge")
    return tree


def _judge_again(proposal: Proposal, repository: Repository, log: SessionLog, parent: str, tree: str, target: Target) -> str:
    """The branch moved: the gate runs on the merged files, with the branch as base and a new secret; the hash of what it said.

    Raises JudgedError unless they pass.
    """
    task = _task(proposal, target)
    secret = seeds.new_secret()
    with Collector(task, secret, target.sandbox) as collector:
        gate = ProposalGate(collector, repository, parent, log.blobs.put, least=proposal.policy.isolation)
        judged = gate.judge(repository.diff(parent, tree))
        files = {path: canonical.digest(data) for path, data in gate.base_tree().items()}
    checked = events.MergeChecked(
        proposal=proposal.id, head=parent, files=log.blobs.put(canonical.encode(files)), patch=log.blobs.put(judged.patch),
        verdict=judged.verdict, seconds=round(judged.seconds, 3), secret=secret.hex(),
    )  # fmt: skip
    said = log.append(checked)
    fallen = [
        check for check in judged.verdict.checks if check.status != "pass" and not check.excused and check.name not in proposal.overrides
    ]
    if fallen:
        raise JudgedError(
            f"branch '{target.into}' moved since base {proposal.made.base[:12]}, and with its files {proposal.id} does not pass: "
            f"{fallen[0].name} {fallen[0].status}: {' '.join(fallen[0].message.split())[-300:]}; {_ELSEWHERE}"
        )
    return said.hash


def _task(proposal: Proposal, target: Target) -> Task:
    header = proposal.session.header
    task = load(target.task or header.task)
    if task.digest != header.task_digest:
        raise UsageError(
            f"task {header.task} is not what it was when {proposal.id} was made, and branch '{target.into}' moved; {_ELSEWHERE}"
        )
    return task


def message(proposal: Proposal) -> str:
    """Title, summary and trailers of the commit."""
    header = proposal.session.header
    trailers = [
        f"Infra-Agent-Session: {header.session}",
        f"{_TRAILER}: {proposal.id}",
        f"Infra-Agent-Evidence: sha256:{proposal.approvals[-1].binding}",
        *(f"Infra-Agent-Override: {name}" for name in proposal.overrides),
        *(f"Reviewed-by: {review.reviewer}" for review in proposal.approvals),
        f"Assisted-by: infra-agent ({header.driver})",
    ]
    return f"{_calling_nobody(proposal.made.title)}\n\n{_calling_nobody(proposal.made.summary)}\n\n" + "\n".join(trailers) + "\n"


def _calling_nobody(text: str) -> str:
    """A model's words without what a forge acts on: no name is called, no issue closed, by a commit that arrives there."""
    return _CALLS.sub(r"\1 ", text)
