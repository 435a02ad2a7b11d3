"""One ledger of what a session spent. Reserve before spending; nothing resets it."""

import time
from dataclasses import dataclass, field

from infra_agent.errors import BudgetError
from infra_agent.session.events import Usage


@dataclass(frozen=True)
class Limits:
    """What a session may spend; None is no limit."""

    steps: int | None = None
    wall_s: float | None = None
    usd: float | None = None

    def as_dict(self) -> dict[str, float | int | None]:
        """For the log's header."""
        return {"steps": self.steps, "wall_s": self.wall_s, "usd": self.usd}


@dataclass
class Budget:
    """Steps are model calls. ``usd`` stays None while no reply had a known price: unknown is not zero."""

    limits: Limits
    steps: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    waited_s: float = 0.0
    _began: float = field(default_factory=time.monotonic)

    @property
    def wall_s(self) -> float:
        """Seconds since the session started or was resumed."""
        return time.monotonic() - self._began

    def reserve_step(self) -> None:
        """Called before a model call; raises BudgetError naming the limit that is reached."""
        if self.limits.steps is not None and self.steps >= self.limits.steps:
            raise BudgetError(f"the budget of {self.limits.steps} steps is used up; run again with a larger --max-steps")
        if self.limits.wall_s is not None and self.wall_s >= self.limits.wall_s:
            raise BudgetError(f"the budget of {self.limits.wall_s:.0f} s is used up")
        if self.limits.usd is not None and (self.usd or 0.0) >= self.limits.usd:
            raise BudgetError(f"the budget of ${self.limits.usd:.2f} is used up; run again with a larger --budget-usd")
        self.steps += 1

    def book(self, usage: Usage, waited_s: float) -> None:
        """Add what a reply cost."""
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        self.waited_s += waited_s
        if usage.cost_usd is not None:
            self.usd = (self.usd or 0.0) + usage.cost_usd

    def spent(self) -> dict[str, float | int | None]:
        """For the log's last event."""
        return {
            "steps": self.steps, "wall_s": round(self.wall_s, 3), "waited_s": round(self.waited_s, 3), "usd": self.usd,
            "input_tokens": self.input_tokens, "output_tokens": self.output_tokens,
        }  # fmt: skip
