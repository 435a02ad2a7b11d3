"""How much a change can break, read from its bytes: detectors are data, each proved on its own examples when loaded. Pure."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Literal

from pydantic import Field, model_validator

from infra_agent.frozen import Frozen
from infra_agent.session.redaction import secrets_in
from infra_agent.task.patch import FileChange, Line
from infra_agent.task.tree import matches

Tier = Literal["low", "medium", "high", "critical"]
TIERS: tuple[Tier, ...] = ("low", "medium", "high", "critical")
Fact = Literal["binary", "deleted", "mode", "secret", "long", "lines", "files"]
_LONGEST = 2_000
"""Bytes of a line that an expression is tried on; a longer line is a fact of its own, as nobody reads it either."""
_MANY = ("lines", "files")
"""Facts about the patch as a whole, not about one of its files."""


def worse(first: Tier, *others: Tier) -> Tier:
    """The highest of some tiers."""
    return max(first, *others, key=TIERS.index) if others else first


class Example(Frozen):
    """A change of one file, to try a detector on."""

    path: str = "src/a.py"
    plus: tuple[str, ...] = ()
    minus: tuple[str, ...] = ()
    kind: Literal["added", "changed", "deleted"] = "changed"
    mode: str = ""
    binary: bool = False
    files: int = Field(default=1, ge=1)
    """As many files that are changed like this one."""
    times: int = Field(default=1, ge=1)
    """Every line is its text so many times over."""

    def changes(self) -> list[FileChange]:
        """The same as a parsed patch."""
        plus, minus = (tuple(Line(n, text.encode() * self.times) for n, text in enumerate(lines, 1)) for lines in (self.plus, self.minus))
        modes = (self.mode,) if self.mode else ()
        paths = [self.path, *(f"{n}/{self.path}" for n in range(1, self.files))]
        return [FileChange(path, self.kind, modes, plus, minus, self.binary) for path in paths]


class Detector(Frozen):
    """One thing to look for in a patch: a line by ``added`` or ``removed``, a file or the whole by ``fact``, a file by ``globs`` alone."""

    id: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    tier: Tier
    reason: str
    globs: tuple[str, ...] = ()
    """Only files whose path matches; empty: every file."""
    except_globs: tuple[str, ...] = ()
    added: str = ""
    """Regular expression that an added line holds."""
    removed: str = ""
    """Regular expression that a removed line holds."""
    fact: Fact | None = None
    more_than: int = 0
    """Of the facts ``lines`` and ``files``: how many are still ordinary."""
    hit: tuple[Example, ...] = Field(min_length=1)
    near_miss: tuple[Example, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _proved(self) -> "Detector":
        for pattern in (self.added, self.removed):
            try:
                _compiled(pattern)
            except re.error as error:
                raise ValueError(f"detector '{self.id}': {pattern!r} is not a regular expression: {error}") from error
        if not (self.globs or self.added or self.removed or self.fact):
            raise ValueError(f"detector '{self.id}' looks for nothing: give globs, added, removed or fact")
        if wrong := next((e for e in self.hit if not self.marks(e.changes())), None):
            raise ValueError(f"detector '{self.id}' does not see its own example {wrong.model_dump(exclude_defaults=True)}")
        if wrong := next((e for e in self.near_miss if self.marks(e.changes())), None):
            raise ValueError(f"detector '{self.id}' sees {wrong.model_dump(exclude_defaults=True)}, which it says it does not")
        return self

    def marks(self, touched: Sequence[FileChange]) -> list["Mark"]:
        """Where it looks at this patch and sees something."""
        if self.fact in _MANY:
            many = len(touched) if self.fact == "files" else sum(change.added + change.removed for change in touched)
            return (
                [self._mark(touched[0].path, None, f"{many} {self.fact}, {self.more_than} are ordinary")] if many > self.more_than else []
            )
        return [mark for change in touched if self._looks_at(change.path) for mark in self._in_file(change)]

    def _looks_at(self, path: str) -> bool:
        return (not self.globs or matches(path, self.globs)) and not matches(path, self.except_globs)

    def _in_file(self, change: FileChange) -> list["Mark"]:
        if self.fact:
            return [self._mark(change.path)] if _is_so(change, self.fact) else []
        if not (self.added or self.removed):
            return [self._mark(change.path)]
        hits = [self._mark(change.path, line.number) for line in change.plus if self.added and _holds(self.added, line)]
        return hits + [self._mark(change.path, -line.number) for line in change.minus if self.removed and _holds(self.removed, line)]

    def _mark(self, path: str, line: int | None = None, more: str = "") -> "Mark":
        return Mark(detector=self.id, tier=self.tier, path=path, line=line, reason=f"{self.reason}{f': {more}' if more else ''}")


class Mark(Frozen):
    """A detector's finding. ``line`` is in the new file, or, when negative, minus the line of the old file; None for a whole file."""

    detector: str
    tier: Tier
    path: str
    line: int | None
    reason: str

    @property
    def where(self) -> str:
        """``path:line``, as an editor opens it."""
        return self.path if self.line is None else f"{self.path}:{abs(self.line)}"


class Risk(Frozen):
    """The tier of a change, and why. ``stated`` is the model's own estimate, which can only raise it."""

    tier: Tier
    stated: Tier | None
    marks: tuple[Mark, ...]


def assess(touched: Sequence[FileChange], detectors: Sequence[Detector], stated: Tier | None = None) -> Risk:
    """The risk of a parsed patch, worst marks first."""
    found = [mark for detector in detectors for mark in detector.marks(touched)] if touched else []
    found.sort(key=lambda mark: -TIERS.index(mark.tier))
    return Risk(tier=worse("low", *(mark.tier for mark in found), *([stated] if stated else [])), stated=stated, marks=tuple(found))


def _is_so(change: FileChange, fact: Fact) -> bool:
    if fact == "secret":
        return bool(secrets_in(b"\n".join(change.added_lines)))
    if fact == "long":
        return any(len(line.text) > _LONGEST for line in change.plus)
    return {"binary": change.binary, "deleted": change.kind == "deleted", "mode": bool(set(change.modes) - {"100644"})}[fact]


def _holds(pattern: str, line: Line) -> bool:
    return _compiled(pattern).search(line.text[:_LONGEST].decode(errors="replace")) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
