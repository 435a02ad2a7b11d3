"""What a kernel is: its source and its constants, told alike by the process that interprets it and by the one that compiles it."""

import hashlib
import math
import re
import textwrap
from typing import Any

_DEF = re.compile(r"^def\s+\w+\s*\(", re.MULTILINE)


def source_digest(text: str) -> str:
    """SHA-256 of a function's source from its ``def`` on, however it is indented."""
    plain = textwrap.dedent(text)
    found = _DEF.search(plain)
    return hashlib.sha256(plain[found.start() if found else 0 :].strip().encode()).hexdigest()


def plain(value: Any) -> Any:
    """A constexpr as JSON can hold it: a function by its name, anything else that is no plain value as text."""
    value = getattr(value, "value", value)  # tl.constexpr
    if isinstance(value, (tuple, list)):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(getattr(value, "__name__", value))
