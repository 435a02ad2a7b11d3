"""``infra-agent replay``."""

from typing import Annotated

import typer

from infra_agent.cli.output import answer, document


def replay(
    session: Annotated[str, typer.Argument(help="session id or folder")],
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False,
) -> None:
    """Verify a recorded session offline: chain, blobs, requests, gate decisions, statuses and verdicts.

    Exit 1 on a difference, 2 when the files are broken.
    """
    from infra_agent.proposal.store import open_session
    from infra_agent.replay.verify import render, verify

    report = verify(open_session(session))
    document(report.as_dict()) if as_json else answer(render(report))
    raise typer.Exit(0 if report.agrees else 1)
