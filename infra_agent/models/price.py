"""What a reply cost. An unknown price is unknown: neither nothing nor an error."""

from dataclasses import dataclass

from infra_agent.errors import UsageError
from infra_agent.session.events import Usage


@dataclass(frozen=True)
class Price:
    """US dollars for a million tokens: read, written, and read from the provider's cache."""

    input: float
    output: float
    cached: float

    @classmethod
    def parse(cls, text: str) -> "Price":
        """``in,out,cached`` or ``in,out``. Raises UsageError for anything else."""
        try:
            numbers = [float(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if len(numbers) not in (2, 3) or not all(0 <= number < 1e6 for number in numbers):
            raise UsageError(f"--price {text}: expected IN,OUT or IN,OUT,CACHED in US dollars for a million tokens")
        return cls(numbers[0], numbers[1], numbers[-1] if len(numbers) == 3 else numbers[0])

    def of(self, usage: Usage) -> Usage:
        """``usage`` with its cost; as it is where the provider says the cost, or not how many tokens there were."""
        if usage.cost_usd is not None or usage.input_tokens is None or usage.output_tokens is None:
            return usage
        cached = min(usage.cached_tokens or 0, usage.input_tokens)
        cost = (usage.input_tokens - cached) * self.input + cached * self.cached + usage.output_tokens * self.output
        return usage.model_copy(update={"cost_usd": cost / 1e6})
