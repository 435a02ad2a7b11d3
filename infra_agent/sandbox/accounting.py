"""Memory, processes and CPU of a whole cage: held by a cgroup where one can be had, else watched.

A process's own limits (rlimits) do not add up: sixty processes may each hold what one may. A cgroup counts all of them, and what no
process's size shows: files in memory, shared memory, pipes. Where no cgroup is delegated, the host looks every 50 ms.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from infra_agent.sandbox import processes
from infra_agent.sandbox.cgroup import V1, V2

Used = Callable[[], int]
"""Bytes of the scratch space in use."""
LOOK_S = 0.05
_CHEAP_S, _SLOW_S = 0.005, 3.0
"""A look that took less is made each time; one that took more was made so that nobody can count."""


class Accounting(Protocol):
    """Holds one cage to its limits and says what it used."""

    about: str
    """Which mechanism, and how exact it is."""
    look_s: float | None
    """How often ``exceeded`` must be asked while a request runs; None when the kernel does it."""

    def adopt(self, pid: int) -> None:
        """Take PID 1 and all it will start under the limits."""

    def settle(self, memory: int, pids: int) -> None:
        """PID 1 has preloaded: hold what comes on top of it to ``memory`` bytes and ``pids`` processes."""

    def begin(self) -> None:
        """A request starts."""

    def exceeded(self, used: Used) -> bool:
        """True when memory is over the limit."""

    def out_of_memory(self) -> bool:
        """True when the kernel killed something for memory since ``begin``."""

    def peak(self) -> int:
        """Highest bytes since ``begin``, beyond what the idle cage held."""

    def cpu_s(self) -> float | None:
        """CPU seconds of the whole cage since ``begin``, the killed included; None when unknown."""

    def clock_ns(self) -> int:
        """CPU time of the whole cage so far, nanoseconds: between two readings of a stopped cage it must not move."""

    def close(self) -> None:
        """Kill what is left and give the group back."""


class ByCgroup:
    """The kernel counts and kills."""

    look_s: float | None = None

    def __init__(self, group: V1 | V2) -> None:
        self._group = group
        self.about = group.about
        self._idle = self._kills = 0
        self._cpu_ns = 0

    def adopt(self, pid: int) -> None:
        """Move PID 1 before it has allocated anything: a move leaves behind what was charged before it."""
        self._group.add(pid)

    def settle(self, memory: int, pids: int) -> None:
        """Set the limits."""
        self._group.limit(self._group.usage() + memory, self._group.processes() + pids)

    def begin(self) -> None:
        """Remember where the counters stand."""
        self._group.reset_peak()
        self._idle, self._kills, self._cpu_ns = self._group.usage(), self._group.kills(), self._group.cpu_ns()

    def exceeded(self, used: Used) -> bool:
        """Never: the kernel acts by itself."""
        return False

    def out_of_memory(self) -> bool:
        """True when the kernel's count of kills rose."""
        return self._group.kills() > self._kills

    def peak(self) -> int:
        """The kernel's own high-water mark."""
        return max(0, self._group.peak() - self._idle)

    def cpu_s(self) -> float | None:
        """From the group's clock."""
        return (self._group.cpu_ns() - self._cpu_ns) / 1e9

    def clock_ns(self) -> int:
        """The group's clock."""
        return self._group.cpu_ns()

    def close(self) -> None:
        """Kill and remove."""
        self._group.close()


class Watchdog:
    """No cgroup: the host adds up what the cage's processes hold, every LOOK_S while a request runs."""

    about = f"watchdog: memory sampled every {LOOK_S * 1000:.0f} ms, what is allocated between two looks comes on top; processes by rlimit"
    look_s: float | None = LOOK_S

    def __init__(self) -> None:
        self._root = -1
        self._limit = self._idle = self._most_idle = self._peak = 0
        self._took_s = 0.0

    def adopt(self, pid: int) -> None:
        """Remember whose descendants to look at."""
        self._root = pid

    def settle(self, memory: int, pids: int) -> None:
        """Processes are held by RLIMIT_NPROC; memory is compared with ``memory`` at each look."""
        self._limit = memory
        self._idle, self._most_idle = self._total(processes.memory), self._total(processes.resident)

    def begin(self) -> None:
        """Forget the last peak."""
        self._peak = 0

    def _total(self, of: Callable[[int], int]) -> int:
        return sum(of(pid) for pid in processes.descendants(self._root) | {self._root})

    def exceeded(self, used: Used) -> bool:
        """Look once. What is cheap to see is seen first: the exact figure is asked for when that is too much, or it is cheap as well."""
        files = used()  # one that is also mapped counts twice: better than one of two counted
        most = self._total(processes.resident) - self._most_idle + files
        if most > self._limit or self._took_s < _CHEAP_S:
            began = time.monotonic()
            most = min(most, self._total(processes.memory) - self._idle + files)
            self._took_s = time.monotonic() - began
        self._peak = max(self._peak, most)
        return most > self._limit or self._took_s > _SLOW_S

    def out_of_memory(self) -> bool:
        """True when a look found more than allowed, or was made so slow that nobody could look."""
        return self._peak > self._limit or self._took_s > _SLOW_S

    def peak(self) -> int:
        """The largest look."""
        return self._peak

    def cpu_s(self) -> float | None:
        """Unknown: what was killed is in nobody's figures."""
        return None

    def clock_ns(self) -> int:
        """Of every live thread."""
        return processes.cpu_ns(processes.descendants(self._root) | {self._root})

    def close(self) -> None:
        """Nothing to give back."""


def socket_bytes() -> int:
    """The most that one socket may hold in the kernel, which doubles the size it is told, where no request may ask for more."""
    return 2 * int(Path("/proc/sys/net/core/wmem_default").read_text())


def mechanism() -> str:
    """Which accounting a cage started now gets, in words; for ``doctor``."""
    made = choose()
    try:
        return made.about
    finally:
        made.close()


def choose() -> Accounting:
    """The most exact there is: cgroup v2 where delegated, v1 where this user may make groups, else the watchdog."""
    name = f"infra-agent-{os.getpid()}-{os.urandom(4).hex()}"
    for kind in (V2, V1):
        group = kind.make(name, Path("/proc/self"))
        if group is not None:
            return ByCgroup(group)
    return Watchdog()
