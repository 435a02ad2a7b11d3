"""A new session out of the beginning of another: the same log up to an event, then another model, another word, or another try."""

import re
import secrets
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from infra_agent import canonical
from infra_agent.errors import UsageError
from infra_agent.proposal.store import Session, writable
from infra_agent.session import events
from infra_agent.session.log import Blobs, SessionLog
from infra_agent.session.origin import Origin

_DIGEST = re.compile(rb'"([0-9a-f]{64})"')


def fork(parent: Session, at: int, home: Path, message: str = "") -> Path:
    """Write the new session's folder; ``session.resume`` goes on with it. ``at``: number of the last event that is kept.

    What the parent spent up to there counts. Raises UsageError for a place where nothing could go on.
    """
    writable(parent.header)
    kept = parent.entries[: at + 1]
    if not 0 < at < len(parent.entries):
        raise UsageError(f"--at {at}: session {parent.header.session} has events 0 to {len(parent.entries) - 1}, and event 0 is its header")
    if any(isinstance(entry.event, events.VerdictGiven) and entry.event.verdict.decision == "pass" for entry in kept):
        raise UsageError(f"--at {at}: a proposal had passed by then; fork before it, see: infra-agent show {parent.header.session}")
    name = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{parent.header.task}-{secrets.token_hex(2)}"
    folder = home / "sessions" / name
    origin = Origin(session=parent.header.session, at=at, head=kept[-1].hash)
    with SessionLog(folder) as log:
        _copy_blobs(parent.blobs, log.blobs, [entry.event for entry in kept])
        log.append(parent.header.model_copy(update={"session": name, "parent": origin}), kept[0].time)
        for entry in kept[1:]:
            log.append(entry.event, entry.time)
        if message:
            log.append(events.Note(text=message, to_model=True))
    return folder


def _copy_blobs(source: Blobs, target: Blobs, kept: Iterable[events.Event]) -> None:
    """What the kept events name, and what those blobs name in turn."""
    wanted = [name for event in kept for name in _named(canonical.encode(event.model_dump(mode="json")))]
    done: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name not in done and (source.folder / name).is_file():
            data = source.get(name)
            target.put(data)
            wanted += _named(data)
        done.add(name)


def _named(data: bytes) -> list[str]:
    return [match.decode() for match in _DIGEST.findall(data)]
