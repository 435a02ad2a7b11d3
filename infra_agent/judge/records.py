"""Small judge-written records that more than one module reads."""

from pydantic import Field

from infra_agent.frozen import Frozen
from infra_agent.judge.tensors import CompareRecord


class Difference(Frozen):
    """Where outputs of the same call differ in one stage."""

    stage: str
    index: tuple[int, ...]
    """The first element that differs."""
    elements: int
    of: int


class DeterminismRecord(Frozen):
    """Digests of the same call on the same bytes, in fresh processes; a call that failed says so instead."""

    case: str
    tree: str
    """Digest of the files that ran."""
    digests: tuple[str, ...]
    differences: tuple[Difference, ...] = ()
    """Between the first call and the next that differs from it."""


class RanRecord(Frozen):
    """What the host put into the workspace against what the candidate's process says it imported."""

    expected: dict[str, str]
    loaded: dict[str, str]
    entry: str
    """File of the entry's module."""
    built: dict[str, str] = Field(default_factory=dict)
    """What the build step left, beside the sources."""


class RepeatRecord(Frozen):
    """Several calls in one process, each on fresh contents, each compared with its own truth."""

    case: str
    tree: str
    calls: tuple[CompareRecord, ...]
    replayed: tuple[int, ...]
    """Calls whose output is the answer to an earlier call's contents."""
    ended: str = ""
    """How it ended when it did not answer every call."""
    ending: str = ""
