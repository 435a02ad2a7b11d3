"""Secrets leave a text before anything is digested or stored."""

import os
import re
from typing import Any

_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?<![A-Za-z0-9])sk-(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{20,}",
        r"(?<![A-Za-z0-9])gh[pousr]_[A-Za-z0-9]{30,}",
        r"github_pat_[A-Za-z0-9_]{30,}",
        r"hf_[A-Za-z0-9]{30,}",
        r"(?<![A-Za-z0-9])AKIA[0-9A-Z]{16}",
        r"xox[abprs]-[A-Za-z0-9-]{10,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----BEGIN )[\s\S])*?-----END [A-Z ]*PRIVATE KEY-----",
    )
)
_NAMED = re.compile(r"(?i)key|token|secret|passw|credential")
_IN_URL = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
_SHORTEST = 12
MASK = "[redacted]"


def _environment_values() -> list[str]:
    """Values of environment variables whose name says that they are secret."""
    named = [os.environ[name] for name in os.environ if _NAMED.search(name)]
    return [value for value in named if len(value) >= _SHORTEST]


def redact_text(text: str) -> str:
    """``text`` with known forms of keys, and the secrets of this process's environment, masked."""
    return _redact_text(text, _environment_values())


def _redact_text(text: str, values: list[str]) -> str:
    for value in values:
        text = text.replace(value, MASK)
    for pattern in (*_PATTERNS, _IN_URL):
        text = pattern.sub(MASK, text)
    return text


def redact(value: Any) -> Any:
    """The same through lists and dictionaries; keys stay as they are."""
    return _redact(value, _environment_values())


def _redact(value: Any, values: list[str]) -> Any:
    if isinstance(value, str):
        return _redact_text(value, values)
    if isinstance(value, dict):
        return {key: _redact(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact(item, values) for item in value]
    return value


def secrets_in(data: bytes) -> list[str]:
    """Names of the patterns found in bytes, for the gate; never the secrets themselves."""
    text = data.decode(errors="replace")
    return [pattern.pattern[:16] for pattern in _PATTERNS if pattern.search(text)]
