"""Actions that wait for a person: a session that parked on one goes on when it was decided."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infra_agent.errors import UsageError
from infra_agent.proposal.store import Session, session_folder, session_folders
from infra_agent.session import events
from infra_agent.session.log import BrokenLogError, SessionLog, read


@dataclass(frozen=True)
class Parked:
    """An action that a rule wants a person to decide on."""

    session: Session
    proposed: events.ActionProposed
    asked: events.ApprovalRequested

    @property
    def name(self) -> str:
        """As it can be named from anywhere."""
        return f"{self.session.header.session}/{self.proposed.action}"


def of_session(session: Session) -> list[Parked]:
    """The actions of one session that nobody has decided on."""
    past = [entry.event for entry in session.entries]
    proposed = {event.action: event for event in past if isinstance(event, events.ActionProposed)}
    given = {event.action for event in past if isinstance(event, events.ApprovalGiven)}
    asked = [event for event in past if isinstance(event, events.ApprovalRequested) and event.action not in given]
    return [Parked(session, proposed[event.action], event) for event in asked]


def every() -> list[Parked]:
    """Those of every session that can be read, oldest first."""
    found = []
    for folder in session_folders():
        try:
            found += of_session(_opened(folder))
        except BrokenLogError:
            continue  # `sessions` and `replay` say what is broken; here it only means that nothing waits that could be shown
    return found


def _opened(folder: Path) -> Session:
    return Session(folder, read(folder))


def names_action(name: str) -> bool:
    """True for ``a-7`` and ``SESSION/a-7``; a proposal's name is another."""
    return name.rpartition("/")[2].startswith("a-")


def find(name: str) -> Parked:
    """A waiting action by ``SESSION/a-7``, or ``a-7`` where only one session waits with that. Raises UsageError listing those that wait."""
    session, _, action = name.rpartition("/")
    listed = of_session(_opened(session_folder(session))) if session else every()
    found = [parked for parked in listed if parked.proposed.action == action]
    if len(found) != 1:
        waiting = ", ".join(parked.name for parked in listed[-5:]) or "nothing"
        raise UsageError(f"action '{name}' {'is ambiguous' if found else 'waits for nobody'}; waiting: {waiting}")
    return found[0]


def decide(name: str, decision: Literal["approve", "reject"], reviewer: str, reason: str, minutes: float = 0.0) -> Parked:
    """Record what a person decided on a waiting action; ``resume`` then carries it out, or tells the model why not."""
    parked = find(name)
    with SessionLog(parked.session.folder) as log:
        if parked.proposed.action not in {p.proposed.action for p in of_session(Session(parked.session.folder, log.entries))}:
            raise UsageError(f"{parked.name} was decided in the meantime")
        action = parked.proposed.action
        log.append(events.ApprovalGiven(action=action, decision=decision, reviewer=reviewer, reason=reason, minutes=minutes))
    return parked
