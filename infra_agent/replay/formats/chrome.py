"""Chrome's trace event format (JSON object form), which Perfetto and chrome://tracing open: what took the time of a session.

Four tracks of complete events: model calls, executions in cages, the gate with its checks, and waiting for people, limits or a provider.
Times are microseconds since the session's first event. What began and was never seen to end, ends with the next line of the log.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from infra_agent.proposal.store import Session
from infra_agent.replay.formats.turns import at
from infra_agent.session import events
from infra_agent.session.log import Entry

TRACKS = ("model", "executions", "gate", "waiting")
"""Track number n + 1 is ``TRACKS[n]``."""


@dataclass(frozen=True)
class Span:
    """Something that took time, between two lines of the log."""

    track: str
    name: str
    begin: datetime
    end: datetime
    said: dict[str, Any] = field(default_factory=dict)


def encode(session: Session) -> bytes:
    """The session as one trace, JSON in ASCII; events by beginning, what encloses others before them."""
    origin = min(at(entry) for entry in session.entries)
    shown = sorted((_event(span, origin) for span in spans(session.entries)), key=lambda event: (event["ts"], -event["dur"]))
    header = session.header
    other = {"session": header.session, "task": header.task, "driver": header.driver, "began": origin.isoformat()}
    return json.dumps({"traceEvents": [*_names(header.session), *shown], "displayTimeUnit": "ms", "otherData": other}).encode() + b"\n"


def _names(session: str) -> list[dict[str, Any]]:
    named: list[dict[str, Any]] = [{"name": "process_name", "tid": 0, "args": {"name": f"session {session}"}}]
    for tid, track in enumerate(TRACKS, 1):
        named += [{"name": "thread_name", "tid": tid, "args": {"name": track}}]
        named += [{"name": "thread_sort_index", "tid": tid, "args": {"sort_index": tid}}]
    return [{"ph": "M", "pid": 1, **item} for item in named]


def _event(span: Span, origin: datetime) -> dict[str, Any]:
    begin, end = _micros(span.begin, origin), _micros(max(span.begin, span.end), origin)
    return {
        "ph": "X", "pid": 1, "tid": TRACKS.index(span.track) + 1, "cat": span.track, "name": span.name,
        "ts": begin, "dur": end - begin, "args": span.said,
    }  # fmt: skip


def _micros(time: datetime, origin: datetime) -> int:
    passed = time - origin
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def spans(entries: Sequence[Entry]) -> list[Span]:
    """Everything that took time, track by track."""
    return [*_model(entries), *_executions(entries), *_gate(entries), *_waiting(entries)]


def _next(entries: Sequence[Entry], entry: Entry) -> datetime:
    """When the log goes on after ``entry``; its own time at the end of the log."""
    return at(entries[min(entry.seq + 1, len(entries) - 1)])


def _model(entries: Sequence[Entry]) -> Iterator[Span]:
    asked: tuple[Entry, events.ModelRequested] | None = None
    for entry in entries:
        if asked and isinstance(entry.event, events.ModelReplied | events.ModelFailed):
            said = _reply(entry.event) if isinstance(entry.event, events.ModelReplied) else {"failed": entry.event.reason}
            yield Span("model", asked[1].model, at(asked[0]), at(entry), {"messages": asked[1].messages, **said, "seq": entry.seq})
            asked = None
        elif isinstance(entry.event, events.ModelRequested):
            if asked:
                yield _unanswered(entries, *asked)
            asked = (entry, entry.event)
    if asked:
        yield _unanswered(entries, *asked)


def _unanswered(entries: Sequence[Entry], entry: Entry, asked: events.ModelRequested) -> Span:
    return Span("model", asked.model, at(entry), _next(entries, entry), {"messages": asked.messages, "answered": False, "seq": entry.seq})


def _reply(reply: events.ModelReplied) -> dict[str, Any]:
    """What was called and what it cost; what the provider did not say is absent."""
    calls = [call.model_dump(mode="json") for call in reply.tool_calls]
    return {"usage": reply.usage.model_dump(mode="json", exclude_none=True), "calls": calls, "waited_s": reply.waited_s}


def _executions(entries: Sequence[Entry]) -> Iterator[Span]:
    finished = {entry.event.action: (entry, entry.event) for entry in entries if isinstance(entry.event, events.ExecFinished)}
    for entry in entries:
        if isinstance(entry.event, events.ExecStarted):
            began, ended = entry.event, finished.get(entry.event.action)
            said = {"action": began.action, "arguments": began.arguments, "seq": entry.seq}
            said |= {"ended": ended[1].ended, "seconds": ended[1].seconds} if ended else {"finished": False}
            yield Span("executions", began.program, at(entry), at(ended[0]) if ended else _next(entries, entry), said)


def _gate(entries: Sequence[Entry]) -> Iterator[Span]:
    """A run of the gate encloses its checks; each check lasts from the one before it."""
    began: Entry | None = None
    last: Entry | None = None
    for entry in entries:
        match entry.event:
            case events.CheckStarted():
                began = last = entry
            case events.CheckFinished() as check if last:
                yield Span("gate", check.name, at(last), at(entry), {"proposal": check.proposal, "status": check.status, "seq": entry.seq})
                last = entry
            case events.VerdictGiven() | events.MergeChecked() as given:
                said = {"decision": given.verdict.decision, "basis": given.verdict.basis, "seconds": given.seconds, "seq": entry.seq}
                yield Span("gate", given.proposal, at(began) if began else _before(entry, given.seconds), at(entry), said)
                began = last = None
    if began and last:
        yield Span("gate", "no verdict", at(began), _next(entries, last), {"finished": False, "seq": began.seq})


def _before(entry: Entry, seconds: float) -> datetime:
    """The beginning of something of which only the end and the length are in the log."""
    return at(entry) - timedelta(seconds=max(0.0, min(seconds, 86_400.0)))


def _waiting(entries: Sequence[Entry]) -> Iterator[Span]:
    """For a person's word on an action, then for somebody to go on. What a provider made a call wait stands at the call's beginning."""
    since: Entry | None = None
    name, asked = "", None
    for entry in entries:
        match entry.event:
            case events.ModelRequested():
                asked = entry
            case events.ModelReplied(waited_s=waited) | events.ModelFailed(waited_s=waited) if asked and waited > 0:
                most = max(0.0, (at(entry) - at(asked)).total_seconds())
                until = at(asked) + timedelta(seconds=min(waited, most))
                yield Span("waiting", "provider", at(asked), until, {"waited_s": waited, "seq": entry.seq})
            case events.ApprovalRequested() as request if since is None:
                since, name = entry, f"approval of {request.action}"
            case events.ApprovalGiven() as given if since:
                yield Span(
                    "waiting", name, at(since), at(entry), {"decision": given.decision, "reviewer": given.reviewer, "seq": entry.seq}
                )
                since, name = entry, "resume"
            case events.SessionEnded() as ended if since is None:
                since, name = entry, f"resume: {ended.reason}"
            case events.SessionResumed() if since:
                yield Span("waiting", name, at(since), at(entry), {"seq": entry.seq})
                since = None
