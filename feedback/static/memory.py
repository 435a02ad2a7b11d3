"""Bytes that one instruction of a thread moves to or from global memory, by source line, read from PTX."""

import re
from typing import TypedDict

from feedback.static import places
from feedback.static.places import Place
from sandboxes.runtime import entry

_ACCESS = re.compile(r"^\s*(?:@!?%p\d+ )?(?P<name>(?:ld|st|atom|red)\.[\w.:]*\bglobal\b[\w.:]*)\s")
_COPY = re.compile(r"^\s*(?:@!?%p\d+ )?cp\.async\.c[ag]\.shared\.global[\w.:]*\s+\[[^]]*\],\s*\[[^]]*\],\s*(?P<bytes>0x[0-9a-f]+|\d+)")
_BULK = re.compile(r"^\s*(?:@!?%p\d+ )?cp\.async\.bulk\.tensor\.[\w.:]*?(?P<to>shared|global)")
_VECTOR = re.compile(r"\.v(\d)\b")
_ELEMENT = re.compile(r"\.[busf](?P<bits>8|16|32|64|128)\b|\.(?:b?f16)(?P<pair>x2)?\b")
_KINDS = {"ld": "load", "st": "store", "atom": "atomic", "red": "atomic"}


class Width(TypedDict):
    """Bytes per thread of the widest and the narrowest instruction of a line; ``bulk``: copies by the tensor memory accelerator."""

    file: str
    line: int
    kind: str
    widest: int
    narrowest: int
    instructions: int
    bulk: int


def _moved(line: str) -> tuple[str, int] | None:
    """Kind and bytes of the access on a line of PTX; 0 bytes for a bulk copy, which no thread makes alone."""
    if found := _ACCESS.match(line):
        vector, element = _VECTOR.search(found["name"]), _ELEMENT.search(found["name"])
        if element is None:
            return None
        bits = int(element["bits"] or (32 if element["pair"] else 16))
        return _KINDS[found["name"].partition(".")[0]], bits // 8 * (int(vector[1]) if vector else 1)
    if found := _COPY.match(line):
        return "load", int(found["bytes"], 0)
    if found := _BULK.match(line):
        return ("load" if found["to"] == "shared" else "store"), 0
    return None


def widths(ptx: str) -> list[Width]:
    """By line and kind, in the order of the lines."""
    found: dict[tuple[Place, str], list[int]] = {}
    for place, line in places.of_ptx(ptx):
        if moved := _moved(line):
            found.setdefault((place, moved[0]), []).append(moved[1])
    return [_width(place, kind, sizes) for (place, kind), sizes in sorted(found.items(), key=lambda one: (one[0][0].file, one[0][0].line))]


def _width(place: Place, kind: str, sizes: list[int]) -> Width:
    own = [size for size in sizes if size]
    return {
        "file": entry.relative(place.file),
        "line": place.line,
        "kind": kind,
        "widest": max(own, default=0),
        "narrowest": min(own, default=0),
        "instructions": len(sizes),
        "bulk": len(sizes) - len(own),
    }
