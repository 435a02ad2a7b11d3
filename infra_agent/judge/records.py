"""Small judge-written records that more than one module reads."""

from infra_agent.frozen import Frozen


class DeterminismRecord(Frozen):
    """Digests of the same call on the same bytes, in fresh processes; a call that failed says so instead."""

    case: str
    tree: str
    """Digest of the files that ran."""
    digests: tuple[str, ...]


class RanRecord(Frozen):
    """What the host put into the workspace against what the candidate's process says it imported."""

    expected: dict[str, str]
    loaded: dict[str, str]
    entry: str
    """File of the entry's module."""
