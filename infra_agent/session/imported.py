"""Where a session comes from that another program ran."""

from infra_agent.frozen import Frozen


class Imported(Frozen):
    """A run of another program: nothing of it was gated, carried out or judged here. It can be read, and nothing can be added to it."""

    program: str
    version: str
    """As the program states it; empty where it does not."""
    format: str
    document: str
    """Digest of the blob with the whole trajectory as JSON: what no event has a field for stands there."""
