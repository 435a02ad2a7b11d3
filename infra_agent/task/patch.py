"""What a patch touches, read from its bytes.

The patch must be one that :meth:`Repository.diff` made (no renames): a patch from elsewhere is applied first and
diffed again, so that a header written to deceive this reader never reaches it.
"""

import codecs
import re
from dataclasses import dataclass

_MODE = re.compile(rb"^(?:new|old|deleted) (?:file )?mode (\d+)$|^index [0-9a-f]+\.\.[0-9a-f]+ (\d+)$")
HUNK = re.compile(rb"^@@ -(\d+)(?:,\d+)? \+(\d+)")


@dataclass(frozen=True)
class Line:
    """A line that a patch adds or removes, with its number in the new or the old file."""

    number: int
    text: bytes


@dataclass(frozen=True)
class FileChange:
    """One file of a patch. ``kind`` is added | changed | deleted."""

    path: str
    kind: str
    modes: tuple[str, ...]
    plus: tuple[Line, ...]
    minus: tuple[Line, ...]
    binary: bool

    @property
    def added(self) -> int:
        """How many lines it adds."""
        return len(self.plus)

    @property
    def removed(self) -> int:
        """How many lines it removes."""
        return len(self.minus)

    @property
    def added_lines(self) -> tuple[bytes, ...]:
        """The lines that it adds."""
        return tuple(line.text for line in self.plus)


def changes(patch: bytes) -> list[FileChange]:
    """Every file the patch touches, in order."""
    sections = re.split(rb"^(?=diff --git )", patch, flags=re.MULTILINE)
    return [_change(section) for section in sections if section.startswith(b"diff --git ")]


def _change(section: bytes) -> FileChange:
    lines = section.split(b"\n")
    path = path_of(lines[0])
    end = next((n for n, line in enumerate(lines) if line.startswith((b"@@", b"GIT binary patch"))), len(lines))
    head = lines[1:end]
    modes = tuple(group.decode() for line in head for match in [_MODE.match(line)] if match for group in match.groups() if group)
    kind = "changed"
    if any(line.startswith(b"new file") for line in head):
        kind = "added"
    elif any(line.startswith(b"deleted file") for line in head):
        kind = "deleted"
    binary = any(line.startswith((b"GIT binary patch", b"Binary files")) for line in lines)
    plus, minus = ((), ()) if binary else _numbered(lines[end:])
    return FileChange(path, kind, modes, plus, minus, binary)


def _numbered(hunks: list[bytes]) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """Added and removed lines. Within a hunk every line of a file begins with a sign or a blank; a lone CR is part of a line."""
    plus, minus, new, old = [], [], 0, 0
    for line in hunks:
        if match := HUNK.match(line):
            old, new = int(match[1]), int(match[2])
        elif line.startswith(b"+"):
            plus.append(Line(new, line[1:]))
            new += 1
        elif line.startswith(b"-"):
            minus.append(Line(old, line[1:]))
            old += 1
        elif line.startswith(b" "):
            old, new = old + 1, new + 1
    return tuple(plus), tuple(minus)


def path_of(header: bytes) -> str:
    """The path of ``diff --git a/PATH b/PATH``, perhaps quoted; both halves are the same path."""
    names = header.removeprefix(b"diff --git ")
    half = names[: (len(names) - 1) // 2]
    if half.startswith(b'"'):
        half = codecs.escape_decode(half[1:-1])[0]
    return half.removeprefix(b"a/").decode(errors="backslashreplace")
