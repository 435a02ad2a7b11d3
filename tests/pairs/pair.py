"""What a generator makes, and how an instrument is asked about it."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from infra_agent.agent.tools import parse
from infra_agent.canonical import encode
from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.judge.measure import measure
from infra_agent.session.observation import Finding, Observation
from infra_agent.task.load import load
from infra_agent.task.tree import Tree

TASKS = Path(__file__).resolve().parent / "tasks"


@dataclass(frozen=True)
class Pair:
    """A faulty tree and its twin, which differs in the fault alone."""

    task: str
    """Folder in ``tests/pairs/tasks``."""
    faulty: Tree
    healthy: Tree
    kinds: tuple[str, ...]
    """Kinds of finding that the fault may be called, and that a healthy twin must not have."""
    where: str
    """Regular expression that must match the place, and what is said of it, of the worst finding of those kinds."""
    arguments: dict[str, Any] = field(default_factory=dict)
    about: str = ""


class Outcome(NamedTuple):
    """What the instrument made of a pair."""

    localised: bool
    false_alarms: int
    said: str


Generator = Callable[[int], Pair]


def ask(collector: Collector, instrument: str, tree: Tree, base: Tree, arguments: dict[str, Any]) -> Observation:
    """One measurement, with arguments as a model would give them."""
    complete, problem = parse(instrument, encode(arguments).decode(), (instrument,))
    assert problem is None, problem
    return measure(collector, instrument, tree, base, complete, ())[0]


def try_pair(instrument: str, pair: Pair) -> Outcome:
    """Both trees through the instrument, against the healthy one as base."""
    with Collector(load(str(TASKS / pair.task)), seeds.new_secret()) as collector:
        faulty = ask(collector, instrument, pair.faulty, pair.healthy, pair.arguments)
        healthy = ask(collector, instrument, pair.healthy, pair.healthy, pair.arguments)
    named = sorted((f for f in faulty.findings if f.kind in pair.kinds), key=lambda f: -f.magnitude)
    alarms = [f for f in healthy.findings if f.kind in pair.kinds]
    said = _text(named[0]) if named else f"{faulty.status}: {faulty.headline}"
    found = bool(named) and re.search(pair.where, _text(named[0])) is not None
    if healthy.status in ("not_run", "inconclusive") or (healthy.status == "fail" and not alarms):
        return Outcome(False, 1, f"the twin: {healthy.status}: {healthy.headline}")  # silence because nothing was looked at is no silence
    return Outcome(found, len(alarms), said if not alarms else f"false alarm: {_text(alarms[0])}")


def _text(finding: Finding) -> str:
    return f"{finding.where}: {finding.kind}: {finding.message}"
