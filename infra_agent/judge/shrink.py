"""The smallest failing case: smaller versions of a case that fails, greedily, until none of them fails in the same way.

Which versions there are the task says, in an optional ``smaller(case)`` of its ``judge/task.py``: a list of cases, each smaller in one
respect, the boldest first. They are given in full, so that inputs, truth and bounds follow from the case as they always do.
"""

import json
from collections.abc import Callable
from typing import Any

from infra_agent.frozen import Frozen
from infra_agent.judge import tensors
from infra_agent.judge.reference import Case
from infra_agent.judge.tensors import CompareRecord
from infra_agent.session.observation import Finding, TensorWhere

MOST_TRIES = 12
"""Calls of the entry, all of them on cases smaller than one that failed."""


class ShrunkRecord(Frozen):
    """How far a failing case could be shrunk."""

    started: str
    """The public case that it began with."""
    case: dict[str, Any]
    """The smallest case that fails as the first one did, as the task gave it."""
    tries: int
    passing: tuple[dict[str, Any], ...] = ()
    """What is yet smaller and does not fail so."""
    complete: bool
    """False when tries ran out before every smaller version of ``case`` had been tried."""
    compare: CompareRecord | None
    """The comparison of ``case``; None when the task has no ``smaller``, or nothing smaller failed."""
    why: str = ""


def shrink(
    case: Case, found: CompareRecord, smaller: Callable[[Case], list[Case] | None], run: Callable[[Case], CompareRecord]
) -> ShrunkRecord:
    """Shrink ``case``, whose comparison ``found`` fails. ``smaller`` asks the task (None: it has no such function), ``run`` compares."""
    asked = signature(found)
    smallest: tuple[Case, CompareRecord | None] = (case, None)
    tries, tried, passing = 0, set[str](), list[dict[str, Any]]()
    while True:
        listed = smaller(smallest[0])
        if listed is None:
            return _record(case, smallest, tries, [], True, "the task's judge/task.py has no smaller(case)")
        fresh = [version for version in listed if _key(version) not in tried]
        passing = [version.own for version in listed if _key(version) in tried]
        failing = None
        for version in fresh:
            if tries == MOST_TRIES:
                return _record(case, smallest, tries, passing, False, "")
            tries, record = tries + 1, run(version)
            tried.add(_key(version))
            if signature(record) & asked:
                failing = (version, record)
                break
            passing.append(version.own)
        if failing is None:
            return _record(case, smallest, tries, passing, True, "")
        smallest = failing


def _record(
    case: Case, smallest: tuple[Case, CompareRecord | None], tries: int, passing: list[dict[str, Any]], complete: bool, why: str
) -> ShrunkRecord:
    found, compared = smallest
    return ShrunkRecord(
        started=case.name, case=found.own, tries=tries, passing=tuple(passing), complete=complete, compare=compared, why=why
    )


def signature(record: CompareRecord) -> set[tuple[str, str]]:
    """In which ways a case fails: kind and stage of its findings that are faults. A smaller case must share one of them."""
    status, _, findings = tensors.assess(record)
    if status != "fail":
        return set()
    return {(f.kind, f.where.stage) for f in findings if isinstance(f.where, TensorWhere) and f.kind not in tensors.DESCRIPTIONS}


def _key(case: Case) -> str:
    return json.dumps({name: value for name, value in case.own.items() if name != "name"}, sort_keys=True, default=str)


def numbers(case: dict[str, Any]) -> str:
    """A case as text: every one of its own values but its name and when it is run."""
    return ", ".join(f"{name}={value}" for name, value in sorted(case.items()) if name not in ("name", "when"))


def finding(record: ShrunkRecord, magnitude: float) -> Finding:
    """What came of it. ``magnitude``: that of the case's worst fault, above which it must not stand."""
    if record.compare is None:
        where = TensorWhere(case=record.started, stage="all")
        why = record.why or f"none of {record.tries} smaller versions fails so: {_list(record.passing)}"
        return Finding(kind="not_shrunk", where=where, magnitude=0.0, message=f"nothing smaller than {numbers(record.case)}: {why}")
    _, _, findings = tensors.assess(record.compare)
    worst = findings[0]
    ended = "" if record.complete else f"; {MOST_TRIES} tries were all, there may be smaller ones"
    beside = f"; these do not fail so: {_list(record.passing)}" if record.passing else ""
    message = f"smallest failing case, shrunk from {record.started} in {record.tries} tries: {numbers(record.case)}{beside}{ended}; there: "
    return Finding(kind="smallest_failing", where=worst.where, magnitude=magnitude * (1 - 1e-5), message=message + worst.message)


def _list(cases: tuple[dict[str, Any], ...]) -> str:
    """At most three, the last tried."""
    return " | ".join(numbers(case) for case in cases[-3:]) or "there are none"
