"""The pair of mappings a request shares with its judge: anonymous memory, nothing on disk, nothing left behind."""

import ctypes
import fcntl
import json
import mmap
import os
import struct
from dataclasses import dataclass
from typing import Any

from infra_agent.errors import SandboxError

_F_ADD_SEALS = 1033
_SEAL_SHRINK, _SEAL_GROW, _SEAL_SEAL, _SEAL_FUTURE_WRITE = 0x2, 0x4, 0x1, 0x10
GUARD = 4096
POISON = 0xFF
_DTYPE_SIZE = {"F64": 8, "F32": 4, "F16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


@dataclass(frozen=True)
class Slot:
    """Where one output tensor goes: dtype as safetensors names it, shape, offset and size in bytes."""

    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Layout:
    """Slots separated by guard pages, then the report area; ``end`` is the bytes in use."""

    slots: dict[str, Slot]
    report_offset: int
    report_bytes: int
    end: int


def plan(shapes: dict[str, tuple[str, tuple[int, ...]]], report_bytes: int) -> Layout:
    """Lay out outputs. ``shapes`` maps a stage to (dtype, shape)."""
    slots, offset = {}, GUARD
    for stage, (dtype, shape) in shapes.items():
        count = _DTYPE_SIZE[dtype]
        for size in shape:
            count *= size
        slots[stage] = Slot(dtype, tuple(shape), offset, count)
        offset += -(-count // GUARD) * GUARD + GUARD
    return Layout(slots, offset, report_bytes, offset + report_bytes)


def _place(program: str, args: dict[str, Any], sections: dict[str, bytes], layout: Layout) -> tuple[bytes, dict[str, tuple[int, int]], int]:
    """Head of a request, where its sections start and how long they are, and the bytes of all together."""
    slots = {stage: {"dtype": s.dtype, "shape": list(s.shape), "offset": s.offset} for stage, s in layout.slots.items()}
    report = [layout.report_offset, layout.report_bytes]
    placed: dict[str, tuple[int, int]] = {}
    head, offset = b"", 0
    for _ in range(2):  # the head's own length decides where sections start: the second pass has it right
        offset = -(-(8 + len(head) + 64) // GUARD) * GUARD
        for name, data in sections.items():
            placed[name] = offset, len(data)
            offset += -(-len(data) // GUARD) * GUARD
        head = json.dumps({"program": program, "args": args, "sections": placed, "slots": slots, "report": report}).encode()
    return head, placed, offset


class Mappings:
    """``in``: written by the host, sealed against any other writer. ``out``: written by the child, poisoned first.

    A pair belongs to one request and is as large as that needs: what a request wrote, or only looked at, is gone with it.
    """

    def __init__(self, program: str, args: dict[str, Any], sections: dict[str, bytes], layout: Layout, capacity: tuple[int, int]) -> None:
        """Write a request. Raises SandboxError when it needs more than ``capacity``, bytes in and out."""
        head, self._placed, size = _place(program, args, sections, layout)
        if size > capacity[0] or layout.end > capacity[1]:
            allowed = f"{capacity[0] >> 20} and {capacity[1] >> 20}"
            raise SandboxError(f"a request needs {size >> 20} MiB in and {layout.end >> 20} MiB out; the profile allows {allowed}")
        self.layout = layout
        self.in_fd, self._in = _memory("cage-in", size, _SEAL_FUTURE_WRITE)
        try:
            self.out_fd, self._out = _memory("cage-out", layout.end, 0)
        except OSError:
            self._in.close()
            os.close(self.in_fd)
            raise
        self._out_address = _address(self._out)
        self._in[:8] = struct.pack("<Q", len(head))
        self._in[8 : 8 + len(head)] = head
        for name, data in sections.items():
            self._in[self._placed[name][0] : self._placed[name][0] + len(data)] = data
        self.poison()

    def put(self, section: str, data: bytes) -> None:
        """Other bytes for a section of the request under way; raises ValueError when the length would change."""
        start, length = self._placed[section]
        if len(data) != length:
            raise ValueError(f"section {section}: {len(data)} bytes, {length} expected")
        self._in[start : start + length] = data

    def poison(self, length: int | None = None) -> None:
        """Fill the slots and their guards with 0xFF; only the first ``length`` bytes of them, where only those will be used."""
        ctypes.memset(self._out_address, POISON, self._within(length))

    def output(self, length: int | None = None) -> bytes:
        """A snapshot of the slots and their guards, or of their first ``length`` bytes."""
        return self._out[: self._within(length)]

    def _within(self, length: int | None) -> int:
        return self.layout.report_offset if length is None else min(length, self.layout.report_offset)

    def report(self) -> bytes | None:
        """The report the child left; empty when it left none, None when its stated length is impossible."""
        (length,) = struct.unpack_from("<Q", self._out, self.layout.report_offset)
        if length > self.layout.report_bytes - 8:
            return None
        start = self.layout.report_offset + 8
        return self._out[start : start + length]

    def close(self) -> None:
        """Release the memory. Safe to call twice."""
        if self._in.closed:
            return
        self._in.close()
        self._out.close()
        os.close(self.in_fd)
        os.close(self.out_fd)


def _address(view: mmap.mmap) -> int:
    """Where a mapping lies; nothing keeps a view of it, so that it can be closed."""
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


def _memory(name: str, size: int, seals: int) -> tuple[int, mmap.mmap]:
    """Anonymous memory of exactly ``size`` bytes for good, as a descriptor and the host's own view of it."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, size)
        view = mmap.mmap(descriptor, size)
        fcntl.fcntl(descriptor, _F_ADD_SEALS, _SEAL_SHRINK | _SEAL_GROW | _SEAL_SEAL | seals)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, view
