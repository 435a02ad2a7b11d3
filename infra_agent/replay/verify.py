"""Verify a session offline; needs neither key, GPU, torch nor repository.

Recomputed: the hash chain, blobs, requests' digests, gate decisions, the status of every observation, every check and
verdict, from judge-written records. Carried: the numbers inside those records, which only a cage can measure again.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from infra_agent import canonical
from infra_agent.frozen import one_line
from infra_agent.gates import policy, recompute
from infra_agent.gates.action import describe
from infra_agent.judge import seeds
from infra_agent.judge.measure import Context, observe
from infra_agent.proposal.store import Proposal, Session, proposals_of
from infra_agent.session import events
from infra_agent.session.context import Conversation
from infra_agent.session.log import Entry
from infra_agent.task.spec import TaskSpec


@dataclass
class Report:
    """What was computed again, what was only carried, and where the two differ."""

    session: str
    recomputed: Counter[str] = field(default_factory=Counter)
    carried: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """True when nothing differs."""
        return not self.differences

    def expect(self, what: str, agrees: bool, where: str) -> None:
        """Count one recomputed thing; ``where`` says where it is when it differs."""
        self.recomputed[what] += 1
        if not agrees:
            self.differences.append(f"{where}: {what} computed again differs from what is recorded")

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "session": self.session, "agrees": self.agrees, "recomputed": dict(self.recomputed), "carried": dict(self.carried),
            "differences": self.differences, "notes": self.notes,
        }  # fmt: skip


def verify(session: Session) -> Report:
    """Check one session whose log has been read (the chain and HEAD hold then)."""
    report = Report(session.header.session)
    report.recomputed["event hashes"] = len(session.entries)
    _blobs(session, report)
    for step in (_header, _requests, _actions, _observations):
        with _computing(report, step.__name__.strip("_")):
            step(session, report)
    for proposal in proposals_of(session):
        with _computing(report, proposal.id):
            _proposal(proposal, report)
            _merge_checks(proposal, report)
    _unfinished(session, report)
    return report


@contextmanager
def _computing(report: Report, where: str) -> Iterator[None]:
    """What cannot be computed, since a log or a record lacks what it needs, is a difference like any other."""
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError, IndexError, RecursionError) as error:
        report.differences.append(f"{where}: cannot be computed again: {type(error).__name__}: {one_line(error)[:200]}")


def _blobs(session: Session, report: Report) -> None:
    """Every blob on disk has the digest that is its name; a missing one shows where it is read."""
    folder = session.blobs.folder
    for path in sorted(p for p in folder.iterdir() if not p.name.startswith(".")) if folder.is_dir() else []:
        report.expect("blob digests", canonical.digest(path.read_bytes()) == path.name, str(path))


def _header(session: Session, report: Report) -> None:
    header = session.header
    committed = header.secret_commitment
    for entry in session.entries:
        if isinstance(entry.event, events.SessionResumed):
            committed = entry.event.secret_commitment
        if isinstance(entry.event, events.SessionEnded):
            agrees = seeds.commitment(bytes.fromhex(entry.event.secret)) == committed
            report.expect("secret commitment", agrees, f"line {entry.seq + 1}, session.ended")
    for name in (header.spec, header.policy, header.base_files, header.system_prompt, header.brief, header.tools):
        session.blobs.get(name)
    report.carried.update({"versions": len(header.versions), "machine facts": len(header.machine)})


def _requests(session: Session, report: Report) -> None:
    """The digest of each request follows from the log before it."""
    spec = _spec(session)
    metric = spec.sparse_metric if session.header.feedback == "sparse" else None
    conversation = Conversation(session.blobs, metric)
    for entry in session.entries:
        if isinstance(entry.event, events.ModelRequested):
            conversation.read(session.entries, entry.seq)
            report.expect("model requests", conversation.request()[1] == entry.event.digest, f"line {entry.seq + 1}")
        elif isinstance(entry.event, events.ModelReplied):
            report.carried["model replies"] += 1


def _actions(session: Session, report: Report) -> None:
    """Gate decisions follow from policy, task and the action."""
    spec = _spec(session)
    rules = policy.pinned(session.blobs.get(session.header.policy))
    base_paths = frozenset(json.loads(session.blobs.get(session.header.base_files)))
    proposed = {e.event.action: e.event for e in session.entries if isinstance(e.event, events.ActionProposed)}
    allowed = {e.event.action for e in session.entries if isinstance(e.event, events.GateDecided) and e.event.decision == "allow"}
    allowed |= {e.event.action for e in session.entries if isinstance(e.event, events.ApprovalGiven) and e.event.decision == "approve"}
    for entry in session.entries:
        if isinstance(entry.event, events.ExecStarted | events.ProposalMade):
            report.expect("actions allowed", entry.event.action in allowed, f"line {entry.seq + 1}, {entry.event.action}")
        if isinstance(entry.event, events.GateDecided):
            where = f"line {entry.seq + 1}, {entry.event.action}"
            with _computing(report, where):
                action = proposed[entry.event.action]
                decision = rules.decide(describe(action.tool, action.arguments, spec, base_paths, rules.detector))
                same = (decision.ruling, decision.rule) == (entry.event.decision, entry.event.rule)
                report.expect("gate decisions", same, where)


def _observations(session: Session, report: Report) -> None:
    """Status, kind, metrics and findings of judged instruments follow from their records."""
    spec = _spec(session)
    for entry in session.entries:
        if not isinstance(entry.event, events.ObservationMade):
            continue
        made = entry.event
        if not made.records:
            report.carried["tool answers"] += 1
            continue
        o = made.observation
        records = {name: session.blobs.get(digest) for name, digest in made.records.items()}
        about = Context(o.instrument, made.evidence_kind, o.trust, o.platform, o.isolation, o.reproduce, o.cost_s, o.evidence)
        where = f"line {entry.seq + 1}, {made.action}"
        with _computing(report, where):
            report.expect("observations", observe(records, spec, about) == o, where)
        report.carried["records"] += len(records)


def _proposal(proposal: Proposal, report: Report) -> None:
    """Every check from its records, the patch against what was checked, the verdict from the checks."""
    if proposal.verdict is None:
        report.notes.append(f"{proposal.id} was never judged")
        return
    session, verdict = proposal.session, proposal.verdict.verdict
    report.recomputed["verdicts"] += 1
    for check in verdict.checks:
        (report.recomputed if check.records else report.carried)["checks"] += 1
    found = recompute.faults(verdict, proposal.made, session.header, session.blobs)
    if proposal.verdict.patch != proposal.made.patch:
        found.append("the verdict is on another patch")
    report.differences += [f"{proposal.id}: {fault}" for fault in found]


def _merge_checks(proposal: Proposal, report: Report) -> None:
    """What the gate said of the merged files, where the branch had moved."""
    session = proposal.session
    for entry in session.entries:
        if isinstance(entry.event, events.MergeChecked) and entry.event.proposal == proposal.id:
            checked = entry.event
            made = proposal.made.model_copy(update={"base": checked.head, "patch": checked.patch})
            header = session.header.model_copy(update={"base_files": checked.files, "isolation": checked.verdict.isolation})
            found = recompute.faults(checked.verdict, made, header, session.blobs)
            report.recomputed["verdicts"] += 1
            report.differences += [f"line {entry.seq + 1}, {proposal.id} on the moved branch: {fault}" for fault in found]
    merged = proposal.merged
    if merged and merged.checked and not any(merged.checked == entry.hash for entry in _passed_on_the_branch(proposal)):
        report.differences.append(f"{proposal.id}: merged as {merged.commit[:12]} by a check that is not there or did not pass")


def _passed_on_the_branch(proposal: Proposal) -> Iterator[Entry]:
    """Checks of merged files that nothing stands against but what the approvals set aside."""
    for entry in proposal.session.entries:
        if isinstance(entry.event, events.MergeChecked) and entry.event.proposal == proposal.id:
            checks = entry.event.verdict.checks
            if all(check.status == "pass" or check.excused or check.name in proposal.overrides for check in checks):
                yield entry


def _unfinished(session: Session, report: Report) -> None:
    """What began and did not end is said, never run again."""
    finished = {e.event.action for e in session.entries if isinstance(e.event, events.ExecFinished)}
    started = (e.event for e in session.entries if isinstance(e.event, events.ExecStarted))
    report.notes += [f"{e.action} ({e.program}) started and did not finish" for e in started if e.action not in finished]


def _spec(session: Session) -> TaskSpec:
    return TaskSpec.model_validate_json(session.blobs.get(session.header.spec))


def render(report: Report) -> str:
    """Two columns: recomputed and carried; then the differences."""
    names = list(dict.fromkeys([*report.recomputed, *report.carried]))
    lines = [f"session {report.session}", f"{'':<22}{'recomputed':>12}{'carried':>10}"]
    lines += [f"{name:<22}{report.recomputed.get(name, 0) or '-':>12}{report.carried.get(name, 0) or '-':>10}" for name in names]
    lines += [f"note: {note}" for note in report.notes] + [f"DIFFERS {difference}" for difference in report.differences]
    return "\n".join([*lines, "agrees" if report.agrees else f"{len(report.differences)} differences"])
