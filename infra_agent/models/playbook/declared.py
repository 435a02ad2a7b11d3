"""Knobs that code declares: a name, a value, and beside it the list of values that are allowed. Pure: from a file's text to its knobs.

Two conventions are read. In TOML, a table with one scalar and one list that holds it, ``{ value = 1, allowed = [1, 2] }``, or a key whose
list stands beside it, ``size = 1`` and ``size_choices = [1, 2]``. In Python, a field ``name: Literal[...] = value``, and a call that
gives such a field by keyword. What the keys are called does not matter.
"""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Value = str | int | float | bool
_HEADER = re.compile(r"^\s*\[([^\[\]]+)\]\s*(?:#.*)?$")


@dataclass(frozen=True)
class Knob:
    """A declared knob: where it stands, what it is, what it may be."""

    path: str
    name: str
    line: int
    """From 1: the line that holds the value."""
    value: Value
    allowed: tuple[Value, ...]
    literal: tuple[int, int]
    """Columns of the value in that line, end exclusive, in characters."""

    def moved(self, text: str, value: Value) -> tuple[str, str]:
        """Old and new text of an edit that sets ``value``; the old text occurs once in ``text``."""
        rows = text.split("\n")
        first, row = self.line - 1, rows[self.line - 1]
        new = row[: self.literal[0]] + _written(value, self.path) + row[self.literal[1] :]
        while text.count("\n".join(rows[first : self.line])) > 1 and first:
            first -= 1
        before = rows[first : self.line - 1]
        return "\n".join([*before, row]), "\n".join([*before, new])


@lru_cache(256)
def knobs(path: str, text: str) -> tuple[Knob, ...]:
    """Every knob that a file declares, in its order; none where it cannot be read."""
    try:
        return tuple(_of_toml(path, text) if path.endswith(".toml") else _of_python(path, text))
    except (ValueError, SyntaxError, RecursionError):
        return ()


def _written(value: Value, path: str) -> str:
    if isinstance(value, bool):
        return str(value).lower() if path.endswith(".toml") else str(value)
    return json.dumps(value) if isinstance(value, str) else repr(value)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _choices(value: Any, listed: Any) -> bool:
    """A list of at least two scalars of one type that holds the value."""
    return isinstance(listed, list) and len(listed) >= 2 and any(_same(value, v) for v in listed) and len({type(v) for v in listed}) == 1


def _declared(table: dict[str, Any], at: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, list[Value]]]:
    """(keys that lead to the value, name, allowed values) of each knob below a table."""
    lists = {key: v for key, v in table.items() if isinstance(v, list)}
    scalars = {key: v for key, v in table.items() if isinstance(v, (str, int, float))}
    held = [key for key, v in scalars.items() if any(_choices(v, listed) for listed in lists.values())]
    if at and len(lists) == 1 and len(held) == 1:
        yield (*at, held[0]), ".".join(at), next(iter(lists.values()))
        return
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _declared(value, (*at, key))
        beside = [listed for name, listed in lists.items() if name.startswith(key) and key in scalars and _choices(value, listed)]
        if len(beside) == 1:
            yield (*at, key), ".".join((*at, key)), beside[0]


def _of_toml(path: str, text: str) -> Iterator[Knob]:
    places = _places(text)
    for keys, name, allowed in _declared(tomllib.loads(text), ()):
        if keys in places:
            line, start, stop = places[keys]
            (value,) = tomllib.loads(f"v = {text.split(chr(10))[line - 1][start:stop]}").values()
            yield Knob(path, name, line, value, tuple(allowed), (start, stop))


def _places(text: str) -> dict[tuple[str, ...], tuple[int, int, int]]:
    """Keys that lead to a scalar -> line from 1, and the columns of the scalar."""
    found: dict[tuple[str, ...], tuple[int, int, int]] = {}
    section: tuple[str, ...] = ()
    for number, row in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(row):
            section = tuple(part.strip().strip("\"'") for part in header[1].split("."))
        elif assigned := re.match(r"^\s*([\w.\"'-]+)\s*=\s*(?=\S)", row):
            keys = (*section, *(part.strip("\"'") for part in assigned[1].split(".")))
            for inner, start, stop in _scalars(row, assigned.end()):
                found[(*keys, *inner)] = (number, start, stop)
    return found


_SCALAR = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|true|false|[+-]?\d[\w.+-]*"


def _scalars(row: str, start: int) -> Iterator[tuple[tuple[str, ...], int, int]]:
    """Scalars of what is assigned from a column on: itself, or those of an inline table that are no table."""
    if whole := re.compile(_SCALAR).match(row, start):
        yield (), whole.start(), whole.end()
    elif row[start] == "{":
        for inner in re.finditer(rf"[{{,]\s*([\w\"'-]+)\s*=\s*({_SCALAR})", row[start:]):
            yield (inner[1].strip("\"'"),), start + inner.start(2), start + inner.end(2)


def _of_python(path: str, text: str) -> Iterator[Knob]:
    rows, tree = text.split("\n"), ast.parse(text)
    fields: dict[str, dict[str, tuple[Value, ...]]] = {}
    for scope in ast.walk(tree):
        if isinstance(scope, (ast.ClassDef, ast.Module)):
            owner = scope.name if isinstance(scope, ast.ClassDef) else ""
            for node in scope.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and (allowed := _literal(node.annotation)):
                    fields.setdefault(owner, {})[node.target.id] = allowed
                    yield from _at(path, rows, ".".join(filter(None, (owner, node.target.id))), node.value, allowed)
    for name, call in _calls(tree, ""):
        for keyword in call.keywords:
            allowed = fields.get(call.func.id, {}).get(keyword.arg or "", ()) if isinstance(call.func, ast.Name) else ()
            yield from _at(path, rows, f"{name}.{keyword.arg}", keyword.value, allowed)


def _literal(annotation: ast.expr) -> tuple[Value, ...]:
    """The values of ``Literal[...]``; empty for any other annotation."""
    if not isinstance(annotation, ast.Subscript) or ast.unparse(annotation.value).rpartition(".")[2] != "Literal":
        return ()
    listed = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    values = [v.value for v in listed if isinstance(v, ast.Constant)]
    return tuple(v for v in values if isinstance(v, (str, int, float)))


def _calls(node: ast.AST, name: str) -> Iterator[tuple[str, ast.Call]]:
    """Calls and what they are called: the dictionary key or the variable that they are given to."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            yield from _calls(value, str(key.value) if isinstance(key, ast.Constant) else name)
        return
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
    if isinstance(node, ast.Call):
        yield name, node
    for child in ast.iter_child_nodes(node):
        yield from _calls(child, name)


def _at(path: str, rows: list[str], name: str, node: ast.expr | None, allowed: tuple[Value, ...]) -> Iterator[Knob]:
    if isinstance(node, ast.Constant) and len(allowed) >= 2 and any(_same(node.value, v) for v in allowed) and node.end_col_offset:
        data = rows[node.lineno - 1].encode()  # columns of the syntax tree count bytes
        start, stop = (len(data[:n].decode()) for n in (node.col_offset, node.end_col_offset))
        value = next(v for v in allowed if _same(node.value, v))
        yield Knob(path, name, node.lineno, value, allowed, (start, stop))
