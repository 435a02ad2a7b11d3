"""All attacks, one after the other, in a fresh arena each; and what they amount to."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from infra_agent.sandbox.attacks import (
    artefacts,
    contention,
    descriptors,
    endings,
    files,
    leftovers,
    memory,
    network,
    output,
    processes,
    rights,
)
from infra_agent.sandbox.attacks.arenas import NaiveArena, SandboxArena
from infra_agent.sandbox.attacks.base import Arena, Attack, State, Trial, try_it
from infra_agent.sandbox.attacks.scene import Scene
from infra_agent.sandbox.backend import Backend

_FAMILIES = (files, artefacts, memory, processes, endings, rights, network, descriptors, leftovers, output, contention)
ATTACKS: tuple[Attack, ...] = tuple(attack for family in _FAMILIES for attack in family.FAMILY)

QUICK: tuple[Attack, ...] = tuple(
    attack for family in (files, artefacts, rights, network, descriptors, leftovers) for attack in family.FAMILY
)
"""Those that take no time to speak of: for every ``doctor``."""


@dataclass(frozen=True)
class Row:
    """One attack in one arena."""

    arena: str
    attack: Attack
    trial: Trial
    seconds: float


def run(backend: Backend, attacks: Iterable[Attack] = ATTACKS) -> Iterator[Row]:
    """Try each attack in a sandbox of ``backend``. What that level does not claim to hold is not run, with the reason."""
    for attack in attacks:
        reason = backend.not_claimed.get(attack.name)
        if reason is None:
            yield _row(backend.name, attack, lambda scene: _live(SandboxArena(scene, backend)))
        else:
            yield Row(backend.name, attack, Trial("not_run", reason), 0.0)


def run_naive(attacks: Iterable[Attack] = ATTACKS) -> Iterator[Row]:
    """Try each attack in the control: a suite that does not bite there proves nothing."""
    for attack in attacks:
        yield _row("naive", attack, NaiveArena)


def _live(arena: SandboxArena) -> SandboxArena:
    arena.live()
    return arena


def _row(name: str, attack: Attack, make: Callable[[Scene], Arena]) -> Row:
    with Scene() as scene:
        arena = make(scene)
        try:
            trial, seconds = try_it(attack, arena)
        finally:
            arena.close()
    return Row(name, attack, trial, seconds)


def counts(rows: Iterable[Row]) -> dict[State, int]:
    """How many held, escaped, were not run."""
    found = Counter(row.trial.state for row in rows)
    return {"held": found["held"], "escaped": found["escaped"], "not_run": found["not_run"]}


def line(rows: Iterable[Row]) -> str:
    """The suite in one line."""
    found = counts(rows)
    return f"attacks: {found['held']} held, {found['escaped']} escaped, {found['not_run']} not run"
