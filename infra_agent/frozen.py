"""The base of every schema here: immutable, and an unknown key is an error."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Frozen data with no extra keys; attribute docstrings become descriptions in its JSON schema."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
