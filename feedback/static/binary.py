"""Registers, stack and spills of a cubin, read with the tools of the Triton wheel."""

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from triton import knobs

from feedback.static import places
from feedback.static.places import Place
from sandboxes.runtime import entry

_USAGE = re.compile(r"Function (?P<name>[^\n]+):\n\s*REG:(?P<registers>\d+) STACK:(?P<stack>\d+) SHARED:\d+ LOCAL:(?P<local>\d+)")
_LINE_NOTE = re.compile(r'^\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)')
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(?P<name>\w+)")


@dataclass(frozen=True)
class Usage:
    """Registers a thread uses; bytes of stack a thread uses; whether any function of the cubin has memory to spill to."""

    registers: int
    stack_bytes: int
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


def usage(cubin: Path, function: str) -> Usage:
    """Resources of ``function`` in ``cubin``; raises RuntimeError when the tool fails or does not know it."""
    text = _output(knobs.nvidia.cuobjdump.path, "-res-usage", str(cubin))
    rows = {row["name"]: row for row in _USAGE.finditer(text)}
    if function not in rows:
        raise RuntimeError(f"cuobjdump lists {', '.join(rows) or 'no function'}, {function} is expected")
    row = rows[function]
    spillable = any(int(one["stack"]) or int(one["local"]) for one in rows.values())
    return Usage(int(row["registers"]), int(row["stack"]), spillable)


def _instructions(disassembly: str) -> Iterator[tuple[Place, str]]:
    """Each instruction with the user's line it was made for.

    A run of notes is one inline chain, innermost first; it holds for the instructions up to the next run.
    """
    chain: list[Place] = []
    place, in_notes = Place("", 0), False
    for text in disassembly.splitlines():
        if note := _LINE_NOTE.match(text):
            chain = chain if in_notes else []
            chain.append(Place(note["file"], int(note["line"])))
            in_notes = True
        elif instruction := _INSTRUCTION.match(text):
            if in_notes:
                place, in_notes = places.of_user(chain), False
            yield place, instruction["name"]


def spills(cubin: Path) -> list[Spill]:
    """Spill instructions by source line, most first; raises RuntimeError when the disassembler fails.

    Takes about half a second for a large kernel: ask only when there is local memory.
    """
    counts = Counter(
        pair for pair in _instructions(_output(knobs.nvidia.nvdisasm.path, "-gi", "-c", str(cubin))) if pair[1] in ("STL", "LDL")
    )
    lines = {place for place, _ in counts}
    found: list[Spill] = [
        {"file": entry.relative(place.file), "line": place.line, "stores": counts[place, "STL"], "loads": counts[place, "LDL"]}
        for place in lines
    ]
    return sorted(found, key=lambda spill: (-spill["stores"] - spill["loads"], spill["file"], spill["line"]))
