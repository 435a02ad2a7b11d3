"""Warm cages by profile: take one, use it, give it back; one that ended badly is not given back."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.profile import load


class CagePool:
    """Cages of one profile with the same mounts. Thread-safe; grows to as many cages as are in use at once."""

    isolation = Cage.isolation

    def __init__(self, profile: str, mounts: dict[str, Path] | None = None, hidden: tuple[Path, ...] = ()) -> None:
        self._profile = load(profile)
        self._mounts = mounts
        self._hidden = hidden
        self._idle: list[Cage] = []
        self._busy: set[Cage] = set()
        self._lock = threading.Lock()

    @contextmanager
    def cage(self) -> Iterator[Cage]:
        """A live cage, warm if one is idle."""
        with self._lock:
            taken = self._idle.pop() if self._idle else None
        cage = taken or Cage(self._profile, self._mounts, self._hidden)
        with self._lock:
            self._busy.add(cage)
        try:
            yield cage
        except BaseException:
            cage.close()
            raise
        finally:
            with self._lock:
                self._busy.discard(cage)
        if cage.alive:
            with self._lock:
                self._idle.append(cage)

    def warm(self) -> None:
        """Start a cage ahead of its first use."""
        with self.cage():
            return

    def abort(self) -> None:
        """Kill the cages in use, from any thread: their requests end as ``broken``."""
        with self._lock:
            busy = list(self._busy)
        for cage in busy:
            cage.kill()

    def close(self) -> None:
        """End every idle cage; the next use starts a fresh one."""
        with self._lock:
            idle, self._idle = self._idle, []
        for cage in idle:
            cage.close()
