"""Push: an approved proposal as one commit on a branch of somebody's repository. Never forced; a second push completes a broken one."""

import base64
import hashlib
import os
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from infra_agent.errors import UsageError
from infra_agent.proposal import pull_request
from infra_agent.proposal.approval import ready
from infra_agent.proposal.forge import Forge, PullRequest, refuse_credentials
from infra_agent.proposal.merge import message
from infra_agent.proposal.store import Proposal
from infra_agent.session import events
from infra_agent.session.log import SessionLog
from infra_agent.task.repository import ConflictError, PatchError, Repository

_TEMPLATES = ("pull_request_template.md", ".github/pull_request_template.md", "docs/pull_request_template.md")
_LOOPBACK = ("127.0.0.1", "::1")


@dataclass(frozen=True)
class Destination:
    """Where to push. Raises UsageError for an address with credentials, without showing it."""

    remote: str
    """A path or an address, without credentials."""
    onto: str = "main"
    """The branch that the pull request is for."""
    prefix: str = ""
    """The folder of that repository that the task's workspace is."""
    duplicates: str = ""
    """What a person says of their search for duplicates."""
    secret: str = ""
    """A token for https, of this remote's own forge; it goes through git's environment, never through arguments or files."""

    def __post_init__(self) -> None:
        refuse_credentials(self.remote)

    @property
    def environment(self) -> dict[str, str]:
        """What git needs to reach it; ssh, too, fails rather than asks."""
        kept = {name: os.environ[name] for name in ("HOME", "SSH_AUTH_SOCK") if name in os.environ}
        kept["GIT_SSH_COMMAND"] = f"{os.environ.get('GIT_SSH_COMMAND') or 'ssh'} -oBatchMode=yes"
        parts = urlsplit(self.remote) if "://" in self.remote else None
        private = parts is not None and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK))
        if not self.secret or parts is None or not private:
            return kept
        basic = base64.b64encode(f"x-access-token:{self.secret}".encode()).decode()
        header = f"http.{parts.scheme}://{parts.netloc}/.extraHeader"
        settings = {header: f"Authorization: Basic {basic}", "http.followRedirects": "false"}  # no other host gets it
        pairs = {f"GIT_CONFIG_{part}_{n}": item[at] for n, item in enumerate(settings.items()) for at, part in enumerate(("KEY", "VALUE"))}
        return kept | {"GIT_CONFIG_COUNT": str(len(settings)), **pairs}


@dataclass(frozen=True)
class Prepared:
    """What would be pushed."""

    commit: str
    head: str
    """The commit of the target branch that it is on."""
    branch: str
    onto: str
    title: str
    body: str

    @property
    def refspec(self) -> str:
        """Exactly one reference; without ``+`` git forces nothing."""
        return f"{self.commit}:refs/heads/{self.branch}"


def prepare(proposal: Proposal, repository: Repository, to: Destination) -> Prepared:
    """Fetch the target branch and make the commit; nothing leaves this machine. Raises ConflictError where the change does not fit there.

    The commit depends on the proposal, its last approval and the target alone, so a second push makes the same one.
    """
    ready(proposal)
    head = _fetch(repository, to, to.onto)
    try:
        commit = _commit_on(head, proposal, repository, to.prefix)
    except PatchError as error:
        where = f"{to.onto} of {to.remote}{f' under {to.prefix}' if to.prefix else ''}"
        raise ConflictError(f"{proposal.id} does not fit onto {where}: {error}; rebase the task, or give --prefix") from error
    if repository.tree_of(commit) == repository.tree_of(head):
        raise UsageError(f"{to.onto} of {to.remote} has this change already; there is nothing to push")
    text = pull_request.body(proposal, to.duplicates, _template(repository, head))
    return Prepared(commit, head, f"infra-agent/{proposal.id}", to.onto, proposal.made.title, text)


