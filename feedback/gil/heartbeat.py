"""A thread that asks for the interpreter every millisecond, how late it gets it, and who had it.

A line is found without tracing: a holder that was made to give way stands at the very line of its call while the heartbeat runs.
Two looks: one at the program as it is, one with a switch interval so short that only a call that does not give way is late by much.
"""

import ctypes
import os
import sys
import threading
import time
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from sandboxes.runtime.entry import innermost, relative
from sandboxes.runtime.observed import frames_of_threads, native_id

PERIOD_NS = 1_000_000
LONG_NS = 2_000_000
"""A wait from here on is looked into: who held the GIL."""
_CALIBRATION = 40
_LONGEST, _DEEPEST = 5, 20
_PROBE_NS = 200_000
SHORT_S = 0.0005
"""The switch interval of the second look. Python code gives way within two of them (who begins to wait in the middle of a turn asks
a whole interval later), so a wait of many is one call, or many threads that take turns; these run less than the wait each."""
_THREAD_CLOCK = 6
"""CPUCLOCK_PERTHREAD | CPUCLOCK_SCHED of Linux: the clock of any thread of the process, by its id."""

_libc = ctypes.PyDLL(None)  # calls of a PyDLL keep the GIL: looking must not make the heartbeat wait once more
_pread, _buffer = _libc.pread, ctypes.create_string_buffer(128)
_pread.argtypes, _pread.restype = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_long], ctypes.c_ssize_t


@dataclass(frozen=True)
class Hold:
    """One long wait. ``thread`` is "" when nothing ran meanwhile; ``place`` is None outside the workspace. Nanoseconds."""

    thread: str
    place: tuple[str, int] | None
    wait_ns: int
    ran_ns: int
    """CPU time of that thread during the wait."""
    unasked_ns: int = 0
    """What of the wait the heartbeat itself had no core."""
    stack: tuple[str, ...] = ()
    """Where it stood, innermost first: ``path:line function``."""

    @property
    def length_ns(self) -> int:
        """How long the thread kept the GIL although it was asked, at least.

        What it was preempted for is the machine's doing, and not in its CPU time; while the heartbeat had no core nobody asked.
        """
        return max(0, min(self.wait_ns, self.ran_ns - self.unasked_ns)) if self.thread else self.wait_ns


class Clocks:
    """CPU time and run-queue wait of threads, in ns. Reading keeps the GIL."""

    def __init__(self) -> None:
        """Nothing is open yet."""
        self._files: dict[int, int] = {}
        self.blind = ""
        """Why run-queue wait is not known; empty when it is."""

    def queued(self, thread: int) -> int:
        """Time that the thread of this id was ready and waited for a core so far; 0 where the kernel does not say."""
        file = self._files.get(thread)
        if file is None:
            try:
                file = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY)
            except OSError as error:
                file = -1
                if thread == threading.get_native_id():  # of another one it means that it has just ended
                    self.blind = f"schedstat: {error.strerror}"
            self._files[thread] = file
        size = _pread(file, _buffer, 127, 0) if file >= 0 else 0
        return int(_buffer.raw[:size].split()[1]) if size > 0 else 0

    def others(self) -> dict[threading.Thread, tuple[int, int]]:
        """CPU time and run-queue wait of every thread that Python knows, but the one that asks."""
        me, found, ids = threading.current_thread(), {}, {threading.get_native_id()}
        for thread in threading.enumerate():
            number = native_id(thread)
            if thread is not me and number is not None:
                ids.add(number)
                try:
                    ran = time.clock_gettime_ns((~number << 3) | _THREAD_CLOCK)
                except OSError:
                    continue  # it has just ended
                found[thread] = (ran, self.queued(number))
        for gone in self._files.keys() - ids:
            if (file := self._files.pop(gone)) >= 0:
                os.close(file)
        return found


@dataclass
class Look:
    """What one stretch of beats saw. Nanoseconds."""

    interval_ns: int
    waits: list[int] = field(default_factory=list)
    """Of every beat."""
    holds: list[Hold] = field(default_factory=list)
    """Of the long ones."""
    wall_ns: int = 0

    def said(self) -> dict[str, Any]:
        """As plain data."""
        holds = [[hold.thread, hold.place, hold.wait_ns, hold.length_ns] for hold in self.holds]
        return {"interval_ns": self.interval_ns, "waits": self.waits, "holds": holds, "wall_ns": self.wall_ns}


