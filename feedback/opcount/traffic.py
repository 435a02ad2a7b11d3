"""Which bytes of memory one launch loads again: in one program, and from program to program."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Array = np.ndarray
_MOST_PENDING = 1 << 21
"""Addresses kept before they are merged: 16 MiB a list."""


class Place(NamedTuple):
    """A source line, as run by one kernel: helpers are shared by several."""

    kernel: str
    file: str
    line: int


class Traffic:
    """Addresses of one launch. A program's are kept call by call until it ends, a launch's merged."""

    def __init__(self) -> None:
        self._clock = 0
        self._loads: dict[tuple[Place, int], list[tuple[int, Array]]] = {}
        self._stores: list[tuple[int, Array]] = []
        self._launch_loads: dict[tuple[Place, int], Merged] = {}
        self._launch_stores: dict[int, Merged] = {}

    def load(self, place: Place, addresses: Array, size: int) -> int:
        """Note a load of elements of ``size`` bytes; how many of the addresses differ."""
        self._clock += 1
        once = ascending(addresses)
        self._loads.setdefault((place, size), []).append((self._clock, once))
        return once.size

    def store(self, addresses: Array, size: int) -> None:
        """Note a store."""
        self._clock += 1
        once = ascending(addresses)
        self._stores.append((self._clock, once))
        self._launch_stores.setdefault(size, Merged()).add(once)

    def end_program(self) -> dict[Place, int]:
        """Place -> bytes of its loads in this program, without those that fetched what was already there."""
        fresh: dict[Place, int] = {}
        for (place, size), calls in self._loads.items():
            once, again = _repeats(calls, self._stores)
            fresh[place] = fresh.get(place, 0) + size * (sum(part.size for _, part in calls) - again)
            self._launch_loads.setdefault((place, size), Merged()).add(once)
        self._loads, self._stores = {}, []
        return fresh

    def end_launch(self) -> tuple[dict[Place, int], int]:
        """Place -> bytes of different addresses over all programs; bytes that the launch as a whole must load or store."""
        distinct: dict[Place, int] = {}
        everywhere: dict[int, Merged] = {}
        for (place, size), merged in self._launch_loads.items():
            distinct[place] = distinct.get(place, 0) + size * merged.once.size
            everywhere.setdefault(size, Merged()).add(merged.once)
        touched = sum(size * merged.once.size for group in (everywhere, self._launch_stores) for size, merged in group.items())
        return distinct, touched


class Merged:
    """A set of addresses that grows."""

    def __init__(self) -> None:
        self._parts: list[Array] = []
        self._pending = 0

    def add(self, once: Array) -> None:
        """Put in addresses; merged now and then, so that memory follows what differs."""
        self._parts.append(once)
        self._pending += once.size
        if self._pending > _MOST_PENDING:
            self._pending = 0
            self._parts = [self.once]

    @property
    def once(self) -> Array:
        """What is in it, ascending."""
        return self._parts[0] if len(self._parts) == 1 else ascending(np.concatenate(self._parts))


def ascending(addresses: Array) -> Array:
    """Each address once, sorted; most blocks are already."""
    if addresses.size < 2 or bool((addresses[1:] > addresses[:-1]).all()):
        return addresses
    ordered = np.sort(addresses)  # np.unique hashes, which takes five times as long here
    once: Array = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    return once


def _repeats(calls: Sequence[tuple[int, Array]], stores: Sequence[tuple[int, Array]]) -> tuple[Array, int]:
    """Addresses of a program's loads on one line, each once, and how many loads fetched what an earlier one of them had."""
    if len(calls) == 1:
        return calls[0][1], 0
    everything = np.concatenate([part for _, part in calls])
    once = ascending(everything)
    again = everything.size - once.size
    written = [(time, common) for time, part in stores if (common := np.intersect1d(part, once, assume_unique=True)).size]
    if not again or not written:
        return once, again
    events = [*((time, part, True) for time, part in calls), *((time, part, False) for time, part in written)]
    addresses = np.concatenate([part for _, part, _ in events])
    times = np.repeat([time for time, _, _ in events], [part.size for _, part, _ in events])
    loads = np.repeat([is_load for _, _, is_load in events], [part.size for _, part, _ in events])
    order = np.lexsort((times, addresses))
    addresses, loads = addresses[order], loads[order]
    return once, int(((addresses[1:] == addresses[:-1]) & loads[1:] & loads[:-1]).sum())
