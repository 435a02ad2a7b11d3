"""Push: an approved proposal as one commit on a branch of somebody's repository. Never forced; a second push completes a broken one."""

import base64
import os
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from infra_agent.errors import UsageError
from infra_agent.proposal import pull_request
from infra_agent.proposal.approval import ready
from infra_agent.proposal.forge import Forge, PullRequest
from infra_agent.proposal.merge import message
from infra_agent.proposal.store import Proposal
from infra_agent.session import events
from infra_agent.session.log import SessionLog
from infra_agent.task.repository import ConflictError, PatchError, Repository

_TEMPLATES = ("pull_request_template.md", ".github/pull_request_template.md", "docs/pull_request_template.md")
_HEAD = "refs/infra-agent/onto"
_THERE = "refs/infra-agent/there"


@dataclass(frozen=True)
class Destination:
    """Where to push."""

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

    @property
    def environment(self) -> dict[str, str]:
        """What git needs to reach it."""
        kept = {name: os.environ[name] for name in ("HOME", "SSH_AUTH_SOCK") if name in os.environ}
        if not self.secret or not self.remote.startswith(("https://", "http://127.0.0.1")):
            return kept
        basic = base64.b64encode(f"x-access-token:{self.secret}".encode()).decode()
        settings = {"http.extraHeader": f"Authorization: Basic {basic}", "http.followRedirects": "false"}  # no other host gets it
        pairs = {f"GIT_CONFIG_{part}_{n}": item[at] for n, item in enumerate(settings.items()) for at, part in enumerate(("KEY", "VALUE"))}
        return kept | {"GIT_CONFIG_COUNT": str(len(settings)), **pairs}


@dataclass(frozen=True)
class Prepared:
    """What would be pushed."""

    commit: str
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
    if urlsplit(to.remote).password:
        raise UsageError("the remote's address holds a password; leave it out and put a token into GITHUB_TOKEN")
    ready(proposal)
    repository.git("fetch", "--quiet", "--no-tags", to.remote, f"+refs/heads/{to.onto}:{_HEAD}", also=to.environment)
    head = repository.git("rev-parse", _HEAD).decode().strip()
    patch = proposal.session.blobs.get(proposal.made.patch)
    how = ["--3way", *([f"--directory={to.prefix}"] if to.prefix else [])]
    try:
        tree = repository.apply(head, patch, *how)
    except PatchError as error:
        where = f"{to.onto} of {to.remote}{f' under {to.prefix}' if to.prefix else ''}"
        raise ConflictError(f"{proposal.id} does not fit onto {where}: {error}; rebase the task, or give --prefix") from error
    if tree == repository.tree_of(head):
        raise UsageError(f"{to.onto} of {to.remote} has this change already; there is nothing to push")
    commit = repository.commit_tree(tree, [head], message(proposal), dates=_approved_at(proposal))
    text = pull_request.body(proposal, to.duplicates, _template(repository, head))
    return Prepared(commit, f"infra-agent/{proposal.id}", to.onto, proposal.made.title, text)


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
        commit = _push_branch(repository, to, made)
        opened = _open(forge, made) if forge else None
        event = events.Pushed(
            proposal=proposal.id, remote=to.remote, branch=made.branch, commit=commit, pull_request=opened.url if opened else ""
        )
        log.append(event)
    return event


def _push_branch(repository: Repository, to: Destination, made: Prepared) -> str:
    """The commit that the branch holds afterwards: an earlier push may have put the same change onto an older target."""
    listed = repository.git("ls-remote", to.remote, f"refs/heads/{made.branch}", also=to.environment).decode().split()
    if not listed:
        repository.git("push", "--quiet", "--no-verify", to.remote, made.refspec, also=to.environment)
        return made.commit
    there = listed[0]
    if there != made.commit:
        repository.git("fetch", "--quiet", "--no-tags", to.remote, f"+refs/heads/{made.branch}:{_THERE}", also=to.environment)
        if _change(repository, there) != _change(repository, made.commit):
            raise UsageError(
                f"branch {made.branch} of {to.remote} holds another commit, {there[:12]}; it is left as it is: delete it there first"
            )
    return there


def _change(repository: Repository, commit: str) -> tuple[str, bytes]:
    """Message and patch of a commit, without what depends on its place."""
    patch = repository.git("diff", "--no-color", "--no-ext-diff", "--no-renames", "--unified=0", f"{commit}^", commit)
    lines = [line for line in patch.split(b"\n") if not line.startswith((b"index ", b"@@"))]
    return repository.message(commit), b"\n".join(lines)


def _open(forge: Forge, made: Prepared) -> PullRequest:
    found = forge.find_open(made.branch)
    if found is None:
        return forge.create(made.branch, made.onto, made.title, made.body)
    if (found.title, found.body) != (made.title, made.body):
        return forge.update(found.number, made.title, made.body)
    return found
