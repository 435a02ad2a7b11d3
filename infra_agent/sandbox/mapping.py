"""The pair of mappings a cage shares with its judge: anonymous memory, nothing on disk, nothing left behind."""

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
_PUNCH_HOLE = 0x1 | 0x2  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
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


class Mappings:
    """``in``: written by the host, sealed against any other writer. ``out``: written by the child, poisoned first."""

    def __init__(self, in_mb: int, out_mb: int) -> None:
        self.in_size, self.out_size = in_mb << 20, out_mb << 20
        self.in_fd = os.memfd_create("cage-in", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self.out_fd = os.memfd_create("cage-out", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.in_fd, self.in_size)
        os.ftruncate(self.out_fd, self.out_size)
        self._in, self._out = mmap.mmap(self.in_fd, self.in_size), mmap.mmap(self.out_fd, self.out_size)
        fixed = _SEAL_SHRINK | _SEAL_GROW | _SEAL_SEAL
        fcntl.fcntl(self.in_fd, _F_ADD_SEALS, fixed | _SEAL_FUTURE_WRITE)
        fcntl.fcntl(self.out_fd, _F_ADD_SEALS, fixed)
        self._in_used = 0
        self._placed: dict[str, list[int]] = {}

    def write(self, program: str, args: dict[str, Any], sections: dict[str, bytes], layout: Layout) -> int:
        """Write a request; returns its length in bytes. Nothing of the previous request is left in either mapping."""
        placed: dict[str, list[int]] = {}
        head, offset = b"", 0
        for _ in range(2):  # the head's own length decides where sections start: the second pass has it right
            offset = -(-(8 + len(head) + 64) // GUARD) * GUARD
            for name, data in sections.items():
                placed[name] = [offset, len(data)]
                offset += -(-len(data) // GUARD) * GUARD
            head = self._head(program, args, placed, layout)
        if offset > self.in_size or layout.end > self.out_size:
            allowed = f"{self.in_size >> 20} and {self.out_size >> 20}"
            raise SandboxError(f"a request needs {offset >> 20} MiB in and {layout.end >> 20} MiB out; the profile allows {allowed}")
        self._wipe_input(max(offset, self._in_used))
        self._in[:8] = struct.pack("<Q", len(head))
        self._in[8 : 8 + len(head)] = head
        for name, data in sections.items():
            self._in[placed[name][0] : placed[name][0] + len(data)] = data
        self._in_used, self._placed = offset, placed
        self.poison(layout)
        return offset

    def put(self, section: str, data: bytes) -> None:
        """Other bytes for a section of the request under way; raises ValueError when the length would change."""
        start, length = self._placed[section]
        if len(data) != length:
            raise ValueError(f"section {section}: {len(data)} bytes, {length} expected")
        self._in[start : start + length] = data

    @staticmethod
    def _head(program: str, args: dict[str, Any], placed: dict[str, list[int]], layout: Layout) -> bytes:
        slots = {stage: {"dtype": s.dtype, "shape": list(s.shape), "offset": s.offset} for stage, s in layout.slots.items()}
        report = [layout.report_offset, layout.report_bytes]
        return json.dumps({"program": program, "args": args, "sections": placed, "slots": slots, "report": report}).encode()

    def _wipe_input(self, size: int) -> None:
        """Zero what earlier requests wrote; the seal forbids a hole, the host's own mapping may write."""
        view = ctypes.c_char.from_buffer(self._in)
        ctypes.memset(ctypes.addressof(view), 0, size)

    def poison(self, layout: Layout) -> None:
        """Give back every page a child wrote anywhere in ``out``, then fill this layout's slots and guards with 0xFF."""
        if ctypes.CDLL(None, use_errno=True).fallocate(self.out_fd, _PUNCH_HOLE, ctypes.c_long(0), ctypes.c_long(self.out_size)):
            raise SandboxError(f"the output mapping cannot be emptied: {os.strerror(ctypes.get_errno())}")
        self._out[: layout.report_offset] = bytes([POISON]) * layout.report_offset

    def output(self, layout: Layout) -> bytes:
        """A snapshot of the slots and their guards, taken once after the request's last process is gone."""
        return self._out[: layout.report_offset]

    def report(self, layout: Layout) -> bytes | None:
        """The report the child left; empty when it left none, None when its stated length is impossible."""
        (length,) = struct.unpack_from("<Q", self._out, layout.report_offset)
        if length > layout.report_bytes - 8:
            return None
        start = layout.report_offset + 8
        return self._out[start : start + length]

    def close(self) -> None:
        """Release the memory."""
        self._in.close()
        self._out.close()
        os.close(self.in_fd)
        os.close(self.out_fd)
