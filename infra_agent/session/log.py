"""The append-only log: one JSON line an event, each holding the hash of the line before it.

Readers never repair. :func:`read` says precisely where a log is broken; only ``resume`` may cut a torn last line.
"""

import fcntl
import gc
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from infra_agent import canonical
from infra_agent.errors import UsageError
from infra_agent.frozen import one_line
from infra_agent.session.events import EVENT, OUTSIDE_EFFECTS, VERSION, Event
from infra_agent.session.redaction import redact

FIRST = "0" * 64
"""What the first line states as the hash of the line before it."""


class BrokenLogError(UsageError):
    """A session's files are not what was written; the message says which file, line and why."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; restore the session from a copy, nothing here repairs it")


@dataclass(frozen=True)
class Entry:
    """An event with its place in the log."""

    seq: int
    time: str
    hash: str
    event: Event


class Blobs:
    """Content-addressed bytes beside the log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes) -> str:
        """Store bytes; returns their SHA-256."""
        name = canonical.digest(data)
        path = self.folder / name
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            scratch = self.folder / f".{name}.{os.getpid()}.{threading.get_ident()}"
            with open(scratch, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(path)
        return name

    def get(self, name: str) -> bytes:
        """Bytes by digest. Raises BrokenLogError when they are missing or are not what the name says."""
        if not re.fullmatch(r"[0-9a-f]{64}", name):
            raise BrokenLogError(f"{self.folder}: {name[:80]!r} is not the name of a blob")
        path = self.folder / name
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BrokenLogError(f"{path}: blob is missing ({error.strerror})") from error
        if canonical.digest(data) != name:
            raise BrokenLogError(f"{path}: blob's bytes do not have the digest that is its name")
        return data


class SessionLog:
    """Writes one session. One writer at a time: a second one is refused."""

    def __init__(self, folder: Path, listen: Callable[[Event], None] | None = None) -> None:
        """Open or continue a session; ``listen`` is told of every event once it is written."""
        self.folder = folder
        self._listen = listen
        self.blobs = Blobs(folder / "blobs")
        folder.mkdir(parents=True, exist_ok=True)
        self._file = open(folder / "session.jsonl", "ab")  # noqa: SIM115 (held open for the session's life)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.entries = self._before() if self._file.tell() else []
        except BlockingIOError as error:
            self._file.close()
            raise UsageError(f"session {folder.name} is being written by another process") from error
        except BaseException:
            self._file.close()
            raise

    def _before(self) -> list[Entry]:
        return _whole(self.folder, read_head(self.folder), (self.folder / "session.jsonl").read_bytes())

    def append(self, event: Event, time: str | None = None) -> Entry:
        """Write one event; it and all before it are on disk when this returns for events with outside effects.

        ``time``: when it happened, for one that is copied from another log.
        """
        line = envelope(event, len(self.entries), self.entries[-1].hash if self.entries else FIRST, time)
        entry = Entry(line["seq"], line["t"], line["hash"], EVENT.validate_python({**line["data"], "type": line["type"]}))
        data = canonical.encode(line) + b"\n"
        with _uninterrupted():  # an interrupt between the write and the list would give the next event the same number
            self._file.write(data)
            self._file.flush()
            self.entries.append(entry)
        if line["type"].startswith(OUTSIDE_EFFECTS):
            self._sync(entry)
        if self._listen:
            self._listen(entry.event)
        return entry

    def _sync(self, entry: Entry) -> None:
        os.fsync(self._file.fileno())
        scratch = self.folder / "HEAD.new"
        with open(scratch, "wb") as head:
            head.write(_head_bytes(entry.seq, entry.hash))
            head.flush()
            os.fsync(head.fileno())
        scratch.replace(self.folder / "HEAD")

    def close(self) -> None:
        """Put everything on disk and let go of the lock."""
        if self.entries:
            self._sync(self.entries[-1])
        self._file.close()

    def __enter__(self) -> "SessionLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold SIGINT and SIGTERM back until the block is done."""
    held = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def mend(folder: Path) -> int:
    """Make a log that a crash cut off readable again; returns the bytes of a torn last line, which are gone. Only ``resume`` does this.

    Nothing whole is ever taken away: a log that ends before HEAD, or has a changed line, stays broken. Without a HEAD only the very
    first line may be there, since HEAD is written with it. Raises UsageError for a log without a whole line.
    """
    path = folder / "session.jsonl"
    try:
        with open(path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            data = file.read()
            whole = data.rfind(b"\n") + 1
            entries = _entries(path, data[:whole])
            if not entries:
                raise UsageError(f"session {folder.name}: nothing was recorded before it broke off; run the task again")
            file.truncate(whole)
            os.fsync(file.fileno())
            if not (folder / "HEAD").is_file() and len(entries) == 1:
                (folder / "HEAD").write_bytes(_head_bytes(0, entries[0].hash))
    except BlockingIOError as error:
        raise UsageError(f"session {folder.name} is being written by another process") from error
    except OSError as error:
        raise UsageError(f"{folder}: not a session ({error.strerror})") from error
    return len(data) - whole


def envelope(event: Event, seq: int, previous: str, time: str | None = None) -> dict[str, Any]:
    """The line of an event; secrets are gone before anything is digested."""
    data = redact(event.model_dump(mode="json"))
    kind = data.pop("type")
    line = {"v": VERSION, "seq": seq, "prev": previous, "t": time or datetime.now(UTC).isoformat(), "type": kind, "data": data}
    return {**line, "hash": canonical.digest_of(line)}


def read(folder: Path) -> list[Entry]:
    """Every entry, with the chain and HEAD checked. Raises BrokenLogError that says where it is broken."""
    path = folder / "session.jsonl"
    try:
        head = read_head(folder)  # before the log: a writer may be at work, and HEAD must not be the newer of the two
        data = _settled(path)
    except OSError as error:
        raise UsageError(f"{folder}: not a session ({Path(error.filename or path).name}: {error.strerror})") from error
    return _whole(folder, head, data)


def _settled(path: Path) -> bytes:
    """The log's bytes, without a last line that a living writer is at work on: a read may see half of a write."""
    with open(path, "rb") as file:
        data = file.read()
        if data.endswith(b"\n") or not data:
            return data
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return data[: data.rfind(b"\n") + 1]
        return data + file.read()  # no writer any more: what is cut off now stays so


def _whole(folder: Path, head: bytes, data: bytes) -> list[Entry]:
    entries = _entries(folder / "session.jsonl", data)
    check_head(folder, head, len(entries), lambda seq: entries[seq].hash)
    return entries


def _entries(path: Path, data: bytes) -> list[Entry]:
    found: list[Entry] = []
    lines = data.split(b"\n")
    if lines[-1]:
        raise BrokenLogError(f"{path}: line {len(lines)} is cut off: it does not end in a newline")
    with _uncollected():
        previous = FIRST
        for number, text in enumerate(lines[:-1]):
            found.append(checked(path, text, number, previous))
            previous = found[-1].hash
    return found


@contextmanager
def _uncollected() -> Iterator[None]:
    """Hold the search for unreachable cycles back: a log's events hold none, and walking them again and again took half of a read."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def checked(path: Path, text: bytes, seq: int, previous: str | None) -> Entry:
    """The event of a line without its newline: canonical form, version, hash, number, link and schema are checked.

    ``path`` is the log's, for messages; ``previous`` the hash of the line before, None to leave the link unchecked. Raises BrokenLogError.
    """
    where = f"{path}: line {seq + 1}"
    try:
        line = json.loads(text)
        claimed = line.pop("hash")
        if canonical.encode({**line, "hash": claimed}) != text:
            raise BrokenLogError(f"{where}: not canonical JSON")
        found = canonical.digest(_without_hash(text, claimed))
        version = line.pop("v")
        if (type(version), version) != (int, VERSION):
            raise BrokenLogError(f"{where}: schema version {str(version)[:20]}; this program reads version {VERSION}")
        link, time, kind, data = _members(**line)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
        raise BrokenLogError(f"{where}: not an event ({type(error).__name__})") from error
    if found != claimed:
        raise BrokenLogError(f"{where}: its content does not have the hash it states")
    if link != (link[0] if previous is None else previous, seq):
        raise BrokenLogError(f"{where}: does not follow the line before it")
    try:
        event = EVENT.validate_python({**data, "type": kind})
    except ValidationError as error:
        raise BrokenLogError(f"{where}: {kind}: {one_line(error)}") from error
    return Entry(seq, time, found, event)


def _members(*, prev: str, seq: int, t: str, type: str, data: dict[str, Any]) -> tuple[tuple[str, int], str, str, dict[str, Any]]:  # noqa: A002 (a line's own name)
    """What a line says besides version and hash: link and number, time, kind, data. Raises TypeError or ValueError for anything else."""
    if isinstance(seq, bool) or not isinstance(seq, int):
        raise TypeError("seq is no number")
    datetime.fromisoformat(t)
    return (prev, seq), t, type, dict(data)


def _without_hash(text: bytes, claimed: str) -> bytes:
    """The bytes that the hash is over: those of a canonical line less its ``hash``, which comes after ``data`` and is the last so named.

    What follows it are strings and numbers, in which no quote stands unescaped. Encoding the line again would take as long as all else.
    """
    member = b',"hash":' + canonical.encode(claimed)
    before, _, after = text.rpartition(member)
    return before + after


def read_head(folder: Path) -> bytes:
    """The bytes of HEAD. Raises BrokenLogError when there is a log and no HEAD, OSError when there is neither."""
    path = folder / "HEAD"
    if not path.is_file() and (folder / "session.jsonl").is_file():
        raise BrokenLogError(f"{path}: missing")
    return path.read_bytes()


def check_head(folder: Path, data: bytes, lines: int, hash_at: Callable[[int], str]) -> None:
    """HEAD names the last event that had to be on disk; a log of ``lines`` that ends before it was cut. Raises BrokenLogError."""
    path = folder / "HEAD"
    try:
        head = json.loads(data)
        seq, stated = int(head["seq"]), str(head["hash"])
        written = _head_bytes(seq, stated)
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise BrokenLogError(f"{path}: unreadable ({error})") from error
    if data != written:
        raise BrokenLogError(f"{path}: not what was written")
    if seq >= lines:
        raise BrokenLogError(f"{folder / 'session.jsonl'}: ends at line {lines}, HEAD says line {seq + 1} was written: lines are missing")
    if seq < 0 or hash_at(seq) != stated:
        raise BrokenLogError(f"{path}: its hash is not that of line {seq + 1}")


def _head_bytes(seq: int, stated: str) -> bytes:
    return canonical.encode({"seq": seq, "hash": stated}) + b"\n"
