"""``infra-agent export`` and ``infra-agent import``: sessions in the formats of other programs, and their runs as sessions."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from infra_agent.cli.output import answer, document, progress


def export(
    session: Annotated[str, typer.Argument(help="session id or folder")],
    to: Annotated[str, typer.Option(help="atif | chrome | markdown")],
    out: Annotated[Path | None, typer.Option(help="write to this file instead of standard output")] = None,
) -> None:
    """Write a session as an ATIF trajectory, a Chrome trace that Perfetto opens, or a transcript in Markdown."""
    from infra_agent.proposal.store import open_session
    from infra_agent.replay.export import export as exported

    data = exported(open_session(session), to)
    if out is None:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    else:
        out.write_bytes(data)
        progress(f"{out}: {len(data)} bytes")


def import_(
    program: Annotated[str, typer.Argument(metavar="FORMAT", help="mini-swe-agent")],
    path: Annotated[Path, typer.Argument(help="a trajectory: its .traj.json")],
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False,
) -> None:
    """Keep another program's run as a session that can be shown, verified, compared and exported, and nothing else."""
    from infra_agent.proposal.store import Session
    from infra_agent.replay.importing import import_file
    from infra_agent.session import events
    from infra_agent.session.log import read
    from infra_agent.share import home

    folder = import_file(program, path, home())
    if not as_json:
        answer(folder.name)
        return
    opened = Session(folder, read(folder))
    replies = sum(isinstance(entry.event, events.ModelReplied) for entry in opened.entries)
    actions = sum(isinstance(entry.event, events.ActionProposed) for entry in opened.entries)
    came = opened.header.imported
    document({"session": folder.name, "imported": came.model_dump() if came else None, "replies": replies, "actions": actions})
