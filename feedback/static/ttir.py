"""A kernel's TTIR as a graph of values: who makes what from what, and where it stands in the source."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from feedback.static import places
from feedback.static.places import Locations, Place

_OPERATION = re.compile(r"^\s*(?:(?P<results>%[\w:, %]+?) = )?\"?(?P<name>[a-z_]+\.[\w.]+)\"?(?P<rest>.*)$")
_VALUE = re.compile(r"%[\w.$-]+(?:#\d+)?")
_RESULT = re.compile(r"(%[\w.$-]+)(?::(\d+))?")
_FUNCTION = re.compile(r"^\s*tt\.func public .*?\((?P<arguments>.*)\)")
_FUNCTION_ARGUMENT = re.compile(r"(%[\w.$-]+): (!?[\w.]+(?:<[^>]*>)?)")
_LOOP = re.compile(r"(%[\w.$-]+) = (%\S+) to (%\S+) step (%\S+)(?: iter_args\((.*?)\) ->)?")
_CARRIED = re.compile(r"(%[\w.$-]+) = (%[\w.$#-]+)")
_ADDRESSED = re.compile(r" : (?:tensor<(?P<shape>(?:\d+x)+))?!tt\.ptr<(?P<element>\w+)")
_BITS = re.compile(r"(\d+)$")
ACCESSES = {"tt.load": "load", "tt.store": "store", "tt.atomic_rmw": "atomic", "tt.atomic_cas": "atomic"}


@dataclass
class Operation:
    """``operands`` are unique names of values; ``text`` is what is printed after the name, its location cut off."""

    name: str
    operands: tuple[str, ...]
    text: str
    place: Place
    inner: list[tuple[str, ...]] = field(default_factory=list)
    """What each region yields: the body of a loop, the branches of a condition."""
    carried: tuple[str, ...] = ()
    """For a loop: what it carries, named inside; ``operands`` are then lower bound, upper bound, step, and initial values."""

    @property
    def bits(self) -> int:
        """Width of the integers it makes; 0 when it makes something else."""
        kind = self.text.rpartition(" -> ")[2] if " -> " in self.text else self.text.rpartition(" to " if " to " in self.text else " : ")[2]
        found = re.search(r"(?:^|x)i(\d+)>?\s*$", kind.strip())
        return int(found[1]) if found else 0


@dataclass(frozen=True)
class Access:
    """A load, store or atomic: of which pointer, how many elements a program touches, and bytes of an element."""

    kind: str
    pointer: str
    mask: str | None
    shape: tuple[int, ...]
    element_bytes: int
    place: Place


class Graph:
    """Values of the kernel's one function. A value is made by an operation, or is one of ``arguments`` (name -> type)."""

    def __init__(self, text: str) -> None:
        self.made_by: dict[str, tuple[Operation, int]] = {}
        self.inside: dict[str, tuple[Operation, int]] = {}
        """A loop's own values: -1 for the one it counts with, else the index of what it carries."""
        self.arguments: dict[str, str] = {}
        self.accesses: list[Access] = []
        self._locations = Locations(text)
        self._scopes: list[dict[str, str]] = [{}]
        self._open: list[Operation | None] = []
        self._count = 0
        for line in text.splitlines():
            self._read(line)

    def _name(self, printed: str) -> str:
        """A unique name for a value defined here: MLIR gives one name to values of two branches."""
        self._count += 1
        self._scopes[-1][printed] = unique = f"{printed}@{self._count}"
        return unique

    def _find(self, printed: str) -> str:
        base, _, index = printed.partition("#")
        name = next((scope[base] for scope in reversed(self._scopes) if base in scope), printed)
        return f"{name}#{index}" if index else name

    def _read(self, line: str) -> None:
        body = line.rpartition(" loc(")[0] if " loc(" in line else line
        if function := _FUNCTION.match(line):
            for name, kind in _FUNCTION_ARGUMENT.findall(function["arguments"]):
                self.arguments[self._name(name)] = kind
            self._enter(None)
            return
        if body.strip().startswith("}"):
            self._leave(line, again=body.strip().endswith("{"))
            return
        if found := _OPERATION.match(body):
            self._operation(found, line)
        elif body.rstrip().endswith("{"):
            self._enter(None)

    def _enter(self, operation: Operation | None) -> None:
        self._open.append(operation)
        self._scopes.append({})

    def _leave(self, line: str, again: bool) -> None:
        """End of a region, where MLIR prints the place of its operation; ``again``: another region starts, as in ``} else {``."""
        if self._open:
            operation = self._open.pop()
            self._scopes.pop()
            if again:
                self._enter(operation)
            elif operation is not None:
                operation.place = places.of_user(self._locations.chain(line))

    def _operation(self, found: re.Match[str], line: str) -> None:
        name, rest = found["name"], found["rest"]
        if name in ("scf.yield", "scf.condition"):
            owner = self._open[-1] if self._open else None
            if owner is not None:
                owner.inner.append(self._operands(rest))
            return
        place = places.of_user(self._locations.chain(line))
        loop = _LOOP.search(rest) if name == "scf.for" else None
        carried = _CARRIED.findall(loop[5] or "") if loop else []
        operands = tuple(self._find(v) for v in (*loop.group(2, 3, 4), *(v for _, v in carried))) if loop else self._operands(rest)
        operation = Operation(name, operands, rest.strip(), place)
        for index, unique in enumerate(self._results(found["results"] or "")):
            self.made_by[unique] = (operation, index)
        if name in ACCESSES:
            self._access(operation)
        if rest.rstrip().endswith("{"):
            self._enter(operation)
            if loop:
                self.inside[self._name(loop[1])] = (operation, -1)
                operation.carried = tuple(self._name(inside) for inside, _ in carried)
                self.inside |= {unique: (operation, index) for index, unique in enumerate(operation.carried)}

    def _results(self, text: str) -> Iterator[str]:
        for name, count in _RESULT.findall(text):
            unique = self._name(name)
            yield from (f"{unique}#{index}" for index in range(int(count))) if count else (unique,)

    def _operands(self, rest: str) -> tuple[str, ...]:
        return tuple(self._find(name) for name in _VALUE.findall(rest.partition(" : ")[0]))

    def _access(self, operation: Operation) -> None:
        typed = _ADDRESSED.search(operation.text)
        if typed is None:
            return
        bits = _BITS.search(typed["element"])
        shape = tuple(int(n) for n in (typed["shape"] or "").split("x") if n)
        values = operation.operands
        at = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}.get(operation.name, len(values))
        mask = values[at] if at < len(values) else None
        # f8E4M3FN and its kin end in letters: one byte; i1 is kept in one
        size = 1 if typed["element"].startswith("f8") or bits is None else max(int(bits[1]) // 8, 1)
        self.accesses.append(Access(ACCESSES[operation.name], values[0], mask, shape, size, operation.place))
