"""Read-only commands: ``sessions``, ``proposals``, ``tasks``, ``instruments``."""

from collections.abc import Sequence
from typing import Annotated

import typer

from infra_agent.cli.output import answer, document, progress, table
from infra_agent.errors import UsageError

Json = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]


def sessions(as_json: Json = False) -> None:
    """List sessions, oldest first; a fork stands below the session that it was forked from."""
    from infra_agent.proposal.store import Session, proposals_of, session_folders
    from infra_agent.session import events
    from infra_agent.session.log import read

    rows = []
    for folder in session_folders():
        try:
            opened = Session(folder, read(folder))
            header = opened.header
        except UsageError as error:
            rows.append((folder.name, "?", "?", "?", f"broken: {error}", "-"))
            continue
        last = next((e.event for e in reversed(opened.entries) if isinstance(e.event, events.SessionEnded | events.SessionResumed)), None)
        ending = last.reason if isinstance(last, events.SessionEnded) else "not ended"
        origin = f"{header.parent.session}@{header.parent.at}" if header.parent else "-"
        rows.append((header.session, origin, header.task, header.driver, ending, ", ".join(p.id for p in proposals_of(opened)) or "-"))
    heads = ("session", "forked from", "task", "driver", "ended", "proposals")
    document([dict(zip(heads, row, strict=True)) for row in rows]) if as_json else answer(table(_as_tree(rows), heads))


def _as_tree(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows of (session, forked from, …) with forks indented below their parents, where those are here."""
    names = {row[0] for row in rows}
    below: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        parent = row[1].rpartition("@")[0]
        below.setdefault(parent if parent in names and parent != row[0] else "", []).append(row)

    def from_here(parent: str, depth: int) -> list[tuple[str, ...]]:
        return [line for row in below.pop(parent, []) for line in ((f"{'  ' * depth}{row[0]}", *row[1:]), *from_here(row[0], depth + 1))]

    whole = from_here("", 0)
    return whole + [row for left in list(below.values()) for row in left]  # a circle, which no fork makes, is not lost


def proposals(as_json: Json = False) -> None:
    """List proposals, oldest first."""
    from infra_agent.proposal.store import all_proposals

    listed, unreadable = all_proposals()
    for name, why in unreadable.items():
        progress(f"session {name} cannot be read: {why}")
    rows = [(p.id, p.state, p.session.header.task, p.session.header.session, p.made.title) for p in listed]
    heads = ("proposal", "state", "task", "session", "title")
    document([dict(zip(heads, row, strict=True)) for row in rows]) if as_json else answer(table(rows, heads))


def tasks(
    as_json: Json = False, schema: Annotated[bool, typer.Option("--schema", help="print the JSON schema of task.toml")] = False
) -> None:
    """List tasks that can be named by id, or print the schema of task.toml."""
    from infra_agent.task.load import all_folders, load
    from infra_agent.task.spec import TaskSpec

    if schema:
        document(TaskSpec.model_json_schema())
        return
    loaded = []
    for folder in all_folders():
        try:
            loaded.append(load(str(folder)))
        except UsageError as error:
            progress(f"not a task: {error}")
    rows = [(t.spec.id, "L2" if t.judge_folder else "L1", t.spec.title, str(t.folder)) for t in loaded]
    heads = ("task", "level", "title", "folder")
    document([dict(zip(heads, row, strict=True)) for row in rows]) if as_json else answer(table(rows, heads))


def instruments(as_json: Json = False) -> None:
    """List instruments with the kind of evidence they leave and what they cost."""
    from infra_agent import instruments as found

    loaded = [found.load(name) for name in found.names()]
    if as_json:
        document([i.model_dump(mode="json") for i in loaded])
        return
    rows = [(i.name, i.evidence, i.trust, i.cost, ", ".join(i.needs) or "-", " ".join(i.about.split())[:70]) for i in loaded]
    answer(table(rows, ("instrument", "evidence", "trust", "cost", "needs", "about")))
