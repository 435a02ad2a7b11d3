"""Where a session comes from that did not begin here: another session, or another program."""

from infra_agent.frozen import Frozen


class Imported(Frozen):
    """A run of another program: nothing of it was gated, carried out or judged here. It can be read, and nothing can be added to it."""

    program: str
    version: str
    """As the program states it; empty where it does not."""
    format: str
    document: str
    """Digest of the blob with the whole trajectory as JSON: what no event has a field for stands there."""


class Origin(Frozen):
    """Where a forked session begins: the parent's event ``at`` is the last that it shares."""

    session: str
    at: int
    head: str
    """Hash of that event in the parent's log."""
