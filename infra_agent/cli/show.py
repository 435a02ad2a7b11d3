"""``infra-agent show``: a session's events as lines, as JSON, as the model's conversation, or one after the other on a terminal."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra_agent.cli.output import answer, document, page, progress
from infra_agent.errors import UsageError

if TYPE_CHECKING:
    from infra_agent.session.index import Wanted
    from infra_agent.session.log import Blobs, Entry


@dataclass(frozen=True)
class Among:
    """Which events, by seq, both ends included; an end that nobody named is None."""

    first: int | None = None
    last: int | None = None

    def __bool__(self) -> bool:
        """False for the whole log."""
        return (self.first, self.last) != (None, None)

    def of(self, total: int) -> range:
        """The seqs in a log of ``total`` events. Raises UsageError when there are none."""
        first, last = self.first or 0, total - 1 if self.last is None else min(self.last, total - 1)
        if first > last:
            raise UsageError(f"there is no event from {first} to {last}; the session's are 0 to {total - 1}")
        return range(first, last + 1)


def show(
    session: Annotated[str, typer.Argument(help="session id or folder")],
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False,
    messages: Annotated[bool, typer.Option("--messages", help="the conversation as the model saw it")] = False,
    first: Annotated[int | None, typer.Option("--from", min=0, help="the first event, by its number")] = None,
    last: Annotated[int | None, typer.Option("--to", min=0, help="the last event, by its number")] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="only types that begin so: model. or observation.made; can be given again")
    ] = None,
    search: Annotated[str, typer.Option("--search", help="only events with this text in a name or a value, whatever its case")] = "",
    blob: Annotated[str, typer.Option("--blob", help="print the blob with this digest, or the only one that begins so")] = "",
) -> None:
    """Show a session's events, or the conversation; on a terminal, one event after the other.

    Reads and checks the whole log. On a terminal, and of events picked by --from and --to, it checks those that it shows.
    """
    from infra_agent.session.index import Wanted

    among, wanted = Among(first, last), Wanted(known(types or ()), search)
    if (messages or blob) and (among or wanted != Wanted() or (messages and blob)):
        raise UsageError(
            "--messages shows a whole conversation, --blob a whole blob: neither goes with the other, --from, --to, --type or --search"
        )
    if blob:
        _blob(session, blob, as_json)
    elif messages:
        _messages(session)
    elif as_json or not _on_terminal():
        _list(session, among, wanted, as_json)
    else:
        _step(session, among, wanted)


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def known(types: Sequence[str]) -> tuple[str, ...]:
    """Beginnings of types, as they are given. Raises UsageError for one that no type has."""
    from infra_agent.session.index import TYPES

    for name in types:
        if not any(kind.startswith(name) for kind in TYPES):
            raise UsageError(f"no type of event begins with '{name}'; there are {', '.join(TYPES)}")
    return tuple(types)


def _list(session: str, among: Among, wanted: "Wanted", as_json: bool) -> None:
    from infra_agent.session.index import data_of

    found = _some(session, among, wanted) if among else _all(session, wanted)
    if as_json:
        document([{"seq": e.seq, "t": e.time, "hash": e.hash, **data_of(e)} for e in found])
    elif found:
        answer("\n".join(_line(entry) for entry in found))
    else:
        progress("no event is like that")


def _all(session: str, wanted: "Wanted") -> "list[Entry]":
    from infra_agent.proposal.store import open_session

    return [entry for entry in open_session(session).entries if wanted.matches(entry)]


def _some(session: str, among: Among, wanted: "Wanted") -> "list[Entry]":
    from infra_agent.proposal.store import readable_folder
    from infra_agent.session.index import Index, find

    with Index(readable_folder(session)) as index:
        found = list(find(index, wanted, among.of(len(index))))
    progress(f"only the events shown were checked, with their links to those before; infra-agent replay {session} checks all")
    return found


def _step(session: str, among: Among, wanted: "Wanted") -> None:
    from infra_agent.cli.stepper import Stepper, step
    from infra_agent.proposal.store import readable_folder
    from infra_agent.session.index import Index
    from infra_agent.session.log import Blobs

    folder = readable_folder(session)
    with Index(folder) as index:
        step(Stepper(folder.name, index, Blobs(folder / "blobs"), among.of(len(index))), wanted)


def _line(entry: "Entry") -> str:
    from infra_agent.session.events import ObservationMade
    from infra_agent.session.index import data_of

    if isinstance(entry.event, ObservationMade):
        seen = entry.event.observation
        return f"{entry.seq:4} {entry.event.type:<18} [{entry.event.action}] {seen.instrument}: {seen.status} — {seen.headline}"
    data = data_of(entry)
    text = ", ".join(f"{k}={_short(v)}" for k, v in data.items() if k != "type" and v not in (None, "", [], {}))
    return f"{entry.seq:4} {entry.event.type:<18} {text}"


def _short(value: Any) -> str:
    text = str(value).replace("\n", " ")
    return text if len(text) <= 60 else f"{text[:57]}..."


def _messages(session: str) -> None:
    from infra_agent.proposal.store import open_session
    from infra_agent.session.context import project
    from infra_agent.task.spec import TaskSpec

    opened = open_session(session)
    spec = TaskSpec.model_validate_json(opened.blobs.get(opened.header.spec))
    metric = spec.sparse_metric if opened.header.feedback == "sparse" else None
    for message in project(opened.entries, opened.blobs, metric):
        calls = "".join(f"\n→ {call.name} {call.arguments}" for call in message.tool_calls)
        answer(f"── {message.role}\n{message.text}{calls}")


def _blob(session: str, beginning: str, as_json: bool) -> None:
    from infra_agent.proposal.store import readable_folder
    from infra_agent.session.log import Blobs

    blobs = Blobs(readable_folder(session) / "blobs")
    digest = named(blobs, beginning)
    data = blobs.get(digest)
    text = as_text(data)
    if as_json:
        document({"digest": digest, "bytes": len(data), "text": text})
    else:
        page(f"{len(data)} bytes that are no text: {blobs.folder / digest}" if text is None else text)


def as_text(data: bytes) -> str | None:
    """Bytes as the text that they are; None when they are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def named(blobs: "Blobs", beginning: str) -> str:
    """The digest of the blob that is the only one to begin so. Raises UsageError for none and for several."""
    names = os.listdir(blobs.folder) if blobs.folder.is_dir() else []
    found = [name for name in names if name.startswith(beginning.lower()) and not name.startswith(".")]
    if len(found) != 1:
        raise UsageError(f"{len(found)} blobs of {blobs.folder.parent.name} begin with '{beginning}'; a digest, or enough of one, names it")
    return found[0]
