"""Standard output carries the answer, standard error the progress; ``--json`` is one document and nothing else."""

import json
import re
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

Sandbox = Annotated[str, typer.Option(help="auto | bubblewrap | landlock | open: what walls the code off; auto never picks open")]
_STYLES = (("diff --git", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"), ("Verdict:", "bold"), ("Risk:", "bold yellow"))
"""First letters of a line of a review -> how it is shown on a terminal."""
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def visible(text: str) -> str:
    """``text`` with control and bidirectional characters escaped: what a model wrote must not move a reviewer's cursor."""
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def progress(text: str) -> None:
    """A line about what is going on."""
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()


def answer(text: str) -> None:
    """The answer, for a person."""
    sys.stdout.write(visible(text) + "\n")
    sys.stdout.flush()


def page(text: str) -> None:
    """The answer, for a person: coloured and in a pager on a terminal, plain where it is piped."""
    if not sys.stdout.isatty():
        answer(text)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    with console.pager(styles=True):
        for line in visible(text).split("\n"):
            console.print(Text(line, style=next((style for sign, style in _STYLES if line.startswith(sign)), "")))


def document(value: Any) -> None:
    """The answer, for a program."""
    answer(json.dumps(value, indent=1, ensure_ascii=False))


def table(rows: Iterable[tuple[str, ...]], heads: tuple[str, ...]) -> str:
    """Columns padded to their widest cell; plain text, so that it can be piped."""
    cells = [heads, *rows]
    widths = [max(len(row[n]) for row in cells) for n in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
