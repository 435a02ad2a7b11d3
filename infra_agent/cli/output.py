"""Standard output carries the answer, standard error the progress; ``--json`` is one document and nothing else."""

import json
import sys
from collections.abc import Iterable
from typing import Any


def progress(text: str) -> None:
    """A line about what is going on."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def answer(text: str) -> None:
    """The answer, for a person."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def document(value: Any) -> None:
    """The answer, for a program."""
    answer(json.dumps(value, indent=1, ensure_ascii=False))


def table(rows: Iterable[tuple[str, ...]], heads: tuple[str, ...]) -> str:
    """Columns padded to their widest cell; plain text, so that it can be piped."""
    cells = [heads, *rows]
    widths = [max(len(row[n]) for row in cells) for n in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
