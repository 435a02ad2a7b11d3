"""Registers, stack and spills of a cubin, read with the tools of the Triton wheel."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from triton import knobs

from feedback.static import places
from feedback.static.places import Place
from sandboxes.runtime import entry

_USAGE = re.compile(
    r"Function (?P<name>[^\n]+):\n\s*REG:(?P<registers>\d+) STACK:(?P<stack>\d+) SHARED:(?P<shared>\d+) LOCAL:(?P<local>\d+)"
)
_LINE_NOTE = re.compile(r'^\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)')
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(?P<name>[\w.]+)")
_SECTION = re.compile(r"^\s*\.section\s+\.text\.([^\s,]+)")


@dataclass(frozen=True)
class Usage:
    """Registers and bytes of stack of a thread, bytes of static shared memory, and whether any function has memory to spill to."""

    registers: int
    stack_bytes: int
    shared_bytes: int
    has_local_memory: bool


class Spill(TypedDict):
    """Instructions that store to (STL) or load from (LDL) thread-local memory on behalf of a source line."""

    file: str
    line: int
    stores: int
    loads: int


def _output(*command: str) -> str:
    """Standard output of a tool; raises RuntimeError with what it said when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{Path(command[0]).name} failed with status {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def functions(cubin: Path) -> dict[str, Usage]:
    """Resources of every function of ``cubin``; raises RuntimeError when the tool fails."""
    text = _output(knobs.nvidia.cuobjdump.path, "-res-usage", str(cubin))
    rows = {row["name"]: row for row in _USAGE.finditer(text)}
    spillable = any(int(one["stack"]) or int(one["local"]) for one in rows.values())
    return {name: Usage(int(row["registers"]), int(row["stack"]), int(row["shared"]), spillable) for name, row in rows.items()}


def usage(cubin: Path, function: str) -> Usage:
    """Resources of ``function`` in ``cubin``; raises RuntimeError when the tool fails or does not know it."""
    known = functions(cubin)
    if function not in known:
        raise RuntimeError(f"cuobjdump lists {', '.join(known) or 'no function'}, {function} is expected")
    return known[function]


def _instructions(disassembly: str) -> Iterator[tuple[str, Place, str]]:
    """Each instruction, modifiers included, with its function and the user's line it was made for.

    A run of notes is one inline chain, innermost first; it holds for the instructions up to the next run.
    """
    chain: list[Place] = []
    function, place, in_notes = "", Place("", 0), False
    for text in disassembly.splitlines():
        if section := _SECTION.match(text):
            function, place, in_notes = section[1], Place("", 0), False
        elif note := _LINE_NOTE.match(text):
            chain = chain if in_notes else []
            chain.append(Place(note["file"], int(note["line"])))
            in_notes = True
        elif instruction := _INSTRUCTION.match(text):
            if in_notes:
                place, in_notes = places.of_user(chain), False
            yield function, place, instruction["name"]


def disassembled(cubin: Path) -> list[tuple[str, Place, str]]:
    """Function, line and instruction of all of a cubin; raises RuntimeError when the disassembler fails."""
    return list(_instructions(_output(knobs.nvidia.nvdisasm.path, "-gi", "-c", str(cubin))))


def spills(cubin: Path) -> list[Spill]:
    """Spill instructions by source line, most first; raises RuntimeError when the disassembler fails.

    Takes about half a second for a large kernel: ask only when there is local memory.
    """
    return spills_in((place, name) for _, place, name in disassembled(cubin))


def spills_in(code: Iterable[tuple[Place, str]]) -> list[Spill]:
    """The same of instructions already read."""
    counts = Counter((place, kind) for place, name in code if (kind := name.partition(".")[0]) in ("STL", "LDL"))
    lines = {place for place, _ in counts}
    found: list[Spill] = [
        {"file": entry.relative(place.file), "line": place.line, "stores": counts[place, "STL"], "loads": counts[place, "LDL"]}
        for place in lines
    ]
    return sorted(found, key=lambda spill: (-spill["stores"] - spill["loads"], spill["file"], spill["line"]))
