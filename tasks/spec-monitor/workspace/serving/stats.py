"""Acceptance figures of one attempt."""

from dataclasses import dataclass

from serving.events import VerifyStep


@dataclass
class AttemptStats:
    """Sums over the verify steps of an attempt."""

    verify_steps: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    output_tokens: int = 0

    def update(self, step: VerifyStep) -> None:
        """Add one step."""
        self.verify_steps += 1
        self.draft_tokens += step.draft_tokens
        self.accepted_tokens += step.accepted_tokens
        self.output_tokens = step.output_tokens

    @property
    def accept_length(self) -> float:
        """Output tokens per verify step: what was accepted and the token that the target adds."""
        return 1.0 + self.accepted_tokens / self.verify_steps if self.verify_steps else 0.0

    @property
    def accept_rate(self) -> float:
        """Accepted tokens per draft token."""
        return self.accepted_tokens / self.draft_tokens if self.draft_tokens else 0.0
