"""Which line of a TOML file an error is about: the reader of TOML gives values without their places."""

import re

from pydantic import ValidationError

from infra_agent.frozen import foremost

_TABLE = re.compile(r"^\s*\[\[\s*(\w+)\s*\]\]")


def place(where: str, text: str, error: Exception) -> str:
    """``file:line`` where the line can be told, else the file. An array of tables is found by counting its headers."""
    line = _of_schema(text, error) if isinstance(error, ValidationError) else None
    line = line or _named(text, str(error))
    return where if line is None else f"{where}:{line}"


def _of_schema(text: str, error: ValidationError) -> int | None:
    path = foremost(error)["loc"]
    if not path:
        return None
    if len(path) == 1:
        return _key(text.splitlines(), str(path[0]), 0)
    starts = [n for n, line in enumerate(text.splitlines()) if (match := _TABLE.match(line)) and match[1] == path[0]]
    if not isinstance(path[1], int):
        return _key(text.splitlines(), f"{path[0]}.{path[1]}", 0)
    if path[1] >= len(starts):
        return None
    first = starts[path[1]]
    return (_key(text.splitlines(), str(path[2]), first) if len(path) > 2 else None) or first + 1


def _key(lines: list[str], key: str, first: int) -> int | None:
    """The first line from ``first`` on, before the next table of an array, that sets ``key`` or opens the table ``key``."""
    wanted = re.compile(rf"^\s*(?:{re.escape(key)}\s*[=.]|\[\s*{re.escape(key)}\b)")
    for number, line in enumerate(lines[first:], first + 1):
        if number > first + 1 and _TABLE.match(line) and first:
            return None
        if wanted.match(line):
            return number
    return None


def _named(text: str, message: str) -> int | None:
    """The line that gives the id which the message names first."""
    match = re.search(r"'([a-z][a-z0-9-]*)'", message)
    lines = text.splitlines()
    wanted = re.compile(rf"^\s*id\s*=\s*[\"']{re.escape(match[1])}[\"']") if match else None
    return next((n for n, line in enumerate(lines, 1) if wanted and wanted.match(line)), None)
