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

    def __init__(self, profile: str, mounts: dict[str, Path] | None = None) -> None:
        self._profile = load(profile)
        self._mounts = mounts
        self._idle: list[Cage] = []
        self._lock = threading.Lock()

    @contextmanager
    def cage(self) -> Iterator[Cage]:
        """A live cage, warm if one is idle."""
        with self._lock:
            taken = self._idle.pop() if self._idle else None
        cage = taken or Cage(self._profile, self._mounts)
        try:
            yield cage
        except BaseException:
            cage.close()
            raise
        if cage.alive:
            with self._lock:
                self._idle.append(cage)

    def warm(self) -> None:
        """Start a cage ahead of its first use."""
        with self.cage():
            return

    def close(self) -> None:
        """End every idle cage."""
        with self._lock:
            idle, self._idle = self._idle, []
        for cage in idle:
            cage.close()
