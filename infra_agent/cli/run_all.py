"""``infra-agent run all``: every task in turn, and a table of what became of them."""

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from infra_agent.cli.output import answer, document, progress, table
from infra_agent.errors import InfraAgentError, UsageError

if TYPE_CHECKING:
    from infra_agent.cli.run import Asked

_PARKED = 5


@dataclass(frozen=True)
class Row:
    """What became of a task."""

    task: str
    solved: bool
    steps: int
    seconds: float
    verdict: str
    """Of the last proposal; why there is none, where there is none."""
    session: str


def run_all(asked: "Asked", as_json: bool) -> int:
    """Run every task; the exit code: 0 when each is solved, 5 when a person stopped it, else 1. A task that cannot be run is a row, too."""
    from infra_agent.task.load import all_folders

    names = sorted({folder.name for folder in all_folders()})
    if not names:
        raise UsageError("there are no tasks; put a folder tasks/ID with a task.toml here, or name one in INFRA_AGENT_PATH")
    rows, stopped = list[Row](), False
    for number, name in enumerate(names, 1):
        progress(f"── {number} of {len(names)}: {name}")
        row, stopped = _row(name, asked)
        rows.append(row)
        if stopped:
            break
    solved = sum(row.solved for row in rows)
    if as_json:
        document({"solved": solved, "of": len(names), "tasks": [asdict(row) for row in rows]})
    else:
        cells = ((r.task, "yes" if r.solved else "no", str(r.steps), f"{r.seconds:.0f}", r.verdict[:90], r.session) for r in rows)
        answer(table(cells, ("task", "solved", "steps", "seconds", "verdict", "session")))
        answer(f"{solved} of {len(names)} solved")
    return _PARKED if stopped else 0 if solved == len(names) else 1


def _row(name: str, asked: "Asked") -> tuple[Row, bool]:
    from infra_agent.cli.run import run_one
    from infra_agent.proposal.store import find_proposal, open_session
    from infra_agent.session import events

    began = time.monotonic()
    try:
        session, outcome = run_one(name, asked)
    except InfraAgentError as error:
        progress(f"infra-agent: {error}")
        return Row(name, False, 0, round(time.monotonic() - began, 1), str(error), ""), False
    steps = sum(isinstance(entry.event, events.ModelRequested) for entry in open_session(session).entries)
    verdict = find_proposal(outcome.proposal).state if outcome.proposal else outcome.reason
    row = Row(name, outcome.exit_code == 0, steps, round(time.monotonic() - began, 1), verdict, session)
    return row, outcome.by_person
