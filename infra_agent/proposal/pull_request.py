"""The text of a draft pull request, from recorded evidence alone: what maintainers ask of machine-assisted changes.

Pure. Everything a model, a candidate or a reviewer wrote is quoted: it makes no heading, mention or issue link of its own.
"""

import re
from collections.abc import Sequence

from infra_agent.markdown import fenced, inline, visible
from infra_agent.proposal.approval import obstacles
from infra_agent.proposal.review import Tried, figures, tried
from infra_agent.proposal.store import Proposal
from infra_agent.session import events
from infra_agent.session.observation import Observation
from infra_agent.session.verdict import Check

_ROOM = 9_000
"""Characters of one part: the parts and a template stay below the 65,536 that GitHub takes."""
_LINE = 400
_NO_SEARCH = "not done by this program, and nobody said that they did it"


def body(proposal: Proposal, duplicates: str = "", template: str = "") -> str:
    """Markdown. ``duplicates``: what a person says of the search for them. ``template``: the target's own, which follows unfilled."""
    made, header = proposal.made, proposal.session.header
    aside = dict.fromkeys(name for review in proposal.approvals for name in review.overrides)
    parts = [
        "## What and why",
        fenced(_clipped(visible(made.summary), _ROOM)),
        *([f"**Checks set aside by name: {', '.join(inline(name) for name in aside)}.**"] if aside else []),
        "## Who answers for it",
        "\n".join(_person(proposal)),
        f"Search for duplicates: {inline(duplicates) or _NO_SEARCH}.",
        f"Written with AI assistance: infra-agent, driver {inline(header.driver)}. People reviewed it as named above.",
        "## Before and after",
        _table(
            ("figure", "before", "after", "interval"),
            [tuple(map(inline, (f.name, f.before, f.after, f.interval))) for f in figures(proposal)],
        ),
        "## Checks",
        _checks(proposal),
        "## Risk",
        _risk(proposal),
        "## Tried",
        _within([_tried(t) for t in tried(proposal)]) or "Nothing else.",
        "## Run it again",
        fenced(_again(proposal), "console"),
        f"Session {inline(header.session)}, proposal {proposal.id}.",
        f"Judged at base {made.base}: what the target changed since then was not judged with it.",
        f"Patch sha256:{made.patch}, evidence sha256:{proposal.approvals[-1].binding}.",
    ]
    theirs = f"\n---\n\n{template}" if template.strip() else ""
    return "\n\n".join(parts) + "\n" + theirs


def quoted(text: str) -> str:
    """Text of somebody else as code on one line: a forge looks for mentions and issues after entities are decoded, but not in code."""
    flat = _clipped(visible(" ".join(text.split())), _LINE)
    if not flat:
        return "-"
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", flat)), default=0))
    space = " " if len(ticks) > 1 else ""
    return f"{ticks}{space}{flat}{space}{ticks}"


def _clipped(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[:room]} [{len(text) - room} more characters are in the session]"


def _within(lines: Sequence[str]) -> str:
    """As many lines as there is room for, and how many there are besides."""
    kept, used = list[str](), 0
    for line in lines:
        used += len(line) + 1
        if used > _ROOM:
            return "\n".join([*kept, f"\nAnd {len(lines) - len(kept)} more, in the session."])
        kept.append(line)
    return "\n".join(kept)


def _tried(found: Tried) -> str:
    note = f"; {quoted(found.note)}" if found.note else ""
    return f"* {found.outcome}: {quoted(found.claim)} (predicted: {quoted(found.prediction)}){note}"


def _person(proposal: Proposal) -> list[str]:
    return [f"* {inline(r.reviewer)}, {r.minutes:g} minutes of review: {inline(_clipped(r.reason, _LINE))}" for r in proposal.approvals]


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return "None was measured."
    lines = [heads, ("---",) * len(heads), *rows]
    return _within([f"| {' | '.join(cell or '-' for cell in line)} |" for line in lines])


def _cell(text: str) -> str:
    return quoted(text).replace("|", "\\|")  # ends a cell even in code


def _checks(proposal: Proposal) -> str:
    assert proposal.verdict is not None
    verdict = proposal.verdict.verdict
    rows = [(inline(c.name), inline(_status(c)), inline(c.trust), _cell(c.figure or c.message)) for c in verdict.checks]
    return f"{verdict.decision}; {inline(verdict.basis)}\n\n{_table(('check', 'status', 'trust', 'figure'), rows)}"


def _status(check: Check) -> str:
    return f"{check.status}{f' ({check.kind})' if check.kind else ''}{' (excused by the task)' if check.excused else ''}"


def _risk(proposal: Proposal) -> str:
    marks = [f"* {mark.tier}: {quoted(mark.where)} {quoted(mark.reason)}" for mark in proposal.risk.marks]
    left = [f"* set aside: {inline(name)} ({inline(why)})" for name, why in obstacles(proposal).items()]
    return "\n".join([f"Tier: {proposal.risk.tier}.", "", _within([*left, *marks])]).strip()


def _again(proposal: Proposal) -> str:
    task = proposal.session.header.task
    lines = [" ".join(o.reproduce) for o in _observations(proposal)]
    return "\n".join(
        [
            _within(list(dict.fromkeys(_clipped(line, _LINE) for line in lines))),
            f"infra-agent review {proposal.id} --patch-only > change.patch",
            f"infra-agent gate {task} --patch change.patch",
        ]
    ).lstrip()


def _observations(proposal: Proposal) -> list[Observation]:
    """What instruments saw of the proposed files, in order."""
    seen = [e.event for e in proposal.session.entries[: proposal.entry.seq] if isinstance(e.event, events.ObservationMade)]
    return [made.observation for made in seen if made.observation.reproduce and made.tree == seen[-1].tree]
