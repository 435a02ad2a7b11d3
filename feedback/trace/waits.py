"""What a Python thread that does not run is waiting for: told by the system call it sleeps in and by the interpreter's frames."""

import ctypes
import dis
import functools
import os
import platform
import threading
import time
from types import CodeType, FrameType

from sandboxes.runtime.observed import native_id

_SYSCALLS = {"x86_64": (202, {35, 230}), "aarch64": (98, {101, 115})}
"""Machine -> number of futex, numbers of nanosleep and clock_nanosleep."""
_PAGE = 4096
_HOLD_NS = 2_000_000

_libc = ctypes.PyDLL(None)  # calls of a PyDLL keep the GIL: looking at threads must not let them run on meanwhile
_pread, _buffer = _libc.pread, ctypes.create_string_buffer(256)
_pread.argtypes, _pread.restype = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_long], ctypes.c_ssize_t


class Task:
    """Files of ``/proc/self/task/<id>``, read again and again with the GIL held."""

    def __init__(self, number: int) -> None:
        self._files = {name: self._open(f"/proc/self/task/{number}/{name}") for name in ("syscall", "schedstat")}

    @staticmethod
    def _open(path: str) -> int:
        try:
            return os.open(path, os.O_RDONLY)
        except OSError:
            return -1  # the thread is gone, or this kernel has no such file: read() then says ""

    def read(self, name: str) -> str:
        """The file's text, at most 255 bytes; empty where there is none."""
        file = self._files[name]
        size = _pread(file, _buffer, 255, 0) if file >= 0 else 0
        return _buffer.raw[:size].decode() if size > 0 else ""

    def queued_ns(self) -> int:
        """How long the thread was ready and had no core, so far; 0 where the kernel does not say."""
        words = self.read("schedstat").split()
        return int(words[1]) if len(words) > 1 else 0

    def close(self) -> None:
        """Let the files go."""
        for file in self._files.values():
            if file >= 0:
                os.close(file)


class Reasons:
    """Names the reason of a wait: lock | condition | join | gil | sleep | io | wait (not known)."""

    def __init__(self) -> None:
        """Finds out where the GIL lies: a thread that must wait for it is watched while this one keeps it."""
        self._futex, self._sleeps = _SYSCALLS.get(platform.machine(), (-1, set()))
        self._gil = self._find_gil()

    def _find_gil(self) -> int:
        """The address of the GIL's condition; 0 where system calls cannot be read."""
        over = threading.Event()
        thread = threading.Thread(target=_spin, args=(over,), name="trace-calibration", daemon=True)
        thread.start()
        task, found = Task(native_id(thread) or 0), 0
        until = time.perf_counter_ns() + _HOLD_NS
        while not found and time.perf_counter_ns() < until:
            number, address = self._call(task.read("syscall"))
            found = address if number == self._futex else 0
        task.close()
        over.set()
        thread.join()
        return found

    @staticmethod
    def _call(text: str) -> tuple[int, int]:
        """Number and first argument of a system call; -1 of a thread that is in none."""
        words = text.split()
        return (int(words[0]), int(words[1], 16)) if len(words) > 2 else (-1, 0)

    def of(self, task: Task, frame: FrameType) -> str:
        """Why the thread, whose innermost frame this is, does not run. ``run`` when it has just begun to."""
        text = task.read("syscall")
        number, address = self._call(text)
        if text.startswith("running"):
            return "run"
        if number == self._futex:
            return "gil" if self._gil and abs(address - self._gil) < _PAGE else of_frame(frame)
        if number in self._sleeps:
            return "sleep"
        if number < 0:
            known = of_frame(frame)
            return known if known != "condition" or frame.f_code.co_filename == threading.__file__ else "wait"
        return "io"


def _spin(over: threading.Event) -> None:
    while not over.is_set():
        continue


def of_frame(frame: FrameType) -> str:
    """Which kind of lock a frame that waits for one stands at: lock (mutual exclusion) | join (a thread's end) | condition (the rest)."""
    name = frame.f_code.co_name
    if frame.f_code.co_filename == threading.__file__:
        if name in ("_wait_for_tstate_lock", "join"):
            return "join"
        return "condition" if name == "wait" else "lock"
    return "lock" if frame.f_lasti in _acquisitions(frame.f_code) else "condition"


@functools.lru_cache(maxsize=4096)
def _acquisitions(code: CodeType) -> frozenset[int]:
    """Offsets of the instructions that enter a ``with``, or call ``acquire`` of something whose own code is not Python's."""
    found, line, named = set(), 0, 0
    for step in dis.get_instructions(code):
        line = step.starts_line or line
        if step.opname in ("LOAD_METHOD", "LOAD_ATTR") and step.argval == "acquire":
            named = line
        if step.opname == "BEFORE_WITH" or (named == line and step.opname in ("PRECALL", "CALL")):
            found.add(step.offset)
    return frozenset(found)
