"""One way to turn data into bytes, so that equal data has equal digests."""

import hashlib
import json
from typing import Any

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
"""Made once: ``json.dumps`` would make one for every value."""


def encode(value: Any) -> bytes:
    """Canonical JSON: sorted keys, no white space, UTF-8. Raises ValueError for NaN and infinities."""
    return _ENCODER.encode(value).encode()


def digest(data: bytes) -> str:
    """Hex SHA-256."""
    return hashlib.sha256(data).hexdigest()


def digest_of(value: Any) -> str:
    """Hex SHA-256 of the canonical JSON of ``value``."""
    return digest(encode(value))
