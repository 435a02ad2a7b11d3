"""Bookkeeping of requests: where each one is, and what its attempts cost."""

from dataclasses import dataclass, field
from typing import Literal

from serving.stats import AttemptStats

State = Literal["waiting", "running", "finished", "failed"]


@dataclass
class AttemptRecord:
    """An attempt that is over."""

    aborted: bool
    output_tokens: int
    stats: AttemptStats


@dataclass
class RequestRecord:
    """A request over its life in the engine."""

    request_id: int
    row: int
    state: State = "waiting"
    attempt: int = 0
    room: int | None = None
    attempts: list[AttemptRecord] = field(default_factory=list)

    @property
    def wasted_tokens(self) -> int:
        """Output tokens of aborted attempts: the client saw them withdrawn."""
        return sum(record.output_tokens for record in self.attempts if record.aborted)


class RequestTable:
    """All requests and the rooms that are free."""

    def __init__(self, request_ids: list[int], rooms: int) -> None:
        self.records = [RequestRecord(request_id, row) for row, request_id in enumerate(request_ids)]
        self._free = list(range(rooms))

    def enter(self, record: RequestRecord) -> bool:
        """Give a waiting request a room; False when none is free."""
        if not self._free:
            return False
        record.room, record.state = self._free.pop(), "running"
        return True

    def leave(self, record: RequestRecord, ended: AttemptRecord) -> None:
        """Note an attempt that is over and free its room. The caller sets the next state."""
        assert record.room is not None
        record.attempts.append(ended)
        self._free.append(record.room)
        record.room = None

    def again(self, record: RequestRecord) -> None:
        """Queue a request for its next attempt."""
        record.attempt += 1
        record.state = "waiting"
