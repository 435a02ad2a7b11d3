"""A session as the steps of a conversation. Every entry of the log stands in exactly one place, so that no format can lose one."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from infra_agent.proposal.store import Session
from infra_agent.session import events
from infra_agent.session.context import Message, project
from infra_agent.session.events import ToolCall
from infra_agent.session.log import BrokenLogError, Entry
from infra_agent.task.spec import TaskSpec


@dataclass
class Call:
    """A tool call and what became of it."""

    sent: ToolCall | None
    """As the next request shows it: an id of its own, arguments that are a JSON object. None for an action that no call asked for."""
    written: ToolCall | None
    """As the model wrote it."""
    proposed: Entry | None = None
    seen: Entry | None = None

    @property
    def action(self) -> events.ActionProposed | None:
        """The call as the host understood it; None when nothing came of it."""
        return self.proposed.event if self.proposed and isinstance(self.proposed.event, events.ActionProposed) else None

    @property
    def made(self) -> events.ObservationMade | None:
        """What was seen."""
        return self.seen.event if self.seen and isinstance(self.seen.event, events.ObservationMade) else None


@dataclass
class Opening:
    """The header, which tells the system prompt and the brief. ``rest``: what was logged before anything was said."""

    entry: Entry
    rest: list[Entry] = field(default_factory=list)


@dataclass
class Turn:
    """A reply, its calls, and in ``rest`` whatever else was logged until the next step."""

    entry: Entry
    reply: events.ModelReplied
    requested: Entry | None
    calls: list[Call]
    rest: list[Entry] = field(default_factory=list)


@dataclass
class Told:
    """Something that the model was told."""

    entry: Entry
    note: events.Note
    rest: list[Entry] = field(default_factory=list)


@dataclass
class Failed:
    """A request that was given up."""

    entry: Entry
    failure: events.ModelFailed
    requested: Entry | None
    rest: list[Entry] = field(default_factory=list)


Step = Opening | Turn | Told | Failed


def steps_of(session: Session) -> list[Step]:
    """The steps in order; the first is the opening. Raises BrokenLogError for a log that does not begin with a header."""
    said = [message for message in project(session.entries, session.blobs, sparse_metric(session)) if message.role == "assistant"]
    reader = _Reader(Opening(session.entries[0]), iter(said))
    for entry in session.entries[1:]:
        reader.take(entry)
    return reader.done()


class _Reader:
    """Reads entries into steps."""

    def __init__(self, opening: Opening, said: Iterator[Message]) -> None:
        self._steps: list[Step] = [opening]
        self._said = said
        self._requested: Entry | None = None
        self._turn: Turn | None = None
        self._waiting: deque[Call] = deque()
        """Calls of the last reply that no action was proposed for yet."""
        self._calls: dict[str, Call] = {}
        """Action -> its call."""

    def take(self, entry: Entry) -> None:
        match entry.event:
            case events.ModelRequested():
                self._unanswered()
                self._requested = entry
            case events.ModelReplied() as reply:
                self._turn = Turn(entry, reply, self._request(), _calls(reply, next(self._said)))
                self._steps.append(self._turn)
                self._waiting = deque(self._turn.calls)
            case events.ModelFailed() as failure:
                self._steps.append(Failed(entry, failure, self._request()))
            case events.Note(to_model=True) as note:
                self._steps.append(Told(entry, note))
            case events.ActionProposed() as action if self._turn:
                self._propose(self._turn, entry, action.action)
            case events.ObservationMade() as made if made.action in self._calls and self._calls[made.action].seen is None:
                self._calls[made.action].seen = entry
            case _:
                self._steps[-1].rest.append(entry)

    def done(self) -> list[Step]:
        self._unanswered()
        return self._steps

    def _request(self) -> Entry | None:
        requested, self._requested = self._requested, None
        return requested

    def _unanswered(self) -> None:
        if left := self._request():
            self._steps[-1].rest.append(left)

    def _propose(self, turn: Turn, entry: Entry, action: str) -> None:
        """An action belongs to the first call of the last reply that has none."""
        if self._waiting:
            call = self._waiting.popleft()
        else:
            call = Call(None, None)
            turn.calls.append(call)
        call.proposed = entry
        self._calls[action] = call


def sparse_metric(session: Session) -> str | None:
    """The one metric that the session's model was shown; None for a dense session."""
    if session.header.feedback == "dense":
        return None
    return TaskSpec.model_validate_json(session.blobs.get(session.header.spec)).sparse_metric


def _calls(reply: events.ModelReplied, said: Message) -> list[Call]:
    return [Call(sent, written) for sent, written in zip(said.tool_calls, reply.tool_calls, strict=True)]


def plain(entry: Entry) -> dict[str, Any]:
    """An entry as data: number, time, type and what the event says."""
    return {"seq": entry.seq, "t": entry.time, **entry.event.model_dump(mode="json")}


def at(entry: Entry) -> datetime:
    """When it was logged. Raises BrokenLogError for what is no time."""
    try:
        time = datetime.fromisoformat(entry.time)
    except ValueError as error:
        raise BrokenLogError(f"event {entry.seq}: {entry.time[:40]!r} is not a time") from error
    return time if time.tzinfo else time.replace(tzinfo=UTC)
