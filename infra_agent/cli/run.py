"""``infra-agent run``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra_agent.cli.output import Sandbox, answer, document, progress
from infra_agent.errors import UsageError

if TYPE_CHECKING:
    from infra_agent.models.base import Model
    from infra_agent.session import events


_MOST_FINDINGS = 2
_SPARSE_HINT = " (the playbook's rules read findings, which a sparse run does not show)"


def make_model(name: str, base_url: str | None) -> "Model":
    """playbook | openai:NAME | manual:DIR. Raises UsageError for any other."""
    kind, _, rest = name.partition(":")
    if kind == "playbook":
        from infra_agent.models.playbook import Playbook

        return Playbook()
    if kind == "openai" and rest:
        from infra_agent.models.openai import OpenAI

        return OpenAI(rest, base_url)
    if kind == "manual" and rest:
        from infra_agent.models.manual import Manual

        return Manual(Path(rest))
    raise UsageError(
        f"unknown model '{name}'; there are: playbook, openai:NAME (with --base-url URL for any compatible server), manual:DIR"
    )


def narrate(event: "events.Event") -> None:
    """One line of progress for events a person follows."""
    from infra_agent.session import events

    match event:
        case events.SessionStarted():
            progress(f"session {event.session}: task {event.task}, driver {event.driver}, isolation {event.isolation}, {event.platform}")
            for clause in event.not_held:
                progress(f"  not held at this isolation: {clause}")
        case events.ModelRequested(model="manual"):
            progress(f"  waiting for a reply to a request of {event.messages} messages")
        case events.HypothesisStated():
            progress(f"  {event.hypothesis}: {event.claim}; predicted: {event.prediction}")
        case events.HypothesisSettled():
            progress(f"  {event.hypothesis} {event.outcome} by {event.observation}{f': {event.note}' if event.note else ''}")
        case events.ObservationMade(observation=o) if o.instrument not in ("view", "search", "hypothesis", "recall", "propose"):
            progress(f"  [{event.action}] {o.instrument}: {o.status}{f' ({o.kind})' if o.kind else ''} — {o.headline} ({o.cost_s:.1f} s)")
            for finding in sorted(o.findings, key=lambda f: -f.magnitude)[:_MOST_FINDINGS]:
                progress(f"        {finding.where}: {' '.join(finding.message.split())}")
        case events.ProposalMade():
            progress(f"proposal: {event.title}")
        case events.CheckFinished():
            progress(f"  gate {event.name}: {event.status}")
        case _:
            return


def run(
    task: Annotated[str, typer.Argument(help="task folder, task.toml or task id")],
    model: Annotated[str, typer.Option(help="playbook | openai:NAME | manual:DIR")] = "playbook",
    base_url: Annotated[str | None, typer.Option(help="server for openai: models")] = None,
    feedback: Annotated[str, typer.Option(help="dense | sparse: sparse shows the model one metric and no findings")] = "dense",
    max_steps: Annotated[int | None, typer.Option(min=1, help="model calls; default: the task's")] = None,
    budget_usd: Annotated[float | None, typer.Option(min=0, help="stop when replies of known price cost this much")] = None,
    sandbox: Sandbox = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False,
) -> None:
    """Run the agent on a task until its proposal is judged. Exit 0 when the proposal passed the gate."""
    from infra_agent.agent import session
    from infra_agent.proposal.review import render
    from infra_agent.proposal.store import find_proposal
    from infra_agent.session.budget import Limits
    from infra_agent.share import home
    from infra_agent.task.load import load

    if feedback not in ("dense", "sparse"):
        raise UsageError(f"--feedback {feedback}: allowed are dense and sparse")
    if budget_usd is not None and model.startswith("openai:"):
        raise UsageError(f"--budget-usd: the price of {model} is not known, so the budget could never act; use --max-steps")
    loaded = load(task)
    chosen = make_model(model, base_url)
    limits = Limits(max_steps if max_steps is not None else loaded.spec.max_steps, loaded.spec.wall_s, budget_usd)
    name, outcome = session.run(
        loaded, chosen, session.driver_of(chosen.name), session.Options(feedback == "sparse", limits, home(), sandbox), narrate
    )
    if as_json:
        document({"session": name, "exit_code": outcome.exit_code, "reason": outcome.reason, "proposal": outcome.proposal})
    elif outcome.proposal:
        answer(render(find_proposal(outcome.proposal)))
        if outcome.exit_code == 0:
            answer(f"\nApprove:  infra-agent approve {outcome.proposal} --reviewer NAME --reason TEXT")
    if outcome.exit_code:
        progress(f"infra-agent: {outcome.reason}{_SPARSE_HINT if feedback == 'sparse' and model == 'playbook' else ''}")
    raise typer.Exit(outcome.exit_code)
