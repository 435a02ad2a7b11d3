"""The base of every schema here: immutable, finite, and an unknown key is an error."""

from pydantic import BaseModel, ConfigDict, ValidationError


class Frozen(BaseModel):
    """Frozen data with no extra keys and no NaN; attribute docstrings become descriptions in its JSON schema."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


def one_line(error: Exception) -> str:
    """What is wrong, on one line: of a schema's faults the first, with its key."""
    if not isinstance(error, ValidationError):
        return " ".join(str(error).split()) or type(error).__name__
    first = error.errors()[0]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{'.'.join(map(str, first['loc'])) or 'document'}: {first['msg']}{more}"
