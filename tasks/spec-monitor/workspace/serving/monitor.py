"""Watches the acceptance of every running attempt.

Draft and target read the same KV cache. When the target's part of it is corrupted, the two models stop agreeing and the
accepted length falls to about one.
"""

from serving.config import MonitorConfig
from serving.events import Action, VerifyStep
from serving.stats import AttemptStats


class SpecMonitor:
    """One per engine. Rooms are reused: ``admit`` starts a new attempt in a room, ``release`` ends it."""

    def __init__(self, config: MonitorConfig) -> None:
        self._config = config
        self._rooms: dict[int, AttemptStats] = {}

    def admit(self, room: int, request_id: int, attempt: int) -> None:
        """An attempt of a request begins to decode in a room."""
        self._rooms[room] = AttemptStats()

    def observe(self, room: int, step: VerifyStep) -> Action:
        """Called after each step of each room, in the order in which the workers report."""
        stats = self._rooms[room]
        stats.update(step)
        if stats.verify_steps < self._config.warmup_steps:
            return Action.CONTINUE
        if stats.accept_length < self._config.accept_length_floor:
            return Action.ABORT
        return Action.CONTINUE

    def release(self, room: int) -> AttemptStats:
        """The attempt is over: it finished, or was aborted. Returns its figures."""
        return self._rooms.pop(room)
