"""Errors a user sees: one line that says what, where and what to do, and the exit code that DESIGN documents."""


class InfraAgentError(Exception):
    """Base of every error this program raises on purpose. ``exit_code`` is the process's exit status."""

    exit_code = 1


class JudgedError(InfraAgentError):
    """Something was judged and failed."""

    exit_code = 1


class UsageError(InfraAgentError):
    """Bad input or bad use."""

    exit_code = 2


class BudgetError(InfraAgentError):
    """A budget of the session is used up."""

    exit_code = 4


class ParkError(InfraAgentError):
    """Somebody asked the session to stop where it is; it can be gone on with."""

    exit_code = 5


class SandboxError(InfraAgentError):
    """No cage could be had, or it broke in a way that is not the candidate's doing."""

    exit_code = 6


class ArtefactError(InfraAgentError):
    """A file that a request left cannot be taken: not there, not a plain file, or too large."""

    exit_code = 1


class ModelError(InfraAgentError):
    """The model could not be reached, or what it said cannot be used. ``waited_s``: seconds between attempts before that was clear."""

    exit_code = 7

    def __init__(self, message: str, waited_s: float = 0.0) -> None:
        super().__init__(message)
        self.waited_s = waited_s


class ContextError(ModelError):
    """The conversation is longer than the model takes: trying again changes nothing, a shorter one would."""
