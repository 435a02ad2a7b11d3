"""The base of every schema here: immutable, finite, and an unknown key is an error."""

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails


class Frozen(BaseModel):
    """Frozen data with no extra keys and no NaN; attribute docstrings become descriptions in its JSON schema."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


def foremost(error: ValidationError) -> ErrorDetails:
    """The fault to name: a key that is unknown before one that is missing, since the one is often the other misspelt."""
    listed = error.errors()
    return next((fault for fault in listed if fault["type"] == "extra_forbidden"), listed[0])


def one_line(error: Exception) -> str:
    """What is wrong, on one line: of a schema's faults the first, with its key."""
    if not isinstance(error, ValidationError):
        return " ".join(str(error).split()) or type(error).__name__
    first = foremost(error)
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{'.'.join(map(str, first['loc'])) or 'document'}: {first['msg']}{more}"
