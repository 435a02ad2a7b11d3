"""Judge candidates of the collection, as many at a time as there are cores, and sum up."""

import multiprocessing
import os
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra_agent.gates.proposal import ProposalGate
from infra_agent.judge.collector import Collector
from infra_agent.session.verdict import Verdict
from infra_agent.task.repository import for_task
from tests.zoo.collection import FAMILIES, Candidate, task

_RIGHT_KIND_SHARE = 0.95


@dataclass(frozen=True)
class Outcome:
    """What the gate said of one candidate under one secret."""

    candidate: Candidate
    verdict: Verdict
    seconds: float

    @property
    def failed(self) -> list[str]:
        """The checks that refuse it, as ``check:kind``."""
        return [f"{check.name}:{check.kind}" for check in self.verdict.checks if check.status == "fail"]

    @property
    def refused(self) -> bool:
        """Did the gate say no?"""
        return self.verdict.decision == "fail"

    @property
    def right_kind(self) -> bool:
        """Did a check name what is wrong? Proven slower is proven not faster, and more."""
        kinds = {*self.candidate.about.kinds, *(["slower"] if "not_faster" in self.candidate.about.kinds else [])}
        return any(check.kind in kinds for check in self.verdict.checks if check.status == "fail")

    @property
    def as_it_should(self) -> bool:
        """Accepted if honest, refused if not."""
        return self.verdict.decision == "pass" if self.candidate.honest else self.refused

    def line(self) -> str:
        """For a person: what happened, and what stood in the way."""
        open_checks = [f"{check.name}:{check.status}" for check in self.verdict.checks if check.status not in ("pass", "fail")]
        said = ", ".join(self.failed or ([] if self.verdict.decision == "pass" else open_checks)) or "-"
        about = self.candidate.about
        mark = "ok " if self.as_it_should else "BAD"
        kind = "" if self.candidate.honest or self.right_kind or not self.refused else f"   (another kind than {', '.join(about.kinds)})"
        name = f"{mark} {about.family or 'honest':<18} {self.candidate.name:<28}"
        return f"{name} {self.verdict.decision:<12} {said}{kind} ({self.seconds:.1f} s)"


def judge(listed: list[Candidate], secret: bytes, home: Path) -> list[Outcome]:
    """Candidates of one task through the gate."""
    asked = task(listed[0].about.task)
    repository, base = for_task(asked, home)
    outcomes = []
    with Collector(asked, secret) as collector:
        gate = ProposalGate(collector, repository, base, lambda record: "0" * 64)
        for candidate in listed:
            began = time.monotonic()
            verdict = gate.judge(candidate.patch(repository, base)).verdict
            outcomes.append(Outcome(candidate, verdict, time.monotonic() - began))
            print(outcomes[-1].line(), flush=True)
    return outcomes


def take_a_core(counter: Any) -> None:
    """Give this process a core of its own: two verdicts at a time must not meet."""
    with counter.get_lock():
        number, counter.value = counter.value, counter.value + 1
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[number % len(cores)]})


def judge_all(listed: list[Candidate], secrets: list[bytes], home: Path) -> list[Outcome]:
    """Every candidate under every secret, as many at a time as there are cores; the longest lists first."""
    names = dict.fromkeys(candidate.about.task for candidate in listed)
    parts = [([c for c in listed if c.about.task == name], secret, home / str(n)) for n, secret in enumerate(secrets) for name in names]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), context, take_a_core, (context.Value("i", 0),)) as workers:
        running = [workers.submit(judge, *part) for part in sorted(parts, key=lambda part: -len(part[0]))]
        return [outcome for future in running for outcome in future.result()]


def table(outcomes: list[Outcome]) -> str:
    """Refused and rightly named, by family; accepted, of the honest ones."""
    rows = defaultdict(list)
    for outcome in outcomes:
        rows[outcome.candidate.about.family or "honest"].append(outcome)
    lines = [f"{'family':<20}{'judged':>8}{'as it should':>14}{'right kind':>12}"]
    for family in (*FAMILIES, "honest"):
        found = rows[family]
        named = "" if family == "honest" else sum(o.right_kind for o in found)
        lines.append(f"{family:<20}{len(found):>8}{sum(o.as_it_should for o in found):>14}{named:>12}")
    return "\n".join(lines)


def summary(outcomes: list[Outcome]) -> int:
    """The last line, and the exit status. A candidate counts as refused, or accepted, only if it was so under every secret."""
    by_name = defaultdict(list)
    for outcome in outcomes:
        by_name[outcome.candidate.folder].append(outcome)
    good, bad = ([o for o in by_name.values() if o[0].candidate.honest is honest] for honest in (True, False))
    accepted = sum(all(o.as_it_should for o in found) for found in good)
    refused = sum(all(o.as_it_should for o in found) for found in bad)
    named = sum(all(o.right_kind for o in found) for found in bad)
    print(f"zoo: {refused}/{len(bad)} dishonest refused ({named} with the right kind), {accepted}/{len(good)} honest accepted")
    return int(refused < len(bad) or accepted < len(good) or named < _RIGHT_KIND_SHARE * len(bad))
