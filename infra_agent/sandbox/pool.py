"""Warm cages by profile: take one, use it, give it back; one that ended badly is replaced."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra_agent.errors import SandboxError
from infra_agent.sandbox import choose
from infra_agent.sandbox.backend import Backend
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.profile import load


class CagePool:
    """Cages of one profile with the same mounts. Thread-safe; grows to as many cages as are in use at once.

    From the first cage that ends badly on, one spare is kept warm beside those in use: code that broke one cage is likely to break
    the next, and a preloaded cage takes seconds to start.
    """

    def __init__(
        self, profile: str, mounts: dict[str, Path] | None = None, hidden: tuple[Path, ...] = (), backend: Backend | None = None
    ) -> None:
        self.backend = backend or choose.pick()
        self._profile = load(profile)
        self._mounts = mounts
        self._hidden = hidden
        self._idle: list[Cage] = []
        self._busy: set[Cage] = set()
        self._lock = threading.Lock()
        self._starting: threading.Thread | None = None
        self._lost_one = False
        self._age = self._aborts = 0
        """How often the pool was closed, or aborted: a cage from before is not for use after."""

    def _start(self) -> Cage:
        return Cage(self._profile, self._mounts, self._hidden, self.backend)

    @contextmanager
    def cage(self) -> Iterator[Cage]:
        """A live cage, warm if one is idle. Raises SandboxError when the pool was aborted while it started."""
        cage, age = self._take()
        try:
            yield cage
        except BaseException:
            cage.close()
            raise
        finally:
            with self._lock:
                self._busy.discard(cage)
        self._give_back(cage, age)

    def _take(self) -> tuple[Cage, int]:
        with self._lock:
            taken, age, aborts = (self._idle.pop() if self._idle else None), self._age, self._aborts
        cage = taken or self._start()
        with self._lock:
            late = aborts != self._aborts
            if not late:
                self._busy.add(cage)
        if late:
            cage.close()
            raise SandboxError("stopped while a cage was starting")
        self._refill()
        return cage, age

    def _give_back(self, cage: Cage, age: int) -> None:
        with self._lock:
            keep = cage.alive and age == self._age
            if keep:
                self._idle.append(cage)
            self._lost_one |= not cage.alive
        if not keep:
            cage.close()
            self._refill()

    def _refill(self) -> None:
        """Start a spare in the background, if this pool needs one and none is there or under way."""
        with self._lock:
            if not self._lost_one or self._idle or (self._starting and self._starting.is_alive()):
                return
            self._starting = threading.Thread(target=self._start_spare, args=(self._age,), daemon=True)
            self._starting.start()

    def _start_spare(self, age: int) -> None:
        try:
            cage = self._start()
        except SandboxError:
            with self._lock:
                self._lost_one = False  # whoever needs a cage next meets the error itself, where it can be told
            return
        with self._lock:
            wanted = age == self._age
            if wanted:
                self._idle.append(cage)
        if not wanted:
            cage.close()

    def warm(self) -> None:
        """Start a cage ahead of its first use."""
        with self.cage():
            return

    def abort(self) -> None:
        """Kill the cages in use, from any thread: their requests end as ``broken``, and what is starting is not used."""
        with self._lock:
            self._age += 1
            self._aborts += 1
            busy = list(self._busy)
        for cage in busy:
            cage.kill()

    def close(self) -> None:
        """End every idle cage; the next use starts a fresh one. A cage in use ends when it is given back."""
        with self._lock:
            self._age += 1
            self._lost_one = False
            idle, self._idle = self._idle, []
            starting = self._starting
        if starting:
            starting.join()
        for cage in idle:
            cage.close()