class Heartbeat(threading.Thread):
    """Two looks of ``seconds`` each, from ``begin`` on. Its own overhead and the scheduler's share are subtracted from every wait."""

    def __init__(self, seconds: float) -> None:
        """Start it before the work: it first measures how late a beat is when nobody runs."""
        super().__init__(name="heartbeat", daemon=True)
        self._seconds = seconds
        self.calibrated, self.begin = threading.Event(), threading.Event()
        self.usual, self.hurried = Look(round(sys.getswitchinterval() * 1e9)), Look(round(SHORT_S * 1e9))
        self.queued_ns = 0
        self._clocks = Clocks()
        self._base = 0

    def run(self) -> None:
        """See the class."""
        idle = sorted(self._beat(None) for _ in range(_CALIBRATION))
        self._base = idle[len(idle) // 2]
        self.queued_ns = 0
        self.calibrated.set()
        self.begin.wait()
        for look in (self.usual, self.hurried):
            sys.setswitchinterval(look.interval_ns * 1e-9)
            began = time.perf_counter_ns()
            while look.wall_ns < self._seconds * 1e9:
                look.waits.append(self._beat(look))
                look.wall_ns = time.perf_counter_ns() - began
        sys.setswitchinterval(self.usual.interval_ns * 1e-9)

    def _beat(self, look: Look | None) -> int:
        """Nanoseconds of one wait that neither the scheduler nor the timer explains."""
        before, queued = self._clocks.others() if look else {}, self._clocks.queued(threading.get_native_id())
        began = time.perf_counter_ns()
        time.sleep(PERIOD_NS * 1e-9)
        late = time.perf_counter_ns() - began - PERIOD_NS
        frames = frames_of_threads() if look and late >= LONG_NS else {}
        queued = self._clocks.queued(threading.get_native_id()) - queued
        self.queued_ns += queued
        wait = max(0, late - queued - self._base)
        if look and wait >= LONG_NS:
            look.holds.append(self._holder(before, frames, (wait, queued)))
        return wait

    def _holder(self, before: dict[threading.Thread, tuple[int, int]], frames: dict[int, FrameType], late: tuple[int, int]) -> Hold:
        """The thread that ran, or would have, while this one waited; of several, one that stands still now that this one has the GIL.

        ``late``: the wait, and the time without a core that is not in it. A thread that was not there before has just begun.
        """
        wait, unasked = late
        now = self._clocks.others()
        zero = (0, 0)
        passed = {t: (ran - before.get(t, zero)[0], queued - before.get(t, zero)[1]) for t, (ran, queued) in now.items()}
        suspects = [thread for thread, (ran, queued) in passed.items() if ran + queued >= wait // 2]
        if len(suspects) > 1:
            until = time.perf_counter_ns() + _PROBE_NS
            while time.perf_counter_ns() < until:
                continue
            later = self._clocks.others()
            still = [t for t in suspects if t not in later or later[t][0] - now[t][0] < _PROBE_NS // 2]
            suspects = still or suspects
        if not suspects and sum(ran for ran, _ in passed.values()) < wait // 2:
            return Hold("", None, wait, 0)
        thread = max(suspects or passed, key=lambda t: sum(passed[t]))
        frame = frames.get(thread.ident or 0)
        return Hold(thread.name, innermost(frame), wait, passed[thread][0], unasked, stack(frame))

    def said(self) -> dict[str, Any]:
        """What was measured, as plain data; times in ns."""
        longest = sorted(self.hurried.holds, key=lambda hold: -hold.length_ns)[:_LONGEST]
        told = [{"thread": h.thread, "wait_s": h.wait_ns * 1e-9, "ran_s": h.ran_ns * 1e-9, "stack": h.stack} for h in longest]
        looks = {"usual": self.usual.said(), "hurried": self.hurried.said()}
        return {**looks, "longest": told, "queued_ns": self.queued_ns, "base_ns": self._base, "blind": self._clocks.blind}


def stack(frame: FrameType | None) -> tuple[str, ...]:
    """The innermost frames, as ``path:line function``."""
    found: list[str] = []
    while frame and len(found) < _DEEPEST:
        found.append(f"{relative(frame.f_code.co_filename)}:{frame.f_lineno} {frame.f_code.co_qualname}")
        frame = frame.f_back
    return tuple(found)
