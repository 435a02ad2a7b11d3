"""A transcript for people, in CommonMark with GitHub's tables.

What a model, a candidate or another program wrote stands in a fence that is longer than any run of backticks in it or, in a line or a
table's cell of ours, with every character that could mean something as an entity: it can make no heading, table, link or HTML of its own.
"""

from collections.abc import Iterator, Sequence

from infra_agent.markdown import fenced, inline
from infra_agent.proposal.store import Proposal, Session, proposals_of
from infra_agent.replay.formats.turns import Call, Failed, Opening, Step, Told, Turn, steps_of
from infra_agent.session import events
from infra_agent.session.budget import Budget, Limits
from infra_agent.session.log import Entry

_LONGEST_CELL = 400


def encode(session: Session) -> bytes:
    """The session as Markdown, UTF-8. Raises BrokenLogError when a blob of its header is missing or is not what it was."""
    brief = session.blobs.get(session.header.brief).decode(errors="replace")
    parts = [*_head(session), "## Goal", fenced(brief), *_hypotheses(session.entries), "## Steps"]
    numbers: dict[str, int] = {}
    for step in steps_of(session):
        parts += _step(step, numbers)
    for proposal in proposals_of(session):
        parts += _proposal(proposal)
    parts += _end(session)
    return ("\n\n".join(parts) + "\n").encode()


