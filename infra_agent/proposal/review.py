"""What a reviewer reads: the change, the checks, what was tried and refuted, and how to run it again."""

from dataclasses import dataclass

from infra_agent.proposal.store import Proposal
from infra_agent.session import events
from infra_agent.session.verdict import Check


@dataclass(frozen=True)
class Tried:
    """A hypothesis and how it ended."""

    id: str
    claim: str
    prediction: str
    outcome: str
    note: str


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


def check_line(check: Check) -> str:
    """A check as one line: name, status, trust, figure, message."""
    status = f"{check.status}{f' ({check.kind})' if check.kind else ''}{' (excused)' if check.excused else ''}"
    figure = f"{check.figure}: " if check.figure else ""
    message = " ".join(check.message.split())  # what a candidate printed may not look like lines of ours
    return f"{check.name:<12} {status:<26} {check.trust:<11} {figure}{message}"


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
    if proposal.verdict:
        verdict = proposal.verdict.verdict
        lines.append(f"Verdict: {verdict.decision}   {verdict.basis}, {proposal.verdict.seconds:.1f} s")
        lines += [f"  {check_line(check)}" for check in verdict.checks]
    lines += ["", "Tried:"]
    lines += [
        f"  {t.id} {t.outcome}: {t.claim} [predicted: {t.prediction}]{f' — {t.note}' if t.note else ''}" for t in tried(proposal)
    ] or ["  nothing"]
    if with_diff:
        patch = proposal.session.blobs.get(made.patch).decode(errors="replace")
        lines += ["", f"Change ({made.base[:12]}):", *patch.splitlines()]
    lines += [
        "",
        "Run the gate again:",
        f"  infra-agent review {proposal.id} --patch-only > change.patch && infra-agent gate {header.task} --patch change.patch",
    ]
    return "\n".join(lines)
