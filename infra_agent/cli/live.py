"""A session on a terminal while it runs: goal, steps, cost, hypotheses, the last observation and the gate, redrawn in place."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from infra_agent.cli.narrate import narrate
from infra_agent.cli.output import visible
from infra_agent.session import events
from infra_agent.session.budget import Budget, Limits
from infra_agent.session.events import Usage

_WIDTH = 160
_MARKS = {"confirmed": "+", "refuted": "-", "open": "?"}


@dataclass
class View:
    """What is shown; ``take`` is told of every event."""

    limits: dict[str, float | int | None] = field(default_factory=dict)
    head: str = ""
    ledger: Budget = field(default_factory=lambda: Budget(Limits()))
    doing: str = ""
    last: str = ""
    findings: tuple[str, ...] = ()
    hypotheses: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Id -> outcome and claim."""
    checks: list[str] = field(default_factory=list)
    said: str = ""

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
                self.ledger.steps += 1
                self.doing = f"{event.model} is asked ({event.messages} messages)"
            case events.ModelReplied():
                self.ledger.book(event.usage, event.waited_s)
            case events.ModelFailed():
                self.ledger.book(Usage(), event.waited_s)
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
        most, ledger = self.limits.get("steps"), self.ledger
        price = "price unknown" if ledger.usd is None else f"${ledger.usd:.2f}"
        tokens = f"{ledger.input_tokens} tokens in ({ledger.cached_tokens} cached), {ledger.output_tokens} out"
        spent = f"step {ledger.steps}{f' of {most}' if most else ''}   {tokens}   {price}   {ledger.wall_s:.0f} s"
        shown = [self.head, f"{spent}, {ledger.waited_s:.0f} s of them waiting", f"now: {self.doing}"]
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