def _cell(text: str) -> str:
    flat = " ".join(text.split())
    return inline(flat if len(flat) <= _LONGEST_CELL else f"{flat[:_LONGEST_CELL]}…") or "-"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Heads are ours, cells are not."""
    lines = [heads, ["---"] * len(heads), *([_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _head(session: Session) -> list[str]:
    header, spent = session.header, Budget.of(Limits(), session.entries)
    came = header.imported
    facts = [
        ("task", header.task),
        ("driver", header.driver),
        *([("imported from", f"{came.program} {came.version} ({came.format}); nothing in it was gated or judged here")] if came else []),
        *([("forked from", f"{header.parent.session} after event {header.parent.at}")] if header.parent else []),
        ("feedback", header.feedback),
        ("evidence, isolation, platform", f"{header.level}, {header.isolation}, {header.platform}"),
        ("base", header.base[:12]),
        ("began", session.entries[0].time),
        ("steps", str(spent.steps)),
        ("tokens in / cached / out", " / ".join(_totals(session.entries))),
        ("cost", "unknown" if spent.usd is None else f"{spent.usd:.4f} US dollars"),
        ("wall", f"{spent.earlier_s:.0f} s, {spent.waited_s:.0f} of them waiting"),
    ]
    return [f"# Session {inline(header.session)}", _table(("what", "as recorded"), facts)]


def _totals(entries: Sequence[Entry]) -> Iterator[str]:
    """Tokens read, cached and written; ``unknown`` where no reply said it."""
    usages = [entry.event.usage for entry in entries if isinstance(entry.event, events.ModelReplied)]
    for counts in zip(*((usage.input_tokens, usage.cached_tokens, usage.output_tokens) for usage in usages), strict=True):
        said = [count for count in counts if count is not None]
        yield str(sum(said)) if said else "unknown"


def _hypotheses(entries: Sequence[Entry]) -> list[str]:
    settled = {entry.event.hypothesis: entry.event for entry in entries if isinstance(entry.event, events.HypothesisSettled)}
    rows = []
    for stated in (entry.event for entry in entries if isinstance(entry.event, events.HypothesisStated)):
        end = settled.get(stated.hypothesis)
        outcome = (end.outcome, end.observation, end.note) if end else ("open", "", "")
        rows.append((stated.hypothesis, stated.claim, stated.prediction, stated.check, *outcome))
    heads = ("id", "claim", "prediction", "check", "outcome", "by", "note")
    return ["## Hypotheses", _table(heads, rows) if rows else "None was stated."]


def _step(step: Step, numbers: dict[str, int]) -> Iterator[str]:
    match step:
        case Opening():
            pass  # the head has told it
        case Turn():
            numbers["turn"] = numbers.get("turn", 0) + 1
            yield from _turn(step, numbers["turn"])
        case Told():
            yield from (f"Told the model (event {step.entry.seq}):", fenced(step.note.text))
        case Failed():
            yield from (f"The model failed (event {step.entry.seq}):", fenced(step.failure.reason))
    yield from (line for entry in step.rest if (line := _aside(entry)))


def _turn(turn: Turn, number: int) -> Iterator[str]:
    yield f"### Step {number}"
    yield f"Event {turn.entry.seq}, {inline(turn.entry.time)}{_usage(turn.reply.usage)}"
    if turn.reply.reasoning:
        yield from ("It thought:", fenced(turn.reply.reasoning))
    if turn.reply.text:
        yield from ("It said:", fenced(turn.reply.text))
    for call in turn.calls:
        yield from _call(call)


def _usage(usage: events.Usage) -> str:
    said = ((usage.input_tokens, "tokens in"), (usage.cached_tokens, "of them cached"), (usage.output_tokens, "out"))
    parts = [f"{count} {what}" for count, what in said if count is not None]
    parts += [f"{usage.cost_usd:.6g} US dollars"] if usage.cost_usd is not None else []
    return f"; {', '.join(parts)}" if parts else ""


def _call(call: Call) -> Iterator[str]:
    tool = call.written.name if call.written else call.action.tool if call.action else ""
    yield f"Call{f' {inline(call.action.action)}' if call.action else ''}, tool {inline(tool) or 'without a name'}:"
    if call.written:
        yield fenced(call.written.arguments, "json")
    if call.action and call.action.problem:
        yield f"Not usable: {inline(call.action.problem)}"
    if call.made is None:
        yield "Nothing was seen of it."
        return
    seen = call.made.observation
    kind = f" ({inline(seen.kind)})" if seen.kind else ""
    yield f"**{seen.status}**{kind}: {inline(seen.headline)}"


def _aside(entry: Entry) -> str:
    """Of what else was logged, that which a reader misses without it."""
    match entry.event:
        case events.GateDecided(decision=decision) as gate if decision != "allow":
            return f"The policy said {decision} to {inline(gate.action)} (rule {inline(gate.rule)}): {inline(gate.reason)}"
        case events.ApprovalGiven() as given:
            return f"Decided by {inline(given.reviewer)}: {given.decision} {inline(given.action)}: {inline(given.reason)}"
        case events.SessionResumed() as resumed:
            return f"Resumed at {inline(entry.time)}, driver {inline(resumed.driver)}."
        case events.ContextElided() as elided:
            return f"From here on {len(elided.actions)} observations were shown by their headlines."
        case events.Note() as note:
            return f"Noted: {inline(note.text)}"
        case _:
            return ""


def _proposal(proposal: Proposal) -> Iterator[str]:
    yield f"## Proposal {inline(proposal.id)}"
    yield f"Title: {inline(proposal.made.title)}"
    if proposal.made.summary:
        yield fenced(proposal.made.summary)
    if proposal.verdict is None:
        yield "It was never judged."
    else:
        verdict = proposal.verdict.verdict
        yield f"Verdict: **{verdict.decision}**, {inline(verdict.basis)}, {proposal.verdict.seconds:.1f} s"
        rows = [(c.name, f"{c.status}{f' ({c.kind})' if c.kind else ''}", c.trust, c.figure, c.message) for c in verdict.checks]
        yield _table(("check", "status", "trust", "figure", "message"), rows)
    yield from (f"Reviewed by {inline(review.reviewer)}: {review.decision}: {inline(review.reason)}" for review in proposal.reviews)
    if proposal.merged:
        yield f"Merged into {inline(proposal.merged.branch)} as {inline(proposal.merged.commit[:12])}."


def _end(session: Session) -> list[str]:
    ended = [entry.event for entry in session.entries if isinstance(entry.event, events.SessionEnded)]
    return ["## End", f"Exit {ended[-1].exit_code}: {inline(ended[-1].reason)}" if ended else "The session has not ended."]
