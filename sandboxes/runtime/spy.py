"""py-spy as a subprocess: native stacks of another process, without its GIL."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandboxes.runtime.request import WORKSPACE

RATE = 200
"""Samples a second: each stops the process for well under a millisecond."""
_SLACK_S = 30.0
"""For reading symbols before the first sample, on a busy machine."""
_FRAME = re.compile(r"^(?P<name>.*) \((?P<file>.*?)(?::(?P<line>\d+))?\)$")
_ADDRESS = re.compile(r"^0x[0-9a-f]+$")
_WAITS_FOR_GIL = {"take_gil", "pthread_cond_timedwait", "pthread_cond_clockwait"}
_LIBC = re.compile(r"(^|/)(libc|libpthread|ld-linux)[-.][^/]*$|^\[vdso\]$")
_PYTHON = re.compile(r"(^|/)(libpython|python)[^/]*$|ceval_gil\.h$|ceval\.c$")
_BRIDGE = re.compile(r"(^|/)(_ctypes|libffi)[-.][^/]*$|(^|/)_ctypes\.c$|(^|/)callproc\.c$")
_MACHINERY = re.compile(
    r"^(_?PyObject_|_?PyEval_|_PyFunction|_?PyVectorcall|cfunction_|method_vectorcall|slot_tp_|type_call|vectorcall_"
    r"|ffi_|_?call_function_pointer|_ctypes_callproc|PyCFuncPtr_call)"
)
"""How the interpreter calls C, not what it called."""


@dataclass(frozen=True)
class Frame:
    """One frame: a Python one has a line, a native one of a library without debug information has none."""

    name: str
    file: str
    line: int
    native: bool


Stack = list[Frame]
"""Outermost first."""


@dataclass
class Samples:
    """What ``record`` saw of one thread: stacks and how often each. ``rounds`` is how often it looked."""

    rounds: int
    stacks: list[tuple[str, Stack, int]] = field(default_factory=list)


class SpyError(Exception):
    """py-spy is missing or was refused; the text says which."""


def executable() -> str:
    """Path of py-spy; raises SpyError when it is not installed."""
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")
    if not found:
        raise SpyError("py-spy is not installed")
    return found


def record(pid: int, seconds: float, *, holders: bool) -> Samples:
    """Sample ``pid``: with ``holders`` the thread that has the GIL at that moment, else every thread. Raises SpyError."""
    out = f"{os.environ.get('TMPDIR', '/tmp')}/py-spy-{pid}-{int(holders)}"
    whole = max(1, round(seconds))
    argv = ["record", "--gil" if holders else "--idle", "--native", "--threads", "--full-filenames", "--format", "raw"]
    argv += ["--output", out, "--duration", str(whole), "--rate", str(RATE), "--pid", str(pid)]
    _spy(argv, whole + _SLACK_S)
    try:
        lines = Path(out).read_text().splitlines()
        Path(out).unlink()
    except OSError as error:
        raise SpyError(f"py-spy left no samples: {error}") from error
    return Samples(whole * RATE, [parsed for line in lines if (parsed := _stack(line))])


def dump(pid: int) -> list[dict[str, Any]]:
    """One look at all threads: name, ident, os_thread_id, owns_gil and ``stack``, outermost first. Raises SpyError."""
    threads = json.loads(_spy(["dump", "--native", "--json", "--pid", str(pid)], _SLACK_S))
    keys = {"name": "thread_name", "ident": "thread_id", "native_id": "os_thread_id", "owns_gil": "owns_gil"}
    return [{ours: thread[theirs] for ours, theirs in keys.items()} | {"stack": _frames(thread["frames"])} for thread in threads]


def _frames(frames: list[dict[str, Any]]) -> Stack:
    return [Frame(f["name"], f["filename"], f["line"], bool(f["module"])) for f in reversed(frames)]


def _spy(argv: list[str], timeout_s: float) -> str:
    try:
        done = subprocess.run([executable(), *argv], capture_output=True, text=True, check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise SpyError(f"py-spy did not end within {timeout_s:.0f} s") from error
    except OSError as error:
        raise SpyError(f"py-spy does not run: {error}") from error
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise SpyError(f"py-spy: {'; '.join(said[:2])[:200] or f'exit status {done.returncode}'}")
    return done.stdout


def _stack(line: str) -> tuple[str, Stack, int] | None:
    """``thread (11): name;frame;frame 12`` as name, frames, count; None for a line of another shape."""
    text, _, count = line.rpartition(" ")
    head, *rest = text.split(";")
    thread = head.partition("): ")[2] or head
    if not count.isdigit():
        return None
    matches = [_FRAME.match(part) for part in rest]
    return thread, [_frame(match) for match in matches if match], int(count)


def _frame(match: re.Match[str]) -> Frame:
    file = match["file"]
    return Frame(match["name"], file, int(match["line"] or 0), not file.endswith((".py", ">")))


def workspace_place(stack: Stack) -> tuple[str, int] | None:
    """The innermost line of the workspace that is on the stack, relative to it."""
    for frame in reversed(stack):
        if not frame.native and frame.file.startswith(WORKSPACE + "/"):
            return frame.file.removeprefix(WORKSPACE + "/"), frame.line
    return None


def native_tail(stack: Stack) -> Stack:
    """The native frames under the last Python frame, outermost first; empty when the interpreter itself runs."""
    last = max((n for n, frame in enumerate(stack) if not frame.native), default=-1)
    return stack[last + 1 :]


def waits_for_gil(stack: Stack) -> bool:
    """Is the end of the stack the interpreter's own wait? In CPython's locks a semaphore waits, in its GIL a timed condition."""
    tail = native_tail(stack)
    at = next((n for n, frame in enumerate(tail) if frame.name in _WAITS_FOR_GIL), None)
    return at is not None and (at == 0 or tail[at].name == "take_gil" or bool(_PYTHON.search(tail[at - 1].file)))


def called(stack: Stack) -> Frame | None:
    """The C function that the last Python line called; None when the interpreter itself was at work."""
    tail = [frame for frame in native_tail(stack) if not _MACHINERY.match(frame.name) and not _BRIDGE.search(frame.file)]
    own = [frame for frame in tail if not _LIBC.search(frame.file)]
    for frames in (own, tail):
        named = next((frame for frame in frames if not _ADDRESS.match(frame.name)), None)
        if named:
            return named
    return next(iter(own), None)


def functions(stacks: list[tuple[Stack, int]]) -> tuple[str, str]:
    """The C function that was called most often, with its library or source line, and the one most often at work inside; "" for none."""
    by_call: Counter[str] = Counter()
    vague: Counter[str] = Counter()  # unwinding went no further than the C library, or has no symbol: less telling than any other
    inside: Counter[str] = Counter()
    for stack, count in stacks:
        first = called(stack)
        (vague if first and (_LIBC.search(first.file) or _ADDRESS.match(first.name)) else by_call)[_told(first, stack)] += count
        named = [f for f in native_tail(stack) if not _ADDRESS.match(f.name) and f is not first and not _MACHINERY.match(f.name)]
        if first and named:
            inside[spelled(named[-1])] += count
    outside = {name: count for name, count in by_call.items() if name}
    best = Counter(outside if sum(outside.values()) * 10 >= vague.total() and outside else vague)
    if by_call[""] > best.total():
        return "", ""
    return (best.most_common(1)[0][0] if best else ""), (inside.most_common(1)[0][0] if inside else "")


def _told(first: Frame | None, stack: Stack) -> str:
    """The function as a reader sees it; where frames above it are lost, so is who Python called."""
    if first is None:
        return ""
    lost = any(frame.file == "?" for frame in native_tail(stack))
    return spelled(first) + (", under a function whose stack cannot be unwound," if lost else "")


def spelled(frame: Frame) -> str:
    """``hold (gilext.so)``, or ``hold (gilext.c:7)`` where there is debug information."""
    return f"{frame.name} ({Path(frame.file).name}{f':{frame.line}' if frame.line else ''})"
