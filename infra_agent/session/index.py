"""Where the lines of a log lie, so that one event of a long session is shown without parsing the others.

What :func:`infra_agent.session.log.read` checks of a whole log is checked here of the lines that are asked for, and of no other.
"""

import fcntl
import json
import os
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, get_args

from infra_agent.errors import UsageError
from infra_agent.session.events import Event
from infra_agent.session.log import FIRST, BrokenLogError, Entry, check_head, checked, read_head

_PIECE = 1 << 20
_NEWLINE = re.compile(b"\n")
_TYPE = b'"type":"'
TYPES: tuple[str, ...] = tuple(event.model_fields["type"].default for event in get_args(get_args(Event)[0]))
"""What types of event there are."""


class Index:
    """A log's events by seq, each read and checked when it is asked for. Holds the log open: close it, or use it in a ``with``."""

    def __init__(self, folder: Path) -> None:
        """Find where lines end and check HEAD, which says how many there must be. Raises UsageError or BrokenLogError as ``read`` does."""
        self.folder = folder
        self._path = folder / "session.jsonl"
        try:
            head = read_head(folder)  # before the log, which a writer may be making longer
            self._file = open(self._path, "rb")  # noqa: SIM115 (held open for as long as events are asked for)
        except OSError as error:
            raise UsageError(f"{folder}: not a session ({Path(error.filename or self._path).name}: {error.strerror})") from error
        try:
            self._ends = _ends(self._path, self._file)
            check_head(folder, head, len(self), lambda seq: self.entry(seq).hash)
        except BaseException:
            self._file.close()
            raise

    def __len__(self) -> int:
        return len(self._ends)

    def line(self, seq: int) -> bytes:
        """A line as it is in the file, without its newline. Raises BrokenLogError when it is not there any more."""
        begin, end = self._ends[seq - 1] if seq else 0, self._ends[seq]
        data = os.pread(self._file.fileno(), end - begin, begin)
        if len(data) != end - begin:
            raise BrokenLogError(f"{self._path}: line {seq + 1} was there a moment ago and is cut off now")
        return data[:-1]

    def entry(self, seq: int) -> Entry:
        """An event: its line and the one before it are checked, and the link between the two. Raises BrokenLogError that names the line."""
        before = checked(self._path, self.line(seq - 1), seq - 1, None).hash if seq else FIRST
        return checked(self._path, self.line(seq), seq, before)

    def close(self) -> None:
        """Let go of the log."""
        self._file.close()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ends(path: Path, file: BinaryIO) -> "array[int]":
    """Offsets after each line. A last line without an end is left out while its writer lives. Raises BrokenLogError when nobody writes.

    Read in pieces and not mapped: a log that is cut while it is mapped ends the process, and every page looked at counts as its memory.
    """
    found = array("Q")
    size = _scan(file, 0, found)
    if size != (found[-1] if found else 0):
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return found
        fcntl.flock(file, fcntl.LOCK_UN)  # resume may want it while this reader is still there
        if _scan(file, size, found) != (found[-1] if found else 0):  # what a writer added before it let go counts
            raise BrokenLogError(f"{path}: line {len(found) + 1} is cut off: it does not end in a newline")
    return found


def _scan(file: BinaryIO, at: int, found: "array[int]") -> int:
    """Add the end of every line from offset ``at`` on, to where the file ends; returns that offset."""
    while piece := file.read(_PIECE):
        found.extend(at + newline.end() for newline in _NEWLINE.finditer(piece))
        at += len(piece)
    return at


@dataclass(frozen=True)
class Wanted:
    """Which events are asked for: any of these beginnings of a type, and a text in a name or a value, whatever its case."""

    types: tuple[str, ...] = ()
    text: str = ""

    def may_match(self, line: bytes) -> bool:
        """False only for lines that no event of this kind has; nothing is parsed. The type is the last thing in a line that is named so."""
        kind = line.rpartition(_TYPE)[2]
        if self.types and not kind.startswith(tuple(name.encode() for name in self.types)):
            return False
        return not self.text or self._as_json in line.decode(errors="replace").casefold()

    @cached_property
    def _as_json(self) -> str:
        return json.dumps(self.text, ensure_ascii=False)[1:-1].casefold()

    def matches(self, entry: Entry) -> bool:
        """True for an event that is asked for."""
        if self.types and not entry.event.type.startswith(self.types):
            return False
        return not self.text or any(self.text.casefold() in leaf.casefold() for leaf in _leaves(data_of(entry)))


def data_of(entry: Entry) -> dict[str, Any]:
    """An event as data that is JSON. Raises BrokenLogError for one that is nested deeper than any that is written here."""
    try:
        return entry.event.model_dump(mode="json")
    except ValueError as error:
        raise BrokenLogError(f"line {entry.seq + 1}: {error}") from error


def _leaves(data: Mapping[str, Any]) -> Iterator[str]:
    """Every name and every value as text, numbers as JSON writes them."""
    waiting: list[Any] = [data]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Mapping):
            yield from value
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        else:
            yield value if isinstance(value, str) else json.dumps(value)


def find(index: Index, wanted: Wanted, seqs: Iterable[int]) -> Iterator[Entry]:
    """Events among ``seqs`` that are asked for, in that order. Raises BrokenLogError at a broken line that may be one."""
    for seq in seqs:
        if wanted.may_match(index.line(seq)):
            entry = index.entry(seq)
            if wanted.matches(entry):
                yield entry
