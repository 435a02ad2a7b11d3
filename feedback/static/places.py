"""Source lines out of MLIR locations, PTX line notes and inline chains."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import triton

from sandboxes.runtime.request import WORKSPACE

_TRITON = triton.__path__[0]
_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$", re.MULTILINE)
_PART = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)|(#loc\d*)')

_PTX_FILE = re.compile(r'^\s*\.file\s+(\d+) "([^"]*)"', re.MULTILINE)
_PTX_NOTE = re.compile(r"^\s*\.loc\s+(\d+) (\d+) \d+(?:,.*inlined_at (\d+) (\d+))?")


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


def of_ptx(ptx: str) -> Iterator[tuple[Place, str]]:
    """Every line of a PTX text with the user's line it was made for; line 0 when nothing says.

    Of the notes inside one piece of inline assembly only the first holds: LLVM numbers the lines of the piece itself, so the
    later ones name lines further down in the file.
    """
    files = dict(_PTX_FILE.findall(ptx))
    place, notes_to_come = Place("", 0), -1  # -1: any number
    for line in ptx.splitlines():
        if "// begin inline asm" in line:
            notes_to_come = 1
        elif "// end inline asm" in line:
            notes_to_come = -1
        elif (note := _PTX_NOTE.match(line)) and notes_to_come:
            notes_to_come -= notes_to_come > 0
            if int(note[2]):  # line 0: code that belongs to no line, in the middle of what does
                pairs = [(note[1], note[2]), (note[3], note[4])]
                place = of_user([Place(files.get(file, ""), int(at)) for file, at in pairs if file])
        yield place, line