def _fetch(repository: Repository, to: Destination, branch: str) -> str:
    """The commit of a branch of the remote. Each remote and branch has a reference of its own: pushes of one task run at once."""
    name = hashlib.sha256(f"{to.remote}\n{branch}".encode()).hexdigest()[:16]
    kept = f"refs/infra-agent/remote/{name}"
    repository.git("fetch", "--quiet", "--no-tags", "--", to.remote, f"+refs/heads/{branch}:{kept}", also=to.environment)
    return repository.git("rev-parse", kept).decode().strip()


def _commit_on(head: str, proposal: Proposal, repository: Repository, prefix: str) -> str:
    """The one commit that the proposal is on ``head``. Raises PatchError where it does not fit."""
    how = ["--3way", *([f"--directory={prefix}"] if prefix else [])]
    tree = repository.apply(head, proposal.session.blobs.get(proposal.made.patch), *how)
    return repository.commit_tree(tree, [head], message(proposal), dates=_approved_at(proposal))


def _approved_at(proposal: Proposal) -> str:
    last = next(
        e for e in reversed(proposal.session.entries) if isinstance(e.event, events.ReviewDecided) and e.event.proposal == proposal.id
    )
    return f"{datetime.fromisoformat(last.time):%Y-%m-%dT%H:%M:%S} +0000"


def _template(repository: Repository, head: str) -> str:
    """The target's own template for pull requests, however its name is written."""
    names = repository.git("ls-tree", "-r", "-z", "--name-only", head).decode(errors="replace").split("\0")
    found = next((name for name in names if name.lower() in _TEMPLATES), None)
    return repository.git("show", f"{head}:{found}").decode(errors="replace") if found else ""


def push(proposal: Proposal, repository: Repository, to: Destination, forge: Forge | None) -> events.Pushed:
    """Push the branch, open or update the pull request, record it. Raises UsageError where the branch holds something else."""
    with SessionLog(proposal.session.folder) as log:
        made = prepare(proposal, repository, to)
        commit = _push_branch(proposal, repository, to, made)
        opened = _open(forge, made) if forge else None
        event = events.Pushed(
            proposal=proposal.id, remote=to.remote, branch=made.branch, commit=commit, pull_request=opened.url if opened else ""
        )
        log.append(event)
    return event


def _push_branch(proposal: Proposal, repository: Repository, to: Destination, made: Prepared) -> str:
    """The commit that the branch holds afterwards: an earlier push may have put the same change onto an older target."""
    name = f"refs/heads/{made.branch}"
    listed = repository.git("ls-remote", "--", to.remote, name, also=to.environment).decode(errors="replace").splitlines()
    there = next((line.split("\t")[0] for line in listed if line.endswith(f"\t{name}")), "")  # git matches the ends of longer names too
    if not there:
        repository.git("push", "--quiet", "--no-verify", "--", to.remote, made.refspec, also=to.environment)
        return made.commit
    if there != made.commit and not _pushed_earlier(_fetch(repository, to, made.branch), proposal, repository, to, made):
        raise UsageError(
            f"branch {made.branch} of {to.remote} holds another commit, {there[:12]}; it is left as it is: delete it there first"
        )
    return there


def _pushed_earlier(there: str, proposal: Proposal, repository: Repository, to: Destination, made: Prepared) -> bool:
    """True when the proposal on an earlier commit of the target is ``there``, by its id: nothing else is beside it or below it."""
    parents = repository.git("rev-list", "--parents", "--max-count=1", there).decode().split()[1:]
    if len(parents) != 1 or not repository.contains(made.head, parents[0]):
        return False
    try:
        return _commit_on(parents[0], proposal, repository, to.prefix) == there
    except PatchError:
        return False


def _open(forge: Forge, made: Prepared) -> PullRequest:
    found = forge.find_open(made.branch)
    if found is None:
        return forge.create(made.branch, made.onto, made.title, made.body)
    if (found.title, found.body) != (made.title, made.body):
        return forge.update(found.number, made.title, made.body)
    return found
