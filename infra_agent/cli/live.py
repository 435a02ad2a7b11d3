"""A session on a terminal while it runs: goal, steps, cost, hypotheses, the last observation and the gate, redrawn in place."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from infra_agent.cli.narrate import narrate
from infra_agent.cli.output import visible
from infra_agent.session import events

_WIDTH = 160
_MARKS = {"confirmed": "+", "refuted": "-", "open": "?"}


@dataclass
class View:
    """What is shown; ``take`` is told of every event."""

    limits: dict[str, float | int | None] = field(default_factory=dict)
    head: str = ""
    steps: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    waited_s: float = 0.0
    doing: str = ""
    last: str = ""
    findings: tuple[str, ...] = ()
    hypotheses: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Id -> outcome and claim."""
    checks: list[str] = field(default_factory=list)
    said: str = ""
    _began: float = field(default_factory=time.monotonic)

    def take(self, event: events.Event) -> None:
        """Change what is shown."""
        self._session(event)
        self._model(event)
        self._work(event)

    def _session(self, event: events.Event) -> None:
        match event:
            case events.SessionStarted():
                self.head = f"{event.task}   {event.session}   driver {event.driver}, isolation {event.isolation}, {event.platform}"
                self.limits = event.limits
            case events.SessionResumed():
                self.limits = event.limits
            case events.SessionEnded():
                self.doing = event.reason
            case events.Note(to_model=True):
                self.said = f"told the model: {event.text}"

    def _model(self, event: events.Event) -> None:
        match event:
            case events.ModelRequested():
                self.steps, self.doing = self.steps + 1, f"{event.model} is asked ({event.messages} messages)"
            case events.ModelReplied(usage=used):
                self.input_tokens += used.input_tokens or 0
                self.cached_tokens += used.cached_tokens or 0
                self.output_tokens += used.output_tokens or 0
                self.waited_s += event.waited_s
                self.usd = self.usd if used.cost_usd is None else (self.usd or 0.0) + used.cost_usd
            case events.ModelFailed():
                self.said = f"the model failed: {event.reason}"

    def _work(self, event: events.Event) -> None:
        match event:
            case events.ExecStarted():
                self.doing = f"{event.action} {event.program}"
            case events.ObservationMade(observation=seen):
                kind = f" ({seen.kind})" if seen.kind else ""
                self.last = f"[{event.action}] {seen.instrument}: {seen.status}{kind} — {seen.headline}"
                worst = sorted(seen.findings, key=lambda f: -f.magnitude)[:3]
                self.findings = tuple(f"{finding.where}: {' '.join(finding.message.split())}" for finding in worst)
            case events.HypothesisStated():
                self.hypotheses[event.hypothesis] = ("open", event.claim)
            case events.HypothesisSettled():
                self.hypotheses[event.hypothesis] = (event.outcome, self.hypotheses.get(event.hypothesis, ("", ""))[1])
            case events.ProposalMade():
                self.checks, self.doing = [], f"the gate judges: {event.title}"
            case events.CheckFinished():
                self.checks.append(f"{event.name}: {event.status}")

    def lines(self) -> list[str]:
        """The screen, line by line."""
        most = self.limits.get("steps")
        price = "price unknown" if self.usd is None else f"${self.usd:.2f}"
        tokens = f"{self.input_tokens} tokens in ({self.cached_tokens} cached), {self.output_tokens} out"
        spent = f"step {self.steps}{f' of {most}' if most else ''}   {tokens}   {price}   {time.monotonic() - self._began:.0f} s"
        shown = [self.head, f"{spent}, {self.waited_s:.0f} s of them waiting", f"now: {self.doing}"]
        shown += [f"  {_MARKS.get(outcome, '?')} {name} {outcome}: {claim}" for name, (outcome, claim) in self.hypotheses.items()]
        shown += [self.last, *(f"        {finding}" for finding in self.findings)] if self.last else []
        shown += [f"gate: {', '.join(self.checks)}"] if self.checks else []
        return [visible(line)[:_WIDTH] for line in [*shown, *([self.said] if self.said else [])]]


@contextmanager
def watching() -> Iterator[Callable[[events.Event], None]]:
    """Who is to be told of events: a screen on a terminal, else lines."""
    if not sys.stderr.isatty():
        yield narrate
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    view = View()
    with Live(console=Console(stderr=True), refresh_per_second=4, get_renderable=lambda: Text("\n".join(view.lines()))):
        yield view.take
