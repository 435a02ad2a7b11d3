"""``infra-agent push``."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from infra_agent.cli.output import answer, document
from infra_agent.errors import UsageError

if TYPE_CHECKING:
    from infra_agent.proposal.forge import Forge


def push(
    proposal: Annotated[str, typer.Argument(help="proposal id, approved")],
    remote: Annotated[str, typer.Option(help="a path or an address, without credentials; a token is taken from GITHUB_TOKEN or GH_TOKEN")],
    onto: Annotated[str, typer.Option(help="the branch that it is for")] = "main",
    prefix: Annotated[str, typer.Option(help="the folder of that repository that the task's workspace is")] = "",
    duplicates: Annotated[str, typer.Option(help="what your search for duplicates found; stands in the text")] = "",
    forge: Annotated[
        str, typer.Option(help="auto | github | none: auto opens a pull request on github.com when there is a token")
    ] = "auto",
    api_url: Annotated[str, typer.Option(help="address of the forge's interface, where the remote does not tell")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print the commit and the text; nothing leaves this machine")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False,
) -> None:
    """Push an approved proposal as one commit on a branch of its own, with a draft pull request. Never forces; may be run again."""
    from infra_agent.proposal import push as pushing
    from infra_agent.proposal.forge import host, token
    from infra_agent.proposal.store import find_proposal
    from infra_agent.share import home
    from infra_agent.task.repository import Repository

    found = find_proposal(proposal, whole=True)
    repository = Repository(home() / "repos" / f"{found.session.header.task}.git")
    to = pushing.Destination(remote, onto, prefix, duplicates)  # refuses credentials before anything shows the address
    chosen = _forge(forge, remote, token(), api_url)
    if chosen or host(remote) == "github.com":  # no other host is shown the token
        to = replace(to, secret=token())
    if dry_run:
        made = pushing.prepare(found, repository, to)
        told = {"commit": made.commit, "refspec": made.refspec, "title": made.title, "body": made.body}
        document(told) if as_json else answer(f"commit {made.commit}\npush   {made.refspec}\ntitle  {made.title}\n\n{made.body}")
        return
    event = pushing.push(found, repository, to, chosen)
    if as_json:
        document(event.model_dump(mode="json"))
    else:
        answer(f"{found.id} is {event.branch} of {event.remote}, commit {event.commit[:12]}")
        answer(event.pull_request or "No pull request was opened; the text for one: push again with --dry-run")


def _forge(name: str, remote: str, secret: str, api: str) -> "Forge | None":
    from infra_agent.proposal.forge import GitHub, host

    if name not in ("auto", "github", "none"):
        raise UsageError(f"--forge {name}: allowed are auto, github and none")
    if name == "github" and not secret:
        raise UsageError("--forge github needs a token in GITHUB_TOKEN or GH_TOKEN")
    wanted = name == "github" or (name == "auto" and bool(secret) and host(remote) == "github.com")
    return GitHub(remote, secret, api) if wanted else None
