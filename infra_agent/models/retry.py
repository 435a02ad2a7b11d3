"""The one retry loop: what an SDK would do is off."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from infra_agent.errors import ModelError
from infra_agent.models.base import Reply
from infra_agent.models.faults import TransientError


@dataclass(frozen=True)
class Retry:
    """How often and how long. ``wait`` is the clock's; a test passes its own."""

    attempts: int = 5
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    wait: Callable[[float], None] = time.sleep

    def of(self, once: Callable[[], Reply]) -> Reply:
        """``once``'s reply, with the time that was waited. Raises ModelError, which carries that time too."""
        waited = 0.0
        for attempt in range(self.attempts):
            try:
                reply = once()
            except TransientError as error:
                if attempt == self.attempts - 1:
                    raise ModelError(f"{error}; no answer in {self.attempts} attempts", waited) from error
                pause = self._pause(attempt, error.retry_after_s)
                self.wait(pause)
                waited += pause
            except ModelError as error:
                error.waited_s = waited
                raise
            else:
                return replace(reply, waited_s=waited)
        raise ModelError("a retry loop of no attempts")

    def _pause(self, attempt: int, asked_s: float | None) -> float:
        """What the server asks for, else doubling with jitter; capped. A server that asks for nothing is not asked again at once."""
        if asked_s:
            return min(asked_s, self.longest_wait_s)
        return min(self.first_wait_s * 2.0**attempt, self.longest_wait_s) * random.uniform(0.5, 1.0)
