"""What the decode workers report."""

from enum import Enum
from typing import NamedTuple


class VerifyStep(NamedTuple):
    """One step of the target model on one request."""

    draft_tokens: int
    """Tokens that the draft model proposed; none in prefill and in steps that the scheduler ran without a draft."""
    accepted_tokens: int
    """Tokens that the worker counted as accepted."""
    output_tokens: int
    """Tokens of this attempt that went to the client so far, those of this step included."""


class Action(Enum):
    """What the monitor asks of the scheduler after a step."""

    CONTINUE = "continue"
    ABORT = "abort"
