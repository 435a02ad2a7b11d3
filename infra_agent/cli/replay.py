"""``infra-agent replay``."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from infra_agent.cli.output import Sandbox, answer, document, progress

if TYPE_CHECKING:
    from infra_agent.agent.rerun import Row
    from infra_agent.proposal.store import Session


def replay(
    session: Annotated[str, typer.Argument(help="session id or folder")],
    rerun: Annotated[bool, typer.Option("--rerun", help="carry out its actions again in live cages, and judge its proposals anew")] = False,
    until_divergence: Annotated[
        bool, typer.Option("--until-divergence", help="with --rerun: stop at the first action that differs")
    ] = False,
    task: Annotated[str, typer.Option(help="with --rerun: the task's folder, where its id alone does not find it")] = "",
    sandbox: Sandbox = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False,
) -> None:
    """Verify a recorded session offline: chain, blobs, requests, gate decisions, statuses and verdicts.

    Exit 1 on a difference, 2 when the files are broken.
    """
    from infra_agent.proposal.store import open_session
    from infra_agent.replay.verify import render, verify

    opened = open_session(session)
    if rerun or until_divergence:
        raise typer.Exit(_again(opened, until_divergence, task, sandbox, as_json))
    report = verify(opened)
    document(report.as_dict()) if as_json else answer(render(report))
    raise typer.Exit(0 if report.agrees else 1)


def _again(opened: "Session", until_divergence: bool, task: str, sandbox: str, as_json: bool) -> int:
    from infra_agent.agent.rerun import Asked, render, rerun
    from infra_agent.share import home
    from infra_agent.task.load import load

    asked = Asked(opened, load(task or opened.header.task), home(), sandbox, until_divergence)
    found = rerun(asked, _tell)
    document({"agrees": found.agrees, **asdict(found)}) if as_json else answer(render(found))
    return 0 if found.agrees else 1


def _tell(row: "Row") -> None:
    progress(f"[{row.action}] {row.tool}: {row.what} {'agrees' if row.agrees else f'DIFFERS: {row.recorded} -> {row.now}'}")
