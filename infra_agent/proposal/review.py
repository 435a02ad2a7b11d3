"""What a reviewer reads: risk, checks, figures before and after, what was tried and refuted, the change, and how to run it again. Pure."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from infra_agent import canonical
from infra_agent.gates.risk import Mark
from infra_agent.judge import timing as timing_kind
from infra_agent.judge.tensors import CompareRecord
from infra_agent.judge.timing import TimingRecord
from infra_agent.proposal.approval import obstacles
from infra_agent.proposal.store import Proposal
from infra_agent.session import events
from infra_agent.session.budget import Budget, Limits
from infra_agent.session.verdict import Check, Verdict
from infra_agent.task.patch import HUNK, path_of
from infra_agent.task.spec import TaskSpec, Timing

R = TypeVar("R", TimingRecord, CompareRecord)


@dataclass(frozen=True)
class Tried:
    """A hypothesis and how it ended."""

    id: str
    claim: str
    prediction: str
    outcome: str
    note: str


@dataclass(frozen=True)
class Figure:
    """A number at base and in the change, as text with its unit; ``interval`` where one was measured."""

    name: str
    before: str
    after: str
    interval: str = ""


def tried(proposal: Proposal) -> list[Tried]:
    """Every hypothesis stated before the proposal, in order."""
    settled: dict[str, events.HypothesisSettled] = {}
    stated: list[events.HypothesisStated] = []
    for entry in proposal.session.entries[: proposal.entry.seq]:
        if isinstance(entry.event, events.HypothesisStated):
            stated.append(entry.event)
        elif isinstance(entry.event, events.HypothesisSettled):
            settled[entry.event.hypothesis] = entry.event
    listed = []
    for h in stated:
        end = settled.get(h.hypothesis)
        listed.append(Tried(h.hypothesis, h.claim, h.prediction, end.outcome if end else "open", end.note if end else ""))
    return listed


def figures(proposal: Proposal) -> list[Figure]:
    """Times of the verdict with their intervals, and its errors beside those that the session saw at base."""
    return [*_times(proposal), *_errors(proposal)]


def _times(proposal: Proposal) -> Iterator[Figure]:
    spec = _spec(proposal)
    for record in _records(proposal, "timing", TimingRecord):
        found = timing_kind.assess(record, spec.timing or Timing(), spec)
        if found.interval is not None:
            low, high = math.exp(found.interval.low), math.exp(found.interval.high)
            ratio = f"{low:.3f} to {high:.3f} times base's speed, {found.credited:.3f} credited"
            yield Figure(f"time of {record.case}", f"{found.base_s * 1e3:.4g} ms", f"{found.candidate_s * 1e3:.4g} ms", ratio)


def _errors(proposal: Proposal) -> Iterator[Figure]:
    before = _at_base(proposal)
    for record in _records(proposal, "accuracy", CompareRecord):
        for stage, compared in record.stages.items():
            seen = before.get(f"error.{stage}@{record.case}")
            yield Figure(f"error of {stage} in {record.case}", "not measured" if seen is None else f"{seen:.2e}", f"{compared.error:.2e}")


def _at_base(proposal: Proposal) -> dict[str, float]:
    """Metrics of the observations that were made before the first edit."""
    files = json.loads(proposal.session.blobs.get(proposal.session.header.base_files))
    tree, found = canonical.digest_of(files), dict[str, float]()
    for entry in proposal.session.entries[: proposal.entry.seq]:
        if isinstance(entry.event, events.ObservationMade) and entry.event.tree == tree:
            found |= {metric.name: metric.value for metric in entry.event.observation.metrics}
    return found


def _records(proposal: Proposal, check: str, kind: type[R]) -> list[R]:
    listed = next((c.records for c in proposal.verdict.verdict.checks if c.name == check), {}) if proposal.verdict else {}
    return [kind.model_validate_json(proposal.session.blobs.get(digest)) for digest in listed.values()]


def _spec(proposal: Proposal) -> TaskSpec:
    return TaskSpec.model_validate_json(proposal.session.blobs.get(proposal.session.header.spec))


def check_line(check: Check) -> str:
    """A check as one line: name, status, trust, figure, message."""
    status = f"{check.status}{f' ({check.kind})' if check.kind else ''}{' (excused)' if check.excused else ''}"
    figure = f"{check.figure}: " if check.figure else ""
    message = " ".join(check.message.split())  # what a candidate printed may not look like lines of ours
    return f"{check.name:<12} {status:<26} {check.trust:<11} {figure}{message}"


def moved(recorded: Verdict, again: Verdict) -> list[str]:
    """What a second run of the gate says differently, check by check."""
    before = {check.name: check for check in recorded.checks}
    found = [] if recorded.decision == again.decision else [f"decision: {recorded.decision} -> {again.decision}"]
    for check in again.checks:
        old = before.get(check.name)
        if old is None or (old.status, old.kind) != (check.status, check.kind):
            was = "no such check" if old is None else f"{old.status}{f' ({old.kind})' if old.kind else ''}"
            found.append(
                f"{check.name}: {was} -> {check.status}{f' ({check.kind})' if check.kind else ''}: {' '.join(check.message.split())}"
            )
    return found


def render(proposal: Proposal, with_diff: bool = True) -> str:
    """The review as plain text."""
    header, made = proposal.session.header, proposal.made
    lines = [
        f"{proposal.id}  {made.title}",
        f"task {header.task}  session {header.session}  state {proposal.state}",
        "",
        made.summary.strip(),
        "",
    ]
    lines += [*_verdict(proposal), "", *_risk(proposal), "", *_people(proposal), _cost(proposal), "", "Tried:"]
    lines += [
        f"  {t.id} {t.outcome}: {t.claim} [predicted: {t.prediction}]{f' — {t.note}' if t.note else ''}" for t in tried(proposal)
    ] or ["  nothing"]
    if with_diff:
        patch = proposal.session.blobs.get(made.patch).decode(errors="replace")
        lines += ["", f"Change ({made.base[:12]}):", *marked(patch, proposal.risk.marks)]
    gate = f"infra-agent review {proposal.id} --patch-only > change.patch && infra-agent gate {header.task} --patch change.patch"
    return "\n".join([*lines, "", "Run the gate again:", f"  infra-agent review {proposal.id} --rerun", f"  {gate}"])


def _verdict(proposal: Proposal) -> list[str]:
    if proposal.verdict is None:
        return ["Verdict: none, the session ended before the gate did"]
    verdict = proposal.verdict.verdict
    lines = [f"Verdict: {verdict.decision}   {verdict.basis}, {proposal.verdict.seconds:.1f} s"]
    lines += [f"  {check_line(check)}" for check in verdict.checks]
    if shown := figures(proposal):
        lines += ["", "Before and after:"]
        lines += [f"  {f.name:<34} {f.before:>12} -> {f.after:<12} {f.interval}".rstrip() for f in shown]
    return lines


def _risk(proposal: Proposal) -> list[str]:
    risk, takes = proposal.risk, proposal.policy.approval_of(proposal.risk.tier)
    stated = f" (the model says {risk.stated})" if risk.stated else ""
    lines = [f"Risk: {risk.tier}{stated}; takes {takes.approvers} approver{'s' if takes.approvers > 1 else ''}"]
    listed: dict[str, list[Mark]] = {}
    for mark in risk.marks:
        listed.setdefault(mark.detector, []).append(mark)
    lines += [
        f"  {m[0].tier:<8} {name:<18} {m[0].where}{f' and {len(m) - 1} more' if m[1:] else ''}: {m[0].reason}" for name, m in listed.items()
    ]
    return lines + [f"  in the way: {name} ({why})" for name, why in obstacles(proposal).items()]


def _cost(proposal: Proposal) -> str:
    """What it took: of the model, of the machine, of people."""
    spent = Budget.of(Limits(), proposal.session.entries)
    price = "price unknown" if spent.usd is None else f"${spent.usd:.2f}"
    tokens = f"{spent.input_tokens} tokens in ({spent.cached_tokens} cached), {spent.output_tokens} out, {price}"
    wall = f"{spent.earlier_s:.0f} s, {spent.waited_s:.0f} of them waiting"
    return f"Cost: {spent.steps} steps, {tokens}; {wall}; people {spent.human_minutes:g} minutes"


def _people(proposal: Proposal) -> list[str]:
    lines = []
    for review in proposal.reviews:
        aside = f", setting aside {', '.join(review.overrides)}" if review.overrides else ""
        lines.append(f"{review.reviewer}: {review.decision}{aside} ({review.minutes:g} minutes): {' '.join(review.reason.split())}")
    return ["Decided:", *(f"  {line}" for line in lines), ""] if lines else []


def marked(patch: str, marks: tuple[Mark, ...]) -> list[str]:
    """The lines of a patch, with what the detectors say of a line beside it."""
    said: dict[tuple[str, int | None], list[str]] = {}
    for mark in marks:
        said.setdefault((mark.path, mark.line), []).append(f"{mark.tier}: {mark.detector}")
    lines, path, old, new = [], "", 0, 0
    for line in patch.split("\n"):
        at: tuple[str, int | None] | None = None
        if line.startswith("diff --git "):
            path, old, new = path_of(line.encode()), 0, 0
            at = (path, None)
        elif match := HUNK.match(line.encode()):
            old, new = int(match[1]), int(match[2])
        elif line.startswith("+") and new:
            at, new = (path, new), new + 1
        elif line.startswith("-") and old:
            at, old = (path, -old), old + 1
        elif line.startswith(" "):
            old, new = old + 1, new + 1
        beside = said.get(at, []) if at else []
        lines.append(f"{line}    <-- {'; '.join(dict.fromkeys(beside))}" if beside else line)
    return lines
