"""A timeline of every Python thread, by looking: which line it stands at, and whether it runs, is ready, or waits for what.

``torch.profiler`` with stacks, and a profiling function, know the lines of ``def`` only, make a Python loop several times slower, and the
former sees no thread that begins later. A look each millisecond costs a few percent and sees the line itself.
"""

import sys
import threading
import time
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from feedback.trace.waits import Reasons, Task
from sandboxes.runtime.entry import relative
from sandboxes.runtime.observed import frames_of_threads, native_id
from sandboxes.runtime.request import WORKSPACE

PERIOD_S = 1e-3
_SWITCH_S = 5e-4
"""The interpreter's switch interval meanwhile: with the usual 5 ms a look would have to wait that long for a thread in Python code."""
_DEEPEST = 60
_READY = ("run", "gil")
_LEAST = 0.05
"""Share of the time between two looks below which a thread did not run, or did not wait."""
_THREAD_CLOCK = 6
"""CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED of Linux: the clock of any thread of the process, by its id."""
Stack = tuple[tuple[CodeType, int], ...]
"""Code and line of each frame, innermost first."""


@dataclass
class Piece:
    """A stretch of one thread's time in which its state and stack stayed the same. Times in ns of ``perf_counter``."""

    start: int
    end: int
    state: str
    stack: Stack


@dataclass
class Track:
    """What was seen of one thread. ``used``: its CPU time and run-queue wait at the last look, in ns."""

    name: str
    task: Task
    used: int = 0
    pieces: list[Piece] = field(default_factory=list)

    def pass_(self, began: int, now: int, ran: int, reasons: Reasons, frame: FrameType) -> None:
        """Between two looks it ran for ``ran`` ns, and waited for the rest; which came first follows from what it does now."""
        stack = _stack(frame)
        if ran == now - began:
            self._add(began, now, "run", stack)
            return
        state = reasons.of(self.task, frame)
        last = self.pieces[-1] if self.pieces else None
        if state in _READY:
            self._ready(began, now, ran, state, last or Piece(0, 0, "", stack), stack)
            return
        if ran >= _LEAST * (now - began):
            self._add(began, began + ran, "run", last.stack if last and last.state == "run" else stack)
            began += ran
        self._add(began, now, state, stack)

    def _ready(self, began: int, now: int, ran: int, state: str, last: Piece, stack: Stack) -> None:
        """It runs now, or would with the GIL, which whoever looks has: before that it waited where it was last seen to wait."""
        little = ran < _LEAST * (now - began)
        if last.state == "run":  # what is missing it was neither seen to wait nor ready: another machine had the core
            self._add(began, now, "gil" if little and state == "gil" else "run", stack)
            return
        if last.state:  # else it has just begun
            self._add(began, now if little else now - ran, last.state, last.stack)
        if not little:
            self._add(now - ran, now, "run", stack)

    def _add(self, began: int, now: int, state: str, stack: Stack) -> None:
        last = self.pieces[-1] if self.pieces else None
        if last and last.end == began and last.state == state and last.stack == stack:
            last.end = now
        elif now > began:
            self.pieces.append(Piece(began, now, state, stack))


class Sampler(threading.Thread):
    """Looks from ``start`` to ``stop`` at every thread but itself; ``tracks`` then maps a native thread id to what was seen."""

    def __init__(self, period_s: float = PERIOD_S) -> None:
        """``period_s``: between two looks."""
        super().__init__(name="trace-sampler", daemon=True)
        self._period, self._over, self._reasons = period_s, threading.Event(), Reasons()
        self.tracks: dict[int, Track] = {}
        self.looks = self.spent_ns = 0
        self._last = 0

    def __enter__(self) -> "Sampler":
        self._switch = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_S)
        self._look()  # the clocks at the beginning
        for track in self.tracks.values():
            track.pieces.clear()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()
        self._look()
        sys.setswitchinterval(self._switch)
        for track in self.tracks.values():
            track.task.close()

    def run(self) -> None:
        """See the class."""
        while not self._over.is_set():
            time.sleep(self._period)
            if not self._over.is_set():
                self._look()

    def _look(self) -> None:
        frames, now = frames_of_threads(), time.perf_counter_ns()
        for thread in threading.enumerate():
            frame, number = frames.get(thread.ident or 0), native_id(thread)
            if thread is not self and frame is not None and number:
                self._see(number, thread.name, frame, now)
        self._last = now
        self.looks += 1
        self.spent_ns += time.perf_counter_ns() - now

    def _see(self, number: int, name: str, frame: FrameType, now: int) -> None:
        track = self.tracks.get(number)
        if track is None:
            self.tracks[number] = track = Track(name, Task(number))
        try:
            used = time.clock_gettime_ns((~number << 3) | _THREAD_CLOCK) + track.task.queued_ns()
        except OSError:
            return  # it has just ended
        began = self._last or now
        length = max(1, now - began)
        ran, track.used = min(length, used - track.used), used
        track.pass_(began, now, ran if ran < (1 - _LEAST) * length else length, self._reasons, frame)

    def events(self) -> list[dict[str, Any]]:
        """The timeline as Chrome-trace events: functions as nested slices (``python``), and inside them the line and its state."""
        found: list[dict[str, Any]] = []
        for number, track in self.tracks.items():
            found.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": number, "args": {"name": track.name}})
            found += _functions(number, track.pieces)
            found += [_leaf(number, piece) for piece in track.pieces if piece.end > piece.start]
        return found


def _stack(frame: FrameType | None) -> Stack:
    found: list[tuple[CodeType, int]] = []
    while frame and len(found) < _DEEPEST:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def _leaf(number: int, piece: Piece) -> dict[str, Any]:
    inner = piece.stack[0][0]
    args: dict[str, Any] = {"function": inner.co_qualname}
    name = inner.co_qualname
    for code, line in piece.stack:
        if code.co_filename.startswith(WORKSPACE + "/"):
            args |= {"path": relative(code.co_filename), "line": line}
            name = f"{args['path']}:{line}"
            break
    return _slice(number, f"line.{piece.state}", name, piece.start, piece.end) | {"args": args}


def _functions(number: int, pieces: list[Piece]) -> list[dict[str, Any]]:
    """Slices of functions, outermost first: one lasts as long as looks find it, and those around it, where they were."""
    found: list[dict[str, Any]] = []
    open_: list[tuple[CodeType, int]] = []
    end = 0
    for piece in [*pieces, Piece(0, 0, "", ())]:
        codes = [code for code, _ in reversed(piece.stack)]
        same = 0
        if piece.start == end:
            while same < min(len(codes), len(open_)) and codes[same] is open_[same][0]:
                same += 1
        for code, began in reversed(open_[same:]):
            found.append(_slice(number, "python", f"{code.co_qualname} ({relative(code.co_filename)}:{code.co_firstlineno})", began, end))
        open_ = open_[:same] + [(code, piece.start) for code in codes[same:]]
        end = piece.end
    return found


def _slice(number: int, kind: str, name: str, start: int, end: int) -> dict[str, Any]:
    """Times from ns to the format's microseconds."""
    return {"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": number, "ts": start / 1e3, "dur": (end - start) / 1e3}
