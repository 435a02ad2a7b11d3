"""A recorded session again, in live cages: the recorded model's actions with the recorded seeds, then the verdict with fresh ones.

Exact rows must be the same bytes: files after each action, statuses, what a command printed, outputs, patches. Toleranced rows are figures:
held against their interval where the judge gave one, against the task's bound where there is one. Advice is not compared.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from infra_agent.agent.workbench import Workbench
from infra_agent.errors import UsageError
from infra_agent.gates.proposal import ProposalGate
from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.judge.measure import Records
from infra_agent.proposal.review import moved
from infra_agent.proposal.store import Proposal, Session, proposals_of
from infra_agent.session import events
from infra_agent.session.log import Blobs, SessionLog
from infra_agent.session.observation import Metric, Observation
from infra_agent.session.verdict import Decision
from infra_agent.task import repository
from infra_agent.task.load import Task

_NOISE = ("bench", "microbench", "hang")
"""Instruments whose status is a matter of time as well."""


@dataclass(frozen=True)
class Row:
    """One thing compared. ``kind`` says how."""

    action: str
    tool: str
    what: str
    kind: Literal["exact", "toleranced"]
    recorded: str
    now: str
    agrees: bool


@dataclass(frozen=True)
class Held:
    """A verdict, and what it is on this machine."""

    proposal: str
    recorded: Decision
    now: Decision
    moved: tuple[str, ...]


@dataclass
class Divergence:
    """Everything that was compared."""

    rows: list[Row] = field(default_factory=list)
    verdicts: list[Held] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """True when nothing differs beyond its tolerance and every verdict holds."""
        return all(row.agrees for row in self.rows) and all(held.recorded == held.now for held in self.verdicts)


@dataclass(frozen=True)
class Asked:
    """What to run again, and how far."""

    session: Session
    task: Task
    home: Path
    sandbox: str = "auto"
    until_divergence: bool = False


def rerun(asked: Asked, on_row: Callable[[Row], None] = lambda row: None) -> Divergence:
    """Carry out every recorded action again. Raises UsageError when the task is another by now."""
    header = asked.session.header
    repo, base = repository.for_task(asked.task, asked.home)
    if (asked.task.digest, base) != (header.task_digest, header.base):
        raise UsageError(f"session {header.session}: task {header.task} is not what it was; give --task FOLDER, a copy from then")
    found = Divergence()
    with tempfile.TemporaryDirectory(prefix="infra-agent-") as scratch, SessionLog(Path(scratch) / "session") as log:
        log.append(header)
        for part in _parts(asked.session):
            if part.secret is None:
                found.notes.append(f"{len(part.actions)} actions ran on a secret that a crash lost: outputs differ with their inputs")
            with Collector(asked.task, part.secret or seeds.new_secret(), asked.sandbox) as collector:
                collector.warm()
                bench, same_seeds = Workbench(collector, repo, base, log, None), part.secret is not None
                for did in part.actions:
                    for row in _again(did, bench, log, asked.session.blobs, same_seeds):
                        found.rows.append(row)
                        on_row(row)
                    same_seeds = same_seeds and did.proposal is None  # the gate drew contents in between
                    if asked.until_divergence and not found.agrees:
                        return found
    _verdicts(asked, found)
    return found


@dataclass(frozen=True)
class _Done:
    """An action that was carried out, and what was seen."""

    proposed: events.ActionProposed
    seen: events.ObservationMade
    proposal: events.ProposalMade | None


@dataclass
class _Part:
    """Actions that one secret decided."""

    secret: bytes | None = None
    actions: list[_Done] = field(default_factory=list)


def _parts(session: Session) -> list[_Part]:
    """A session by its secrets; one that a crash took was never revealed."""
    parts, proposed, made = [_Part()], dict[str, events.ActionProposed](), dict[str, events.ProposalMade]()
    ran = {e.event.action for e in session.entries if isinstance(e.event, events.ExecStarted | events.ProposalMade)}
    for entry in session.entries:
        match entry.event:
            case events.SessionResumed():
                parts.append(_Part())
            case events.SessionEnded() as ended:
                parts[-1].secret = bytes.fromhex(ended.secret)
            case events.ActionProposed() as action:
                proposed[action.action] = action
            case events.ProposalMade() as proposal:
                made[proposal.action] = proposal
            case events.ObservationMade() as seen if seen.action in ran:
                parts[-1].actions.append(_Done(proposed[seen.action], seen, made.get(seen.action)))
            case _:
                continue
    return [part for part in parts if part.actions]


def _again(did: _Done, bench: Workbench, log: SessionLog, recorded: Blobs, same_seeds: bool) -> Iterator[Row]:
    action, tool = did.proposed.action, did.proposed.tool
    log.append(did.proposed)

    def row(what: str, before: object, after: object) -> Row:
        return Row(action, tool, what, "exact", str(before), str(after), before == after)

    if did.proposal is not None:
        before, after = recorded.get(did.proposal.patch), bench.patch()
        yield (
            row("patch", did.proposal.patch[:12], log.blobs.put(after)[:12])
            if before != after
            else row("patch", "same bytes", "same bytes")
        )
        log.append(did.seen)
        return
    observation, records = bench.run(tool, did.proposed.arguments)
    log.append(did.seen.model_copy(update={"observation": observation, "records": {}, "tree": bench.tree_digest}))
    yield row("files", did.seen.tree[:12], bench.tree_digest[:12])
    if observation.trust == "advice" and observation.evidence and tool != "shell":
        return
    if tool not in _NOISE:
        yield row("status", _status(did.seen.observation), _status(observation))
    if tool == "shell":
        yield row("output", did.seen.observation.evidence.get("output", "")[:12], observation.evidence.get("output", "")[:12])
    if same_seeds:
        yield from (row(f"output of {name}", a[:12], b[:12]) for name, a, b in _outputs(did.seen, records, recorded))
    yield from _figures(action, tool, did.seen.observation, observation)


def _status(observation: Observation) -> str:
    return f"{observation.status}{f' ({observation.kind})' if observation.kind else ''}"


def _outputs(seen: events.ObservationMade, records: Records, recorded: Blobs) -> Iterator[tuple[str, str, str]]:
    """Digests of the outputs that the judge compared, then and now."""
    for name, digest in seen.records.items():
        if name.startswith("compare") and name in records:
            before, after = json.loads(recorded.get(digest)), json.loads(records[name])
            yield name, str(before.get("output_digest", "")), str(after.get("output_digest", ""))


def _figures(action: str, tool: str, before: Observation, after: Observation) -> Iterator[Row]:
    now = {metric.name: metric for metric in after.metrics}
    for old in before.metrics:
        if old.interval is None and old.target is None:
            continue
        new = now.get(old.name)
        agrees = new is not None and _near(old, new)
        yield Row(action, tool, old.name, "toleranced", _shown(old), "absent" if new is None else _shown(new), agrees)


def _near(old: Metric, new: Metric) -> bool:
    """Intervals that meet; or, with a bound, the same side of it and no further apart than the bound."""
    if old.interval is not None and new.interval is not None:
        return old.interval[0] <= new.interval[1] and new.interval[0] <= old.interval[1]
    if old.target is None:
        return old.value == new.value
    if (old.value <= old.target) != (new.value <= old.target):
        return False
    return old.value > old.target or abs(old.value - new.value) <= abs(old.target)


def _shown(metric: Metric) -> str:
    spread = f" [{metric.interval[0]:.4g}, {metric.interval[1]:.4g}]" if metric.interval else ""
    return f"{metric.value:.4g}{spread}"


def _verdicts(asked: Asked, found: Divergence) -> None:
    """Every judged proposal before the gate again, on a fresh secret."""
    judged = [proposal for proposal in proposals_of(asked.session) if proposal.verdict]
    if not judged:
        return
    repo, base = repository.for_task(asked.task, asked.home)
    with Collector(asked.task, seeds.new_secret(), asked.sandbox) as collector:
        gate = ProposalGate(collector, repo, base, lambda record: "", least=judged[0].policy.isolation)
        for proposal in judged:
            found.verdicts.append(_held(proposal, gate))


def _held(proposal: Proposal, gate: ProposalGate) -> Held:
    assert proposal.verdict is not None
    now = gate.judge(proposal.session.blobs.get(proposal.made.patch)).verdict
    return Held(proposal.id, proposal.verdict.verdict.decision, now.decision, tuple(moved(proposal.verdict.verdict, now)))


def render(found: Divergence) -> str:
    """The divergence table: what differs, how much was compared, and whether the verdicts hold here."""
    exact = [row for row in found.rows if row.kind == "exact"]
    loose = [row for row in found.rows if row.kind == "toleranced"]
    lines = [f"{'':<12}{'compared':>10}{'agree':>8}"]
    for name, rows in (("exact", exact), ("toleranced", loose)):
        lines.append(f"{name:<12}{len(rows):>10}{sum(row.agrees for row in rows):>8}")
    lines += [f"DIFFERS {r.action} {r.tool}: {r.what} ({r.kind}): {r.recorded} -> {r.now}" for r in found.rows if not r.agrees]
    for held in found.verdicts:
        holds = "holds on this machine" if held.recorded == held.now else f"does NOT hold on this machine: {held.recorded} -> {held.now}"
        lines += [f"{held.proposal}: the verdict {holds}", *(f"  moved  {line}" for line in held.moved)]
    return "\n".join([*lines, *(f"note: {note}" for note in found.notes)])
