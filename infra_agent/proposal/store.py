"""Sessions and proposals on disk. A proposal is a projection of its session's log; nothing is stored twice."""

import atexit
import shutil
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from infra_agent.errors import UsageError
from infra_agent.gates.policy import Policy, pinned
from infra_agent.gates.risk import TIERS, Risk, assess
from infra_agent.session import events
from infra_agent.session.bundle import SUFFIX, unpack
from infra_agent.session.log import Blobs, BrokenLogError, Entry, read
from infra_agent.share import home
from infra_agent.task.patch import changes

_ID_DIGITS = 12
T = TypeVar("T")


def person(name: str) -> str:
    """A reviewer's name as it is compared."""
    return " ".join(name.casefold().split())


def proposal_id(entry: Entry) -> str:
    """The id of a ``proposal.made`` event."""
    return f"p-{entry.hash[:_ID_DIGITS]}"


@dataclass(frozen=True)
class Session:
    """A session's folder and its checked entries."""

    folder: Path
    entries: list[Entry]

    @property
    def header(self) -> events.SessionStarted:
        """The first event."""
        first = self.entries[0].event if self.entries else None
        if not isinstance(first, events.SessionStarted):
            raise BrokenLogError(f"{self.folder}: the log does not begin with session.started")
        return first

    @property
    def blobs(self) -> Blobs:
        """The bytes the log refers to."""
        return Blobs(self.folder / "blobs")


@dataclass(frozen=True)
class Proposal:
    """A proposal with its verdict, and every decision on it."""

    id: str
    session: Session
    entry: Entry
    made: events.ProposalMade
    verdict: events.VerdictGiven | None
    reviews: tuple[events.ReviewDecided, ...]
    merged: events.Merged | None

    @cached_property
    def policy(self) -> Policy:
        """The policy that the session pinned."""
        return pinned(self.session.blobs.get(self.session.header.policy))

    @cached_property
    def risk(self) -> Risk:
        """The risk of the change by the pinned detectors; the model's own estimate can only raise it."""
        stated = self.made.risk if self.made.risk in TIERS else None
        return assess(changes(self.session.blobs.get(self.made.patch)), self.policy.detector, stated)

    @property
    def approvals(self) -> tuple[events.ReviewDecided, ...]:
        """One of each person since the last rejection: the last word of each. Names that differ by case or blanks are one person's."""
        found: dict[str, events.ReviewDecided] = {}
        for review in self.reviews:
            found = {**found, person(review.reviewer): review} if review.decision == "approve" else {}
        return tuple(found.values())

    @property
    def overrides(self) -> tuple[str, ...]:
        """Checks that those who approve answer for, each once."""
        return tuple(dict.fromkeys(name for review in self.approvals for name in review.overrides))

    @property
    def state(self) -> str:
        """merged | approved | approved by N of M | rejected | passed | failed | inconclusive | unjudged."""
        if self.merged:
            return "merged"
        if self.reviews and self.reviews[-1].decision == "reject":
            return "rejected"
        if self.approvals:
            wanted = self.policy.approval_of(self.risk.tier).approvers
            return "approved" if len(self.approvals) >= wanted else f"approved by {len(self.approvals)} of {wanted}"
        return (
            {"pass": "passed", "fail": "failed", "inconclusive": "inconclusive"}[self.verdict.verdict.decision]
            if self.verdict
            else "unjudged"
        )


def session_folders() -> list[Path]:
    """Folders of all sessions, oldest first."""
    folder = home() / "sessions"
    return sorted(p for p in folder.iterdir() if (p / "session.jsonl").is_file()) if folder.is_dir() else []


def open_session(name: str) -> Session:
    """A session by id, by unique beginning of its id, by folder, or in a bundle. Raises UsageError listing the latest."""
    folder = readable_folder(name)
    return Session(folder, read(folder))


def readable_folder(name: str) -> Path:
    """Like ``session_folder``; a bundle's session lies in a folder that is gone when the program ends."""
    if not (name.endswith(SUFFIX) and Path(name).is_file()):
        return session_folder(name)
    above = Path(tempfile.mkdtemp(prefix="infra-agent-bundle-"))
    atexit.register(shutil.rmtree, above, ignore_errors=True)
    (above / "unpacked").mkdir()
    manifest = unpack(Path(name), above / "unpacked")
    return (above / "unpacked").rename(above / manifest.session)


def session_folder(name: str) -> Path:
    """The folder of a session that is named so, whether it can be read or not. Raises UsageError listing the latest."""
    direct = Path(name)
    if name.endswith(SUFFIX) and direct.is_file():
        raise UsageError(f"{name} is a bundle: it can be read and forked, nothing can be added to it")
    if (direct / "session.jsonl").is_file():
        return direct.resolve()
    found = [folder for folder in session_folders() if folder.name.startswith(name)]
    if len(found) != 1:
        latest = ", ".join(folder.name for folder in session_folders()[-5:]) or "none"
        what = "is ambiguous" if found else "is unknown"
        raise UsageError(f"session '{name}' {what}; the latest in {home()}: {latest}")
    return found[0]


def writable(header: events.SessionStarted) -> None:
    """Raises UsageError for a session that another program ran: nothing can be added to it."""
    if header.imported:
        where = f"session {header.session} was imported from {header.imported.program}"
        raise UsageError(f"{where}: it can be read, not resumed or forked, and nothing of it approved or merged")


def proposals_of(session: Session) -> list[Proposal]:
    """Every proposal of a session, in order."""
    listed = []
    for entry in session.entries:
        if isinstance(entry.event, events.ProposalMade):
            identity = proposal_id(entry)
            later = [e.event for e in session.entries[entry.seq + 1 :]]
            verdicts = [e for e in later if isinstance(e, events.VerdictGiven) and e.proposal == identity]
            reviews = [e for e in later if isinstance(e, events.ReviewDecided) and e.proposal == identity]
            merges = [e for e in later if isinstance(e, events.Merged) and e.proposal == identity]
            listed.append(
                Proposal(identity, session, entry, entry.event, _last(verdicts), tuple(reviews), _last(merges)),
            )
    return listed


def _last(items: list[T]) -> T | None:
    return items[-1] if items else None


def all_proposals() -> tuple[list[Proposal], dict[str, str]]:
    """Proposals of every session that can be read, and name -> why of the sessions that cannot (broken, or being written)."""
    listed: list[Proposal] = []
    unreadable = {}
    for folder in session_folders():
        try:
            listed += proposals_of(Session(folder, read(folder)))
        except BrokenLogError as error:
            unreadable[folder.name] = str(error)
    return listed, unreadable


def find_proposal(name: str, whole: bool = False) -> Proposal:
    """A proposal by id or, unless ``whole`` is asked for, by a unique beginning. Raises UsageError listing the latest."""
    listed, unreadable = all_proposals()
    found = [p for p in listed if p.id == name or (not whole and p.id.startswith(name))]
    if len(found) != 1:
        _imported_by_that_name(name)
        latest = ", ".join(p.id for p in listed[-5:]) or "none"
        broken = f"; sessions that cannot be read: {'; '.join(unreadable.values())}" if unreadable else ""
        raise UsageError(f"proposal '{name}' {'is ambiguous' if found else 'is unknown'}; the latest in {home()}: {latest}{broken}")
    writable(found[0].session.header)
    return found[0]


def _imported_by_that_name(name: str) -> None:
    """Raises UsageError when a session is meant, and it is one that has no proposals."""
    try:
        header = open_session(name).header
    except UsageError:
        return  # the caller says what is wrong with the name
    writable(header)
