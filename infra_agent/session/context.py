"""Messages for the model: a pure projection of the log, append-only so that a provider's prefix cache hits.

A request's digest is a chain: the head (the tools' schemas), then one link per message. A long conversation is stored once, and
drift in prompt or tools shows at the first link. Only ``context.elided`` changes a message that was sent, and says why.
What a model wrote and no server would take back (calls without an id, ids used twice, arguments that are no JSON object, calls that
were never carried out) is repaired here; the log keeps it as it was.
"""

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

from infra_agent import canonical
from infra_agent.session import events
from infra_agent.session.events import ToolCall
from infra_agent.session.log import Blobs, Entry

_LONG = 600
"""Characters of an observation from which leaving it out is worth a changed prefix."""
_NOT_DONE = "not carried out: the session was interrupted, or an earlier call of this message ended it"


@dataclass(frozen=True)
class Message:
    """One message. ``call`` is the id of the tool call that a tool message answers."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    call: str | None = None


class Conversation:
    """The messages so far. ``sparse_metric`` is the one metric a sparse run shows, None for a dense run."""

    def __init__(self, blobs: Blobs, sparse_metric: str | None) -> None:
        self._blobs = blobs
        self._sparse_metric = sparse_metric
        self._links: list[str] = []
        self._read = 0
        self._used: set[str] = set()
        self._pending: deque[str] = deque()
        """Ids of the last reply's calls that nothing was proposed for yet."""
        self._unanswered: dict[str, None] = {}
        self._notes: list[str] = []
        """Said while calls are open: answers come first, or no server takes the conversation."""
        self._calls: dict[str, str] = {}
        self._shown: dict[str, int] = {}
        """Action -> place of its observation among the messages."""
        self.messages: list[Message] = []

    def read(self, entries: Sequence[Entry], until: int | None = None) -> None:
        """Take in what was logged since the last time, up to entry ``until``."""
        for entry in entries[self._read : until]:
            self._take(entry.event)
        self._read = len(entries) if until is None else max(until, self._read)

    def request(self) -> tuple[list[Message], str]:
        """The messages of the next request, and its digest. Calls that are still open have been given up."""
        self._give_up()
        return self.messages, self._links[-1]

    def _give_up(self) -> None:
        for call in self._unanswered:
            self._append(Message("tool", _NOT_DONE, call=call))
        self._unanswered = {}
        self._pending.clear()
        self._say_notes()

    def elidable(self) -> list[str]:
        """Actions whose observations are long and still whole, oldest first: half of them by length, the newest only when it is alone."""
        long = [(action, len(self.messages[at].text)) for action, at in self._shown.items() if len(self.messages[at].text) >= _LONG]
        long = long[:-1] or long
        goal, chosen = sum(length for _, length in long) / 2, list[str]()
        for action, length in long:
            if goal <= 0:
                break
            chosen.append(action)
            goal -= length
        return chosen

    def _take(self, event: events.Event) -> None:
        match event:
            case events.SessionStarted() as header:
                self._links = [_head(header.tools)]
                self._append(Message("system", self._blobs.get(header.system_prompt).decode()))
                self._append(Message("user", self._blobs.get(header.brief).decode()))
            case events.ModelRequested():
                self._give_up()
            case events.ModelReplied() as reply:
                calls = self._repaired(reply.tool_calls)
                self._append(Message("assistant", reply.text, calls))
                self._pending = deque(call.id for call in calls)
                self._unanswered = dict.fromkeys(call.id for call in calls)
            case events.ActionProposed() as proposed:
                self._calls[proposed.action] = self._pending.popleft() if self._pending else proposed.call
            case events.ObservationMade() as made:
                self._observe(made)
            case events.Note(to_model=True) as note:
                self._notes.append(note.text)
                self._say_notes()
            case events.ContextElided() as elided:
                self._elide(elided.actions)
            case _:
                return

    def _repaired(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """Each with an id of its own, and with arguments that a server can read."""
        found = []
        for call in calls:
            identity, n = call.id or f"call-{len(self.messages)}", 2
            while identity in self._used:
                identity, n = f"{call.id or f'call-{len(self.messages)}'}-{n}", n + 1
            self._used.add(identity)
            arguments = call.arguments if _is_object(call.arguments) else json.dumps({"malformed": call.arguments})
            found.append(call.model_copy(update={"id": identity, "arguments": arguments}))
        return tuple(found)

    def _observe(self, made: events.ObservationMade) -> None:
        call = self._calls[made.action]
        self._unanswered.pop(call, None)
        text = f"[{made.action}] {made.observation.for_model(self._sparse_metric)}"
        self._shown[made.action] = len(self.messages)
        self._append(Message("tool", text, call=call))
        self._say_notes()

    def _say_notes(self) -> None:
        if not self._unanswered:
            for text in self._notes:
                self._append(Message("user", text))
            self._notes = []

    def _elide(self, actions: Sequence[str]) -> None:
        """To headline and digest. Every link from the first of them on is another."""
        places = [self._shown[action] for action in actions if action in self._shown]
        for action in actions:
            if (at := self._shown.get(action)) is not None:
                text = self.messages[at].text
                said = f"{text.splitlines()[0][:300]}\n({len(text)} characters left out, sha256 {canonical.digest(text.encode())[:12]}"
                self.messages[at] = replace(self.messages[at], text=f"{said}; recall {action} shows them)")
        if places:
            kept, again = self.messages[: min(places)], self.messages[min(places) :]
            self.messages, self._links = kept, self._links[: len(kept) + 1]
            for message in again:
                self._append(message)

    def _append(self, message: Message) -> None:
        self.messages.append(message)
        self._links.append(_link(self._links[-1], message))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _head(tools_digest: str) -> str:
    return canonical.digest(f"request\0{tools_digest}".encode())


def _link(before: str, message: Message) -> str:
    return canonical.digest_of([before, {**asdict(message), "tool_calls": [call.model_dump() for call in message.tool_calls]}])


def chain(tools_digest: str, messages: Sequence[Message]) -> str:
    """Digest of a request made of these messages."""
    link = _head(tools_digest)
    for message in messages:
        link = _link(link, message)
    return link


def project(entries: Sequence[Entry], blobs: Blobs, sparse_metric: str | None) -> list[Message]:
    """The messages of a request that followed on these entries."""
    conversation = Conversation(blobs, sparse_metric)
    conversation.read(entries)
    return conversation.request()[0]
