"""Small judge-written records that more than one module reads."""

from pydantic import BaseModel, ConfigDict


class DeterminismRecord(BaseModel):
    """Digests of the same call on the same bytes, in fresh processes; a call that failed says so instead."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case: str
    digests: tuple[str, ...]


class RanRecord(BaseModel):
    """What the host put into the workspace against what the candidate's process says it imported."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    expected: dict[str, str]
    loaded: dict[str, str]
    entry: str
    """File of the entry's module."""
