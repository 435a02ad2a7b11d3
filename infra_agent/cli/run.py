"""``infra-agent run`` and ``infra-agent resume``."""

import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra_agent.cli.output import Sandbox, answer, document, progress
from infra_agent.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from infra_agent.agent.loop import Outcome
    from infra_agent.models.base import Model
    from infra_agent.models.price import Price
    from infra_agent.session.budget import Limits

_DRIVER = re.compile(r"person|model:[\w.:/-]{1,80}")
_SPARSE_HINT = " (the playbook's rules read findings, which a sparse run does not show)"
ModelName = Annotated[str, typer.Option(help="playbook | openai:NAME | litellm:PROVIDER/NAME | manual:DIR")]
BaseUrl = Annotated[str | None, typer.Option(help="server for openai: and litellm: models")]
Rate = Annotated[str | None, typer.Option(metavar="IN,OUT[,CACHED]", help="US dollars for a million tokens of this model")]
Json = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]


def run(
    task: Annotated[str, typer.Argument(help="task folder, task.toml or task id; all: every task in turn")],
    model: ModelName = "playbook",
    base_url: BaseUrl = None,
    price: Rate = None,
    feedback: Annotated[str, typer.Option(help="dense | sparse: sparse shows the model one metric and no findings")] = "dense",
    max_steps: Annotated[int | None, typer.Option(min=1, help="model calls; default: the task's")] = None,
    budget_usd: Annotated[float | None, typer.Option(min=0, help="stop when replies of known price cost this much")] = None,
    driver: Annotated[str, typer.Option(help="who writes the replies of manual:, for the record: person | model:NAME")] = "",
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Run the agent on a task until its proposal is judged. Exit 0 when the proposal passed the gate. Ctrl-C parks it."""
    if feedback not in ("dense", "sparse"):
        raise UsageError(f"--feedback {feedback}: allowed are dense and sparse")
    if driver and not (model.startswith("manual:") and _DRIVER.fullmatch(driver)):
        raise UsageError(f"--driver {driver}: person or model:NAME, and only with --model manual:DIR; of other models it is known")
    asked = Asked(model, base_url, price, feedback == "sparse", max_steps, budget_usd, sandbox, driver)
    if task == "all":
        from infra_agent.cli.run_all import run_all

        raise typer.Exit(run_all(asked, as_json))
    name, outcome = run_one(task, asked)
    _finish(name, outcome, as_json, _SPARSE_HINT if asked.sparse and model == "playbook" else "")


@dataclass(frozen=True)
class Asked:
    """How to run, as the command line has it."""

    model: str
    base_url: str | None
    price: str | None
    sparse: bool
    max_steps: int | None
    budget_usd: float | None
    sandbox: str
    driver: str
    """Of a manual model; empty where it is known or nobody says."""


def run_one(task: str, asked: Asked) -> "tuple[str, Outcome]":
    """A session of one task from its beginning to its end; its name, and how it ended."""
    from infra_agent.agent import session
    from infra_agent.cli.live import watching
    from infra_agent.models import choose
    from infra_agent.session.budget import Limits
    from infra_agent.share import home
    from infra_agent.task.load import load

    loaded = load(task)
    with _parking() as stop, watching() as told:
        chosen = choose.model(asked.model, asked.base_url, stop=stop)
        steps = asked.max_steps if asked.max_steps is not None else loaded.spec.max_steps
        limits = Limits(steps, loaded.spec.wall_s, asked.budget_usd)
        known = _price(asked.price, chosen, asked.model, limits)
        options = session.Options(asked.sparse, limits, home(), asked.sandbox, known, stop, asked.model, asked.base_url or "")
        return session.run(loaded, chosen, asked.driver or session.driver_of(chosen.name), options, told)


def resume(
    session_name: Annotated[str, typer.Argument(metavar="SESSION", help="session id, a unique beginning of it, or its folder")],
    add_budget: Annotated[list[str] | None, typer.Option(help="steps=N, wall=SECONDS or usd=X on top; may be given more than once")] = None,
    task: Annotated[str | None, typer.Option(help="the task's folder, where its id alone does not find it")] = None,
    model: Annotated[str | None, typer.Option(help="another model than the session's")] = None,
    base_url: BaseUrl = None,
    price: Rate = None,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Go on with a session that was parked, broke off or reached a limit. What was begun and not finished is not done again unseen."""
    from infra_agent.proposal.store import session_folder
    from infra_agent.session.log import mend

    added = _added(add_budget or [])
    folder = session_folder(session_name)
    _go_on(folder, _With(added, task, model, base_url, price, sandbox), as_json, mend(folder))


def fork(
    session_name: Annotated[str, typer.Argument(metavar="SESSION", help="session id, a unique beginning of it, or its folder")],
    at: Annotated[int, typer.Option(help="number of the last event that is kept; show SESSION lists them")],
    message: Annotated[str, typer.Option(help="said to the model before it goes on")] = "",
    add_budget: Annotated[list[str] | None, typer.Option(help="steps=N, wall=SECONDS or usd=X on top; may be given more than once")] = None,
    task: Annotated[str | None, typer.Option(help="the task's folder, where its id alone does not find it")] = None,
    model: Annotated[str | None, typer.Option(help="another model than the session's")] = None,
    base_url: BaseUrl = None,
    price: Rate = None,
    sandbox: Sandbox = "auto",
    as_json: Json = False,
) -> None:
    """Begin a new session with the first events of another: what it spent counts, what it did stands, and it goes on differently."""
    from infra_agent.agent.fork import fork as forked
    from infra_agent.proposal.store import open_session
    from infra_agent.share import home

    added = _added(add_budget or [])
    folder = forked(open_session(session_name), at, home(), message)
    _go_on(folder, _With(added, task, model, base_url, price, sandbox), as_json, 0)


@dataclass(frozen=True)
class _With:
    """With what a session goes on, as the command line has it."""

    added: dict[str, Any]
    task: str | None
    model: str | None
    base_url: str | None
    price: str | None
    sandbox: str


def _go_on(folder: "Path", given: _With, as_json: bool, dropped: int) -> None:
    from infra_agent.agent import session
    from infra_agent.cli.live import watching
    from infra_agent.models import choose
    from infra_agent.proposal.store import Session
    from infra_agent.session.budget import limits_of
    from infra_agent.session.log import read
    from infra_agent.share import home
    from infra_agent.task.load import load

    opened = Session(folder, read(folder))
    session.resumable(opened.entries, folder.name)
    header = opened.header
    named, server = given.model or header.model, given.base_url or header.base_url or None
    limits = limits_of(opened.entries).plus(**given.added)
    with _parking() as stop, watching() as told:
        chosen = choose.model(named, server, goes_on=True, stop=stop)
        known = _price(given.price, chosen, named, limits)
        options = session.Options(header.feedback == "sparse", limits, home(), given.sandbox, known, stop, named, server or "")
        same = chosen.name == "manual" and header.model.startswith("manual:")
        driver = header.driver if same else session.driver_of(chosen.name)
        outcome = session.resume(load(given.task or header.task), folder, chosen, driver, options, told, dropped)
    _finish(folder.name, outcome, as_json, "")


def _added(listed: list[str]) -> dict[str, Any]:
    """``steps=N``, ``wall=S`` and ``usd=X`` as arguments of ``Limits.plus``."""
    found: dict[str, Any] = {}
    for text in listed:
        name, _, number = text.partition("=")
        key = {"steps": "steps", "wall": "wall_s", "usd": "usd"}.get(name)
        try:
            more = int(number) if key == "steps" else float(number)
        except ValueError:
            more = 0
        if key is None or not 0 < more < 1e9:
            raise UsageError(f"--add-budget {text}: expected steps=N, wall=SECONDS or usd=X")
        found[key] = more
    return found


def _price(given: str | None, chosen: "Model", name: str, limits: "Limits") -> "Price | None":
    """What tokens cost; a budget in dollars that could never act is refused."""
    from infra_agent.models import choose
    from infra_agent.models.price import Price

    known = Price.parse(given) if given is not None else choose.listed_price(chosen)
    if limits.usd is not None and known is None and name.startswith(("openai:", "litellm:")):
        raise UsageError(f"--budget-usd: the price of {name} is not known, so the budget could never act; give --price, or use --max-steps")
    return known


@contextmanager
def _parking() -> Iterator[threading.Event]:
    """SIGINT or SIGTERM asks the session to park; a second SIGINT stops it where it stands."""
    stop = threading.Event()

    def ask(number: int, _: object) -> None:
        if number == signal.SIGINT and stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        os.write(2, b"infra-agent: parking when this step is done; Ctrl-C once more stops at once\n")  # a stream may be in use right now

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _finish(name: str, outcome: "Outcome", as_json: bool, hint: str) -> None:
    """Tell how it ended, and exit so."""
    from infra_agent.proposal.review import render
    from infra_agent.proposal.store import find_proposal

    if as_json:
        document({"session": name, "exit_code": outcome.exit_code, "reason": outcome.reason, "proposal": outcome.proposal})
    elif outcome.proposal:
        answer(render(find_proposal(outcome.proposal)))
        if outcome.exit_code == 0:
            answer(f"\nApprove:  infra-agent approve {outcome.proposal} --reviewer NAME --reason TEXT")
    if outcome.exit_code:
        progress(f"infra-agent: {outcome.reason}{hint}")
    raise typer.Exit(outcome.exit_code)
