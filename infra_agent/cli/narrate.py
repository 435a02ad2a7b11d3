"""What a person sees of a session while it runs: lines for the events that are worth following."""

from infra_agent.cli.output import progress
from infra_agent.session import events

_MOST_FINDINGS = 2
_QUIET = ("view", "search", "hypothesis", "recall", "propose")


def narrate(event: events.Event) -> None:
    """Tell a person of an event."""
    for line in _of_session(event) or _of_work(event):
        progress(line)


def _of_session(event: events.Event) -> list[str]:
    match event:
        case events.SessionStarted():
            head = f"session {event.session}: task {event.task}, driver {event.driver}, isolation {event.isolation}, {event.platform}"
            return [head, *(f"  not held at this isolation: {clause}" for clause in event.not_held)]
        case events.SessionResumed():
            cut = f", {event.dropped_bytes} bytes of a torn last line were dropped" if event.dropped_bytes else ""
            return [f"resumed after event {event.last_seq}, driver {event.driver}{cut}"]
        case events.ModelRequested(model="manual"):
            return [f"  waiting for a reply to a request of {event.messages} messages"]
        case events.ModelFailed():
            return [f"  the model failed: {event.reason}"]
        case events.ContextElided():
            return [f"  the conversation was too long: {len(event.actions)} observations are shown by their headlines from here on"]
        case events.Note(to_model=True):
            return [f"  told the model: {event.text}"]
        case _:
            return []


def _of_work(event: events.Event) -> list[str]:
    match event:
        case events.HypothesisStated():
            return [f"  {event.hypothesis}: {event.claim}; predicted: {event.prediction}"]
        case events.HypothesisSettled():
            return [f"  {event.hypothesis} {event.outcome} by {event.observation}{f': {event.note}' if event.note else ''}"]
        case events.ObservationMade(observation=o) if o.instrument not in _QUIET:
            head = f"  [{event.action}] {o.instrument}: {o.status}{f' ({o.kind})' if o.kind else ''} — {o.headline} ({o.cost_s:.1f} s)"
            worst = sorted(o.findings, key=lambda f: -f.magnitude)[:_MOST_FINDINGS]
            return [head, *(f"        {finding.where}: {' '.join(finding.message.split())}" for finding in worst)]
        case events.ProposalMade():
            return [f"proposal: {event.title}"]
        case events.CheckFinished():
            return [f"  gate {event.name}: {event.status}"]
        case _:
            return []
