"""Source lines out of MLIR locations and inline chains."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import triton

from sandboxes.runtime.request import WORKSPACE

_TRITON = triton.__path__[0]
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_PART = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)|(#loc\d*)')


@dataclass(frozen=True)
class Place:
    """A line of a file; column 0 when it is not known, line 0 when nothing is."""

    file: str
    line: int
    column: int = 0


Chain = tuple[Place, ...]
"""Where an operation stands, then where the function that holds it was called from, and so on outwards."""


def of_user(chain: Iterable[Place]) -> Place:
    """The innermost place in the workspace; else outside Triton's own library; else any."""
    places = list(chain)
    for place in places:
        if place.file.startswith(WORKSPACE + "/"):
            return place
    for place in places:
        if not place.file.startswith(_TRITON):
            return place
    return places[0] if places else Place("", 0)


class Locations:
    """The locations of one MLIR module, printed with aliases (``#loc3 = loc(...)``)."""

    def __init__(self, text: str) -> None:
        self._aliases = dict(_ALIAS.findall(text))

    def chain(self, line: str) -> Chain:
        """The places of the operation printed on ``line``; empty when its location is unknown."""
        _, found, location = line.rpartition(" loc(")
        return tuple(self._expand(location)) if found else ()

    def _expand(self, location: str) -> list[Place]:
        """Every place in a location, in the order it is written.

        MLIR writes callsite(callee at caller), name(child) and fused[a, b]: in that order a chain comes out innermost first.
        """
        places: list[Place] = []
        for file, line, column, alias in _PART.findall(location):
            places += self._expand(self._aliases.get(alias, "")) if alias else [Place(file, int(line), int(column))]
        return places
