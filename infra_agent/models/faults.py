"""What goes wrong between us and a model: which of it is worth another try, and how providers say that a conversation is too long. Pure."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from infra_agent.errors import ContextError, ModelError

_RETRYABLE = frozenset({408, 409, 429})
_TOO_LONG = frozenset({400, 413, 422})
_SPENT = re.compile(
    r"insufficient.quota|exceeded your current quota|billing|insufficient (balance|credit|funds)|payment required", re.IGNORECASE
)
"""Says 429, and no waiting helps."""
_OVERFLOW = re.compile(
    r"context[ _-]?(length|window|size|limit)|maximum context|prompt is too long"
    r"|(prompt|input|request|messages?)[^.]{0,40}(too long|too large|exceed)"
    r"|exceeds?[^.]{0,40}(max(imum)? (length|tokens|input)|token limit|available context|context)"
    r"|reduce the length of (the|your) (messages|prompt)|input length|too many (input )?tokens|token count[^.]{0,60}exceed",
    re.IGNORECASE,
)
_FILTERED = re.compile(r"content[ _-]?(filter|policy|management)|safety (system|policy)|contentFilter|sensitive content", re.IGNORECASE)
_PER_MINUTE = re.compile(r"rate.?limit|tokens per (minute|min|day)|\bTPM\b|\bRPM\b|quota", re.IGNORECASE)
"""A limit on tokens over time is worded like one on a context, and is over in a minute."""


class TransientError(Exception):
    """Worth another try. ``retry_after_s``: what the server asks us to wait, if it does."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def of_status(name: str, status: int, message: str, retry_after: str | None = None) -> Exception:
    """The error that an answer with an error status is. ``message``: the server's words; ``retry_after``: its header."""
    said = f"{name}: the server answered {status}: {message[:300]}"
    if status in _TOO_LONG and overflows(message):
        return ContextError(said)
    if (status in _RETRYABLE or status >= 500) and not _SPENT.search(message):
        return TransientError(said, seconds(retry_after, datetime.now(UTC)))
    return ModelError(said)


def of_body(name: str, error: object) -> Exception:
    """The error that stands in the body of an answer whose status said that all was well, or in the middle of a stream."""
    code = error.get("code") if isinstance(error, Mapping) else None
    message = words(error)
    if isinstance(code, int) and 400 <= code < 600:
        return of_status(name, code, message)
    said = f"{name}: the server answered with an error: {message[:300]}"
    if overflows(message):
        return ContextError(said)
    return ModelError(said) if _FILTERED.search(message) or _SPENT.search(message) else TransientError(said)


def words(error: object) -> str:
    """What an error object says; servers nest it, or not."""
    if isinstance(error, Mapping):
        said = error.get("message") or error.get("msg") or error.get("detail") or error.get("error")
        code = error.get("code") or error.get("type") or ""
        return f"{words(said)}{f' ({code})' if code else ''}" if said else json.dumps(dict(error), default=str)[:300]
    return str(error)


def overflows(message: str) -> bool:
    """Do these words say that the conversation is too long? Every provider has its own."""
    return bool(_OVERFLOW.search(message)) and not _PER_MINUTE.search(message)


def finished(name: str, reason: str | None) -> None:
    """Raise what a finish reason says: none is a cut, ``content_filter`` a refusal. ``length`` may end in half a call: that shows later."""
    if reason is None:
        raise TransientError(f"{name}: the answer has no finish reason: it was cut off")
    if reason == "content_filter":
        raise ModelError(f"{name}: the provider's content filter withheld the answer")
    if reason == "error":
        raise TransientError(f"{name}: the answer ended with an error")


def seconds(retry_after: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for, as a number or as a date; None where it says nothing usable."""
    if not retry_after:
        return None
    if re.fullmatch(r"\d+(\.\d+)?", retry_after.strip()):
        return float(retry_after)
    try:
        then = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    return max(0.0, ((then if then.tzinfo else then.replace(tzinfo=UTC)) - now).total_seconds())
