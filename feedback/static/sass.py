"""A cubin that was handed in: what its machine code says. Nothing is compiled, and the entry is not called."""

import hashlib
import re
from collections import Counter
from pathlib import Path
from typing import TypedDict

from feedback.static import binary
from feedback.static.memory import Width
from feedback.static.places import Place
from sandboxes.runtime import entry, request

_TENSOR_CORE = re.compile(r"^(?:[HIDQO]MMA|[HIQBD]GMMA|UTC\w*MMA)$")
_ACCESSES = {"LDG": "load", "STG": "store", "LDGSTS": "load", "ATOMG": "atomic", "REDG": "atomic", "RED": "atomic", "ATOM": "atomic"}
_BULK = {"UTMALDG": "load", "UTMASTG": "store", "UBLKCP": "load"}
_WIDTH = re.compile(r"\.(?:[US]?(8|16|32|64|128|256))(?=\.|$)")
_DEFAULT = 4  # bytes: a suffix says every other width


class Binary(TypedDict):
    """One function of a cubin. Counts are of instructions in the code; registers and stack bytes are per thread."""

    name: str
    cubin_sha256: str
    registers: int
    stack_bytes: int
    shared_bytes: int
    spills: list[binary.Spill]
    tensor_core: dict[str, int]
    widths: list[Width]


def _located(place: Place) -> tuple[str, int]:
    return entry.relative(place.file), place.line


def _size(name: str) -> int:
    found = _WIDTH.search(name)
    return int(found[1]) // 8 if found else _DEFAULT


def _widths(code: list[tuple[Place, str]]) -> list[Width]:
    sizes: dict[tuple[str, int, str], list[int]] = {}
    for place, name in code:
        operation = name.partition(".")[0]
        if operation in _ACCESSES:
            sizes.setdefault((*_located(place), _ACCESSES[operation]), []).append(_size(name))
        elif operation in _BULK:
            sizes.setdefault((*_located(place), _BULK[operation]), []).append(0)
    rows: list[Width] = []
    for (file, line, kind), moved in sorted(sizes.items()):
        own = [size for size in moved if size]
        widest, narrowest, bulk = max(own, default=0), min(own, default=0), len(moved) - len(own)
        rows.append(Width(file=file, line=line, kind=kind, widest=widest, narrowest=narrowest, instructions=len(moved), bulk=bulk))
    return rows


def describe(path: str) -> list[Binary]:
    """Each function of the cubin ``path``, relative to the workspace.

    Raises RuntimeError with what the tool said when it is no cubin, ValueError when it is not in the workspace.
    """
    root = Path(request.WORKSPACE).resolve()
    file = (root / path).resolve()
    if not file.is_relative_to(root) or not file.is_file():
        raise ValueError(f"cubin {path!r}: no such file in the workspace")
    listed = binary.functions(file)
    code = binary.disassembled(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    found: list[Binary] = []
    for name, used in listed.items():
        own = [(place, instruction) for function, place, instruction in code if function == name]
        cores = Counter(operation for _, one in own if _TENSOR_CORE.match(operation := one.partition(".")[0]))
        found.append(
            Binary(
                name=name,
                cubin_sha256=digest,
                registers=used.registers,
                stack_bytes=used.stack_bytes,
                shared_bytes=used.shared_bytes,
                spills=binary.spills_in(own),
                tensor_core=dict(cores),
                widths=_widths(own),
            )
        )
    return found
