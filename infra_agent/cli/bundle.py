"""``infra-agent bundle``."""

import hashlib
from pathlib import Path
from typing import Annotated

import typer

from infra_agent.cli.files import new_file
from infra_agent.cli.output import answer, document


def bundle(
    session: Annotated[str, typer.Argument(help="session id or folder")],
    out: Annotated[Path | None, typer.Option(help="the file; SESSION.tar.zst here by default; it is never written over")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False,
) -> None:
    """Put a session into one file that replay, show, compare, export and fork read as it is. Equal sessions give equal bytes."""
    from infra_agent.proposal.store import open_session
    from infra_agent.session.bundle import SUFFIX, write

    opened = open_session(session)
    identity = opened.header.session
    path = out or Path(f"{identity}{SUFFIX}")
    with new_file(path) as file:
        manifest = write(opened.folder, identity, file)
    with open(path, "rb") as whole:
        digest = hashlib.file_digest(whole, "sha256").hexdigest()
    if as_json:
        told = {"file": str(path), "bytes": path.stat().st_size, "sha256": digest, "files": len(manifest.files)}
        document({"session": identity, **told})
    else:
        answer(f"{path}: session {identity}, {len(manifest.files)} files, {path.stat().st_size} bytes, sha256 {digest}")
