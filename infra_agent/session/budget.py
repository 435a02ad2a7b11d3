"""One ledger of what a session spent. It is read from the log, so nothing resets it: no crash, no resume, no failed call."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from infra_agent.errors import BudgetError
from infra_agent.session import events
from infra_agent.session.events import Usage
from infra_agent.session.log import Entry


@dataclass(frozen=True)
class Limits:
    """What a session may spend in all; None is no limit."""

    steps: int | None = None
    wall_s: float | None = None
    usd: float | None = None

    def as_dict(self) -> dict[str, float | int | None]:
        """For the log."""
        return {"steps": self.steps, "wall_s": self.wall_s, "usd": self.usd}

    def plus(self, steps: int = 0, wall_s: float = 0.0, usd: float = 0.0) -> "Limits":
        """More of what is limited."""
        return Limits(
            None if self.steps is None else self.steps + steps,
            None if self.wall_s is None else self.wall_s + wall_s,
            None if self.usd is None else self.usd + usd,
        )


@dataclass
class Budget:
    """Steps are model calls, failed ones too. ``usd`` stays None while no reply had a known price: unknown is not zero."""

    limits: Limits
    steps: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    waited_s: float = 0.0
    human_minutes: float = 0.0
    """What people said that their decisions took them; nothing limits it."""
    earlier_s: float = 0.0
    """Wall time up to the last resume."""
    _began: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, limits: Limits, entries: Sequence[Entry]) -> "Budget":
        """The ledger of a session that is to go on: every entry so far counts."""
        budget, last = cls(limits), None
        for entry in entries:
            at = datetime.fromisoformat(entry.time)
            if last is not None and not isinstance(entry.event, events.SessionResumed):
                budget.earlier_s += max(0.0, (at - last).total_seconds())
            last = at
            match entry.event:
                case events.ModelRequested():
                    budget.steps += 1
                case events.ModelReplied() as reply:
                    budget.book(reply.usage, reply.waited_s)
                case events.ModelFailed() as failed:
                    budget.book(Usage(), failed.waited_s)
                case events.SessionEnded() | events.MergeChecked() | events.Merged():
                    last = None  # what a person takes after it is not the session's
                case events.ReviewDecided() | events.ApprovalGiven() as decided:
                    last = None
                    budget.human_minutes += decided.minutes
                case _:
                    continue
        return budget

    @property
    def wall_s(self) -> float:
        """Seconds in which the session ran."""
        return self.earlier_s + time.monotonic() - self._began

    def reserve_step(self) -> None:
        """Called before a model call; raises BudgetError naming the limit that is reached."""
        if self.limits.steps is not None and self.steps >= self.limits.steps:
            raise BudgetError(f"the budget of {self.limits.steps} steps is used up; {_more('steps=N')}")
        if self.limits.wall_s is not None and self.wall_s >= self.limits.wall_s:
            raise BudgetError(f"the budget of {self.limits.wall_s:.0f} s is used up; {_more('wall=SECONDS')}")
        if self.limits.usd is not None and (self.usd or 0.0) >= self.limits.usd:
            raise BudgetError(f"the budget of ${self.limits.usd:.2f} is used up; {_more('usd=X')}")
        self.steps += 1

    def book(self, usage: Usage, waited_s: float) -> None:
        """Add what a reply cost."""
        self.input_tokens += usage.input_tokens or 0
        self.cached_tokens += usage.cached_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        self.waited_s += waited_s
        if usage.cost_usd is not None:
            self.usd = (self.usd or 0.0) + usage.cost_usd

    def spent(self) -> dict[str, float | int | None]:
        """For the log's last event."""
        return {
            "steps": self.steps, "wall_s": round(self.wall_s, 3), "waited_s": round(self.waited_s, 3), "usd": self.usd,
            "input_tokens": self.input_tokens, "cached_tokens": self.cached_tokens, "output_tokens": self.output_tokens,
            "human_minutes": self.human_minutes,
        }  # fmt: skip


def _more(what: str) -> str:
    return f"infra-agent resume SESSION --add-budget {what} goes on"


def limits_of(entries: Sequence[Entry]) -> Limits:
    """The limits that hold at the end of the log."""
    found = Limits()
    for entry in entries:
        if isinstance(entry.event, events.SessionStarted | events.SessionResumed):
            said = entry.event.limits
            steps = said.get("steps")
            found = replace(found, steps=None if steps is None else int(steps), wall_s=said.get("wall_s"), usd=said.get("usd"))
    return found
