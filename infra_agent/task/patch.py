"""What a patch touches, read from its bytes.

The patch must be one that :meth:`Repository.diff` made (no renames): a patch from elsewhere is applied first and
diffed again, so that a header written to deceive this reader never reaches it.
"""

import codecs
import re
from dataclasses import dataclass

_MODE = re.compile(rb"^(?:new|old|deleted) (?:file )?mode (\d+)$|^index [0-9a-f]+\.\.[0-9a-f]+ (\d+)$")


@dataclass(frozen=True)
class FileChange:
    """One file of a patch. ``kind`` is added | changed | deleted."""

    path: str
    kind: str
    modes: tuple[str, ...]
    added: int
    removed: int
    added_lines: tuple[bytes, ...]
    binary: bool


def changes(patch: bytes) -> list[FileChange]:
    """Every file the patch touches, in order."""
    sections = re.split(rb"^(?=diff --git )", patch, flags=re.MULTILINE)
    return [_change(section) for section in sections if section.startswith(b"diff --git ")]


def _change(section: bytes) -> FileChange:
    lines = section.split(b"\n")
    path = _path(lines[0].removeprefix(b"diff --git "))
    end = next((n for n, line in enumerate(lines) if line.startswith((b"@@", b"GIT binary patch"))), len(lines))
    head = lines[1:end]
    modes = tuple(group.decode() for line in head for match in [_MODE.match(line)] if match for group in match.groups() if group)
    kind = "changed"
    if any(line.startswith(b"new file") for line in head):
        kind = "added"
    elif any(line.startswith(b"deleted file") for line in head):
        kind = "deleted"
    plus = tuple(line[1:] for line in lines[end:] if line.startswith(b"+"))
    minus = sum(1 for line in lines[end:] if line.startswith(b"-"))
    binary = any(line.startswith((b"GIT binary patch", b"Binary files")) for line in lines)
    return FileChange(path, kind, modes, len(plus), minus, plus, binary)


def _path(names: bytes) -> str:
    """``a/PATH b/PATH``, perhaps quoted; both halves are the same path."""
    half = names[: (len(names) - 1) // 2]
    if half.startswith(b'"'):
        half = codecs.escape_decode(half[1:-1])[0]
    return half.removeprefix(b"a/").decode(errors="backslashreplace")
