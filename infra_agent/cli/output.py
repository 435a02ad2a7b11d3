"""Standard output carries the answer, standard error the progress; ``--json`` is one document and nothing else."""

import json
import sys
from collections.abc import Iterable
from typing import Any


def progress(text: str) -> None:
    """A line about what is going on."""
    print(text, file=sys.stderr, flush=True)


def answer(text: str) -> None:
    """The answer, for a person."""
    print(text, flush=True)


def document(value: Any) -> None:
    """The answer, for a program."""
    print(json.dumps(value, indent=1, ensure_ascii=False), flush=True)


def table(rows: Iterable[tuple[str, ...]], heads: tuple[str, ...]) -> str:
    """Columns padded to their widest cell; plain text, so that it can be piped."""
    cells = [heads, *rows]
    widths = [max(len(row[n]) for row in cells) for n in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
