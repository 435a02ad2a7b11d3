"""Which lines a patch added: the workspace beside the tar of base."""

import io
import tarfile
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple


class Added(NamedTuple):
    """A file that is not what it was. ``lines``: the numbers, from 1, of those that base has not; ``text`` is None for bytes."""

    path: str
    text: str | None
    lines: frozenset[int]
    before: str = ""


def base_files(section: memoryview) -> dict[str, bytes]:
    """Path -> contents of a tar."""
    with tarfile.open(fileobj=io.BytesIO(section)) as archive:
        return {member.name: file.read() for member in archive if (file := archive.extractfile(member)) is not None}


def lines(old: str, new: str) -> frozenset[int]:
    """Numbers, from 1, of the lines of ``new`` that are not lines of ``old`` in the same order."""
    before, after = old.split("\n"), new.split("\n")
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0  # what is alike at both ends is left out of the comparison, whose cost is that of a product
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    match = SequenceMatcher(None, before[head : len(before) - tail], after[head : len(after) - tail], autojunk=False)
    changed = (range(first, last) for tag, _, _, first, last in match.get_opcodes() if tag in ("insert", "replace"))
    return frozenset(head + number + 1 for span in changed for number in span)


def files(workspace: str, base: dict[str, bytes]) -> Iterator[Added]:
    """Every file of the workspace that base has not, or has otherwise; in the order of their paths."""
    root = Path(workspace)
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if not path.is_file() or path.is_symlink() or (data := path.read_bytes()) == base.get(name):
            continue
        try:
            text = data.decode()
        except UnicodeDecodeError:
            yield Added(name, None, frozenset())
            continue
        before = base.get(name, b"").decode(errors="replace")
        yield Added(name, text, lines(before, text), before)
