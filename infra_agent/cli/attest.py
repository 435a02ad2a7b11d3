"""``attest`` and ``verify-attestation``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra_agent.cli.files import new_file
from infra_agent.cli.output import answer, document, progress
from infra_agent.errors import UsageError

if TYPE_CHECKING:
    from infra_agent.proposal.store import Proposal

_UNSIGNED = "unsigned: it shows what belongs together, not who wrote it; to sign a line of it: cosign attest-blob --statement FILE"
_MOST_PATCH = 1 << 26


def attest(
    proposal: Annotated[str, typer.Argument(help="proposal id")],
    out: Annotated[Path | None, typer.Option(help="write to this file instead of standard output; it is never written over")] = None,
) -> None:
    """Write what the gate found as in-toto statements (test result, SLSA provenance) over the patch's digest, a line each."""
    from infra_agent.proposal.attest import encode
    from infra_agent.proposal.store import find_proposal

    data = encode(find_proposal(proposal))
    if out is None:
        answer(data.decode().rstrip("\n"))
    else:
        with new_file(out) as file:
            file.write(data)
    progress(_UNSIGNED)


def verify_attestation(
    file: Annotated[Path, typer.Argument(help="statements, as attest writes them")],
    session: Annotated[str, typer.Option(help="the session's folder, where its id alone does not find it")] = "",
    patch: Annotated[Path | None, typer.Option(help="a patch that it must be on")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False,
) -> None:
    """Compare an attestation with the session it is of, from which all of it is computed again, and with a patch.

    Exit 0 when it agrees with its session, 1 when it differs, 3 when the session is not here: of a patch only the digest can be compared.
    """
    from infra_agent.proposal import attest as attestation
    from infra_agent.proposal import statement

    given = statement.read(_bytes(file, statement.MOST_BYTES))
    compared, faults = [], list[str]()
    if patch is not None:
        compared.append(f"patch {patch}")
        faults += attestation.against_patch(given, _bytes(patch, _MOST_PATCH))
    found = _session(session, *attestation.named(given))
    if found is not None:
        compared.append(f"session {found.session.header.session}")
        faults += attestation.against_session(given, found)
    code = 1 if faults else 0 if found is not None else 3
    if as_json:
        document({"agrees": code == 0, "compared": compared, "differences": faults})
    else:
        against = " and ".join(compared)
        open_still = f"it is on {against}; the rest is its session's, which is not here" if compared else "its session is not here"
        says = {0: f"agrees with {against}", 1: f"differs from {against}", 3: f"nothing it says was computed again: {open_still}"}
        answer("\n".join([says[code], *(f"DIFFERS {fault}" for fault in faults)]))
    progress(_UNSIGNED)
    raise typer.Exit(code)


def _bytes(path: Path, most: int) -> bytes:
    """Of a file that may be endless."""
    try:
        with open(path, "rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    if len(data) > most:
        raise UsageError(f"{path}: over {most} bytes, which is not read")
    return data


def _session(given: str, session: str, proposal: str) -> "Proposal | None":
    """The proposal that an attestation names. None when its session is not here; UsageError when one that was named is not it."""
    from infra_agent.proposal.store import open_session, proposals_of, session_folders

    if not given and session not in {folder.name for folder in session_folders()}:
        return None
    opened = open_session(given or session)
    found = next((p for p in proposals_of(opened) if p.id == proposal), None)
    if found is None:
        raise UsageError(f"session {opened.header.session} has no proposal '{proposal[:40]}'")
    return found
