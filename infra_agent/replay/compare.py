"""Two sessions side by side: what was tried, what was changed, what it cost, what the judge said. Pure."""

from dataclasses import dataclass
from itertools import zip_longest

from infra_agent.proposal.review import tried
from infra_agent.proposal.store import Proposal, Session, proposals_of
from infra_agent.session import events
from infra_agent.session.budget import Budget, Limits
from infra_agent.task.patch import changes


@dataclass(frozen=True)
class Row:
    """One thing of both sessions, as text."""

    what: str
    first: str
    second: str

    @property
    def differs(self) -> bool:
        """True when the two are not the same."""
        return self.first != self.second


def compare(first: Session, second: Session) -> list[Row]:
    """Header, cost, actions, hypotheses and proposals of two sessions."""
    rows = [
        Row(what, *pair)
        for what, pair in zip(_facts(first), zip(_facts(first).values(), _facts(second).values(), strict=True), strict=True)
    ]
    for name, listed in (("hypothesis", _hypotheses), ("proposal", _proposals)):
        pairs = zip_longest(listed(first), listed(second), fillvalue="-")
        rows += [Row(f"{name} {n}", one, other) for n, (one, other) in enumerate(pairs, 1)]
    return rows


def _facts(session: Session) -> dict[str, str]:
    header, spent = session.header, Budget.of(Limits(), session.entries)
    ended = [entry.event for entry in session.entries if isinstance(entry.event, events.SessionEnded)]
    resumed = [entry.event for entry in session.entries if isinstance(entry.event, events.SessionResumed)]
    tools = [entry.event.tool for entry in session.entries if isinstance(entry.event, events.ActionProposed)]
    return {
        "task": header.task,
        "driver": ", ".join(dict.fromkeys([header.driver, *(e.driver for e in resumed)])),
        "forked from": f"{header.parent.session}@{header.parent.at}" if header.parent else "-",
        "feedback": header.feedback,
        "isolation": header.isolation,
        "base": header.base[:12],
        "steps": str(spent.steps),
        "tokens in / cached / out": f"{spent.input_tokens} / {spent.cached_tokens} / {spent.output_tokens}",
        "cost": "unknown" if spent.usd is None else f"${spent.usd:.4f}",
        "wall": f"{spent.earlier_s:.0f} s",
        "actions": ", ".join(f"{tools.count(tool)} {tool}" for tool in dict.fromkeys(tools)) or "none",
        "ended": ended[-1].reason if ended else "not ended",
    }


def _hypotheses(session: Session) -> list[str]:
    last = proposals_of(session)
    if last:
        return [f"{t.outcome}: {t.claim}" for t in tried(last[-1])]
    settled = {e.event.hypothesis: e.event.outcome for e in session.entries if isinstance(e.event, events.HypothesisSettled)}
    stated = [e.event for e in session.entries if isinstance(e.event, events.HypothesisStated)]
    return [f"{settled.get(h.hypothesis, 'open')}: {h.claim}" for h in stated]


def _proposals(session: Session) -> list[str]:
    return [_proposal(proposal) for proposal in proposals_of(session)]


def _proposal(proposal: Proposal) -> str:
    touched = changes(proposal.session.blobs.get(proposal.made.patch))
    size = ", ".join(f"{change.path} +{change.added} -{change.removed}" for change in touched) or "no change"
    verdict = proposal.verdict.verdict if proposal.verdict else None
    failed = [check.name for check in verdict.checks if check.status == "fail"] if verdict else []
    said = f"{verdict.decision}{f' ({chr(44).join(failed)})' if failed else ''}" if verdict else "unjudged"
    return f"{said}: {proposal.made.title} [{proposal.made.patch[:12]}: {size}], risk {proposal.risk.tier}, {proposal.state}"


def render(rows: list[Row], width: int = 60) -> str:
    """Two columns; a row that differs begins with ``*``."""
    lines = []
    for row in rows:
        cells = zip_longest(_wrapped(row.first, width), _wrapped(row.second, width), fillvalue="")
        for n, (one, other) in enumerate(cells):
            lines.append(f"{'*' if row.differs and not n else ' '} {row.what if not n else '':<26}{one:<{width}}  {other}".rstrip())
    return "\n".join(lines)


def _wrapped(text: str, width: int) -> list[str]:
    flat = " ".join(text.split())
    return [flat[at : at + width] for at in range(0, len(flat), width)] or [""]
