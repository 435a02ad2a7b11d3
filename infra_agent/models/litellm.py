"""Any provider that LiteLLM knows, with its retries, its calls of its own and its printing off.

Answers are asked for in one piece: LiteLLM gives a stream that was cut a finish reason of its own making.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from infra_agent.errors import ModelError
from infra_agent.models import wire
from infra_agent.models.base import Reply, ToolSchema
from infra_agent.models.openai import fault
from infra_agent.models.price import Price
from infra_agent.models.retry import Retry
from infra_agent.session.context import Message

_TIMEOUT_S = 600.0


class LiteLLM:
    """``model`` with its provider, as in ``anthropic/NAME``; keys come from the variables that LiteLLM names for it."""

    def __init__(self, model: str, base_url: str | None = None, retry: Retry | None = None, timeout_s: float = _TIMEOUT_S) -> None:
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it fetches a table of prices while it is imported
        try:
            import litellm
        except ImportError as error:
            raise ModelError("litellm is not installed: pip install 'infra-agent-framework[providers]'") from error
        litellm.suppress_debug_info, litellm.telemetry = True, False
        self.name = model
        self._litellm = litellm
        self._retry = retry or Retry()
        self._server = base_url or "the provider"
        self._where = {"api_base": base_url, "timeout": timeout_s, "max_retries": 0, "num_retries": 0}

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
        """One completion; transient faults are tried again, with the waiting recorded apart."""
        body = wire.request(self.name, messages, tools) | {"stream": False}
        del body["stream_options"]
        return self._retry.of(lambda: self._once(body))

    def _once(self, body: dict[str, Any]) -> Reply:
        import openai

        try:
            with contextlib.redirect_stdout(sys.stderr):
                answer = self._litellm.completion(**body, **self._where)
        except (openai.OpenAIError, ValueError) as error:
            raise fault(self.name, error, self._server) from error
        return wire.reply(self.name, answer.model_dump())

    def price(self) -> Price | None:
        """By LiteLLM's table; None for a model that is not in it."""
        try:
            known = self._litellm.get_model_info(self.name)
        except Exception:  # it raises bare ones; not in the table is the only thing that is asked
            return None
        per_token = [known.get(f"{kind}_cost_per_token") for kind in ("input", "output")]
        if any(cost is None for cost in per_token):
            return None
        cached = known.get("cache_read_input_token_cost")
        million = [1e6 * float(cost) for cost in per_token]
        return Price(million[0], million[1], million[0] if cached is None else 1e6 * float(cached))
