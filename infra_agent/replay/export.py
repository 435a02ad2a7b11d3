"""A session in the formats of other programs. Pure: a session in, bytes out."""

from collections.abc import Callable

from infra_agent.errors import UsageError
from infra_agent.proposal.store import Session
from infra_agent.replay.formats import atif, chrome, markdown

FORMATS: dict[str, Callable[[Session], bytes]] = {"atif": atif.encode, "chrome": chrome.encode, "markdown": markdown.encode}


def export(session: Session, to: str) -> bytes:
    """The session as a file of that format. Raises UsageError for a format that there is not, BrokenLogError for a missing blob."""
    if to not in FORMATS:
        raise UsageError(f"--to {to}: there are: {', '.join(FORMATS)}")
    return FORMATS[to](session)
