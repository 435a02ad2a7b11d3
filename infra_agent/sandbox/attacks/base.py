"""Attacks as data, the arenas they are tried in, and how one is judged: by what the host saw first, by what it printed second."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from infra_agent.sandbox.attacks.scene import Scene
from infra_agent.sandbox.base import Sandbox

Family = Literal["files", "artefacts", "memory", "processes", "rights", "network", "descriptors", "leftovers", "contention", "output"]
State = Literal["held", "escaped", "not_run"]


@dataclass(frozen=True)
class Outcome:
    """How a program in an arena ended. ``ended`` as in :class:`~infra_agent.sandbox.base.Result`."""

    ended: str
    text: bytes
    wall_s: float


class Arena(Protocol):
    """Somewhere to run an attack: a sandbox, or the naive control that it is compared with."""

    scene: Scene
    sandbox: Sandbox | None
    """The sandbox itself, for attacks that the host drives; None in the control."""

    def run(self, code: str, timeout_s: float) -> Outcome:
        """Run a Python program; ``scene.json`` in its working folder says what there is on the host."""

    def host_program(self, command: str) -> list[str]:
        """The argv of a host process that runs a shell command in such an arena and waits for it."""

    def get(self, path: str, limit: int) -> bytes:
        """A file that the last program left, ``ws/`` being its working folder. Raises ArtefactError for what no host should read."""

    def close(self) -> None:
        """End it."""


@dataclass(frozen=True)
class Trial:
    """What came of one attack."""

    state: State
    detail: str = ""


@dataclass(frozen=True)
class Attack:
    """One thing that must not work. ``attempt`` tries it in a fresh arena."""

    name: str
    family: Family
    about: str
    attempt: Callable[[Arena], Trial]


Look = Callable[[Arena, Outcome], str | None]
"""The host's own look after the program ended: what is wrong, or None."""


def script(
    name: str, family: Family, about: str, code: str, *, look: Look | None = None, may_end: tuple[str, ...] = (), timeout_s: float = 10.0
) -> Attack:
    """An attack that is a program. It prints one line: ``HELD ...``, ``ESCAPED what``, or ``NOT RUN why`` when the kernel lacks a feature.

    ``may_end``: ways to end without that line that are fine too, as ``oom`` for a memory bomb. ``look``: what else the host checks. A
    program that ends otherwise and says nothing did not do its work, which is no proof of anything: it counts as escaped.
    """

    def attempt(arena: Arena) -> Trial:
        outcome = arena.run(code, timeout_s)
        wrong = arena.scene.damage(outcome.text) or (look(arena, outcome) if look else None)
        if wrong:
            return Trial("escaped", wrong)
        lines = [line for line in outcome.text.decode(errors="replace").splitlines() if line.startswith(("HELD", "ESCAPED", "NOT RUN"))]
        if any(line.startswith("ESCAPED") for line in lines):
            return Trial("escaped", next(line for line in lines if line.startswith("ESCAPED"))[8:])
        if lines and lines[-1].startswith("NOT RUN"):
            return Trial("not_run", lines[-1][8:])
        if lines or outcome.ended in may_end:
            return Trial("held", lines[-1][5:] if lines else outcome.ended)
        return Trial("escaped", f"the attack did not do its work: {outcome.ended}: {outcome.text[-300:].decode(errors='replace')}")

    return Attack(name, family, about, attempt)


def within(seconds: float) -> Look:
    """The host got the answer in time."""
    return lambda arena, outcome: f"it took {outcome.wall_s:.1f} s; {seconds} s are allowed" if outcome.wall_s > seconds else None


def try_it(attack: Attack, arena: Arena) -> tuple[Trial, float]:
    """The trial and its seconds."""
    began = time.monotonic()
    return attack.attempt(arena), time.monotonic() - began
