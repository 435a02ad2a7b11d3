"""The text of a draft pull request, from recorded evidence alone: what maintainers ask of machine-assisted changes.

Pure. Everything a model, a candidate or a reviewer wrote is quoted: it makes no heading, mention or issue link of its own.
"""

from collections.abc import Sequence

from infra_agent.markdown import fenced, inline
from infra_agent.proposal.approval import obstacles
from infra_agent.proposal.review import figures, tried
from infra_agent.proposal.store import Proposal
from infra_agent.session import events
from infra_agent.session.observation import Observation
from infra_agent.session.verdict import Check

_NO_SEARCH = "not done by this program, and nobody said that they did it"


def body(proposal: Proposal, duplicates: str = "", template: str = "") -> str:
    """Markdown. ``duplicates``: what a person says of the search for them. ``template``: the target's own, which follows unfilled."""
    made, header = proposal.made, proposal.session.header
    aside = dict.fromkeys(name for review in proposal.approvals for name in review.overrides)
    parts = [
        "## What and why",
        fenced(made.summary),
        *([f"**Checks set aside by name: {', '.join(inline(name) for name in aside)}.**"] if aside else []),
        "## Who answers for it",
        "\n".join(_person(proposal)),
        f"Search for duplicates: {inline(duplicates) or _NO_SEARCH}.",
        f"Written with AI assistance: infra-agent, driver {inline(header.driver)}. People reviewed it as named above.",
        "## Before and after",
        _table(("figure", "before", "after", "interval"), [(f.name, f.before, f.after, f.interval) for f in figures(proposal)]),
        "## Checks",
        _checks(proposal),
        "## Risk",
        _risk(proposal),
        "## Tried",
        "\n".join(f"* {t.outcome}: {inline(t.claim)} (predicted: {inline(t.prediction)})" for t in tried(proposal)) or "Nothing else.",
        "## Run it again",
        fenced(_again(proposal), "console"),
        f"Session {inline(header.session)}, proposal {proposal.id}, base {made.base}.",
        f"Patch sha256:{made.patch}, evidence sha256:{proposal.approvals[-1].binding}.",
    ]
    if template.strip():
        parts += ["---", template.strip()]
    return "\n\n".join(parts) + "\n"


def _person(proposal: Proposal) -> list[str]:
    return [f"* {inline(r.reviewer)}, {r.minutes:g} minutes of review: {inline(r.reason)}" for r in proposal.approvals]


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return "None was measured."
    lines = [heads, ("---",) * len(heads), *(tuple(inline(cell) or "-" for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _checks(proposal: Proposal) -> str:
    assert proposal.verdict is not None
    verdict = proposal.verdict.verdict
    rows = [(check.name, _status(check), check.trust, check.figure or " ".join(check.message.split())[:120]) for check in verdict.checks]
    return f"{verdict.decision}; {inline(verdict.basis)}\n\n{_table(('check', 'status', 'trust', 'figure'), rows)}"


def _status(check: Check) -> str:
    return f"{check.status}{f' ({check.kind})' if check.kind else ''}{' (excused by the task)' if check.excused else ''}"


def _risk(proposal: Proposal) -> str:
    marks = [f"* {mark.tier}: {inline(mark.where)} {inline(mark.reason)}" for mark in proposal.risk.marks[:20]]
    left = [f"* set aside: {name} ({why})" for name, why in obstacles(proposal).items()]
    return "\n".join([f"Tier: {proposal.risk.tier}.", "", *marks, *left]).strip()


def _again(proposal: Proposal) -> str:
    task = proposal.session.header.task
    lines = [" ".join(o.reproduce) for o in _observations(proposal)]
    return "\n".join([*dict.fromkeys(lines), f"infra-agent gate {task} --patch change.patch"])


def _observations(proposal: Proposal) -> list[Observation]:
    """What instruments saw of the proposed files, in order."""
    seen = [e.event for e in proposal.session.entries[: proposal.entry.seq] if isinstance(e.event, events.ObservationMade)]
    return [made.observation for made in seen if made.observation.reproduce and made.tree == seen[-1].tree]
