"""Find programs of one launch that meet in memory without atomics: right one after the other, wrong at once.

The interpreter runs programs one after the other, so it can see such a meeting and never suffer from it.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from triton.runtime import interpreter as stock

from sandboxes.runtime import interpreter

_ATOMICS = ("create_atomic_rmw", "create_atomic_cas")
Place = tuple[str, int]


class RaceError(ValueError):
    """Two programs of one launch need an order that nothing gives them."""


@dataclass
class Accesses:
    """Loads or stores of one launch, call by call: element addresses, what was stored there, by which program, on which line."""

    addresses: list[np.ndarray] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    programs: list[int] = field(default_factory=list)
    lines: list[Place] = field(default_factory=list)

    def add(self, pointers: Any, mask: Any, values: Any, program: int) -> None:
        """Note those that the mask lets through."""
        through = np.broadcast_to(mask, pointers.shape).reshape(-1)
        self.addresses.append(pointers.reshape(-1)[through])
        self.values.append(np.broadcast_to(values, pointers.shape).reshape(-1)[through].astype(np.float64))
        self.programs.append(program)
        self.lines.append(interpreter.source_line())

    def flat(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Addresses, values, and the number of the call that each belongs to; ordered by address, then by program."""
        calls = np.repeat(np.arange(len(self.addresses)), [len(part) for part in self.addresses])
        addresses, values = np.concatenate(self.addresses), np.concatenate(self.values)
        order = np.lexsort((np.asarray(self.programs)[calls], addresses))
        return addresses[order], values[order], calls[order]


@dataclass
class Launch:
    """What the programs of one launch touched."""

    loads: Accesses = field(default_factory=Accesses)
    stores: Accesses = field(default_factory=Accesses)
    ordered: bool = False
    """It used atomics: programs may have agreed on an order, and nothing is said."""

    def race(self) -> str | None:
        """The first place where two programs meet, as text."""
        if self.ordered or not self.stores.addresses:
            return None
        addresses, values, calls = self.stores.flat()
        owners = np.asarray(self.stores.programs)[calls]
        heard = self._overheard(addresses, owners, calls) if self.loads.addresses else None
        if heard:
            return heard
        twice = (addresses[1:] == addresses[:-1]) & (owners[1:] != owners[:-1]) & (values[1:] != values[:-1])
        if twice.any():
            at = int(twice.argmax())
            where = _at(self.stores.lines[calls[at + 1]])
            return f"{where}: programs {owners[at]} and {owners[at + 1]} store different values at one address"
        return None

    def _overheard(self, stored: np.ndarray, owners: np.ndarray, calls: np.ndarray) -> str | None:
        addresses, _, loads = self.loads.flat()
        readers = np.asarray(self.loads.programs)[loads]
        first = np.searchsorted(stored, addresses)
        last = np.searchsorted(stored, addresses, side="right") - 1
        found = last >= first  # owners of an address are in ascending order: its first and last say whether another wrote it
        first, last = np.minimum(first, len(stored) - 1), np.maximum(last, 0)
        other = found & ((owners[first] != readers) | (owners[last] != readers))
        if not other.any():
            return None
        at = int(other.argmax())
        owner = int(owners[first[at]] if owners[first[at]] != readers[at] else owners[last[at]])
        where = f"{_at(self.loads.lines[loads[at]])}: program {readers[at]} loads what program {owner} stores"
        return f"{where} on line {self.stores.lines[calls[first[at]]][1]}, and nothing orders them"


def _at(place: Place) -> str:
    return f"{place[0]}:{place[1]}"


def watch() -> None:
    """Every launch from now on raises RaceError at its end when two of its programs met."""
    builder, function = stock.InterpreterBuilder, stock.InterpretedFunction
    load, store, run = builder.create_masked_load, builder.create_masked_store, function.run
    current = Launch()

    def program(self: Any) -> int:
        (x, y, z), (_, height, depth) = self.grid_idx, self.grid_dim
        return int((x * height + y) * depth + z)

    def noted_load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
        current.loads.add(pointers.data, mask.data, np.float64(0), program(self))
        return load(self, pointers, mask, *rest)

    def noted_store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> Any:
        current.stores.add(pointers.data, mask.data, value.data, program(self))
        return store(self, pointers, value, mask, *rest)

    def run_and_look(self: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal current
        current = Launch()
        run(self, *args, **kwargs)
        if met := current.race():
            raise RaceError(f"{self.fn.__name__}: {met}")

    def ordering(method: Any) -> Any:
        def atomic(self: Any, *args: Any, **kwargs: Any) -> Any:
            current.ordered = True
            return method(self, *args, **kwargs)

        return atomic

    builder.create_masked_load, builder.create_masked_store, function.run = noted_load, noted_store, run_and_look
    for name in _ATOMICS:
        setattr(builder, name, ordering(getattr(builder, name)))
