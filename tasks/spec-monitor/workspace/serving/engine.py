"""Replays recorded decode traffic through the monitor and the retry policy, one verify step at a time."""

from collections import deque

from serving.config import EngineConfig
from serving.events import Action, VerifyStep
from serving.monitor import SpecMonitor
from serving.request_table import AttemptRecord, RequestRecord, RequestTable
from serving.retry import RetryPolicy
from serving.trace import Trace


class Engine:
    """Continuous batching: every running request makes one verify step per tick, and a free room is filled at once."""

    def __init__(self, trace: Trace, config: EngineConfig) -> None:
        self._trace = trace
        self.table = RequestTable(trace.request_ids, config.max_running)
        self._monitor = SpecMonitor(config.monitor)
        self._retry = RetryPolicy(config.retry)
        self._waiting = deque(self.table.records)
        self._running: dict[int, tuple[RequestRecord, deque[VerifyStep]]] = {}

    def run(self) -> None:
        """Until every request has finished or failed."""
        while self._waiting or self._running:
            self._fill_rooms()
            for room in list(self._running):
                self._verify(room)

    def _fill_rooms(self) -> None:
        while self._waiting and self.table.enter(self._waiting[0]):
            record = self._waiting.popleft()
            room = record.room
            assert room is not None
            self._running[room] = record, self._trace.steps(record.row, record.attempt)
            self._monitor.admit(room, record.request_id, record.attempt)

    def _verify(self, room: int) -> None:
        record, steps = self._running[room]
        step = steps.popleft()
        action = self._monitor.observe(room, step)
        if action is Action.ABORT or not steps:
            self._end(room, record, step.output_tokens, aborted=action is Action.ABORT)

    def _end(self, room: int, record: RequestRecord, output_tokens: int, aborted: bool) -> None:
        del self._running[room]
        stats = self._monitor.release(room)
        self.table.leave(record, AttemptRecord(aborted, output_tokens, stats))
        if not aborted:
            record.state = "finished"
        elif self._retry.allows(record) and record.attempt + 1 < self._trace.attempts:
            self.table.again(record)
            self._waiting.append(record)
        else:
            record.state = "failed"
