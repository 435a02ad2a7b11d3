"""Any server that speaks OpenAI's chat completions, through the SDK with its own retries off."""

import os
import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from infra_agent.errors import ModelError
from infra_agent.models.base import Reply, ToolSchema
from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall, Usage

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion

_ATTEMPTS = 5
_RETRYABLE = frozenset({408, 409, 429, 500, 502, 503, 504})
_LONGEST_WAIT_S = 60.0
_TIMEOUT_S = 600.0


class OpenAI:
    """``model`` as the server names it. A local server needs ``base_url`` and no key."""

    def __init__(self, model: str, base_url: str | None = None, first_wait_s: float = 1.0) -> None:
        import openai

        self.name = model
        self._first_wait_s = first_wait_s
        key = os.environ.get("OPENAI_API_KEY")
        if not key and base_url is None:
            raise ModelError("OPENAI_API_KEY is not set; export it, or name a local server with --base-url")
        self._client = openai.OpenAI(api_key=key or "none", base_url=base_url, max_retries=0, timeout=_TIMEOUT_S)

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
        """One completion; transient faults are tried again, with the waiting recorded apart."""
        import openai

        body: dict[str, Any] = {"model": self.name, "messages": [_message(m) for m in messages]}
        if tools:
            body["tools"] = [{"type": "function", "function": tool.as_dict()} for tool in tools]
        waited = 0.0
        for attempt in range(_ATTEMPTS):
            try:
                return _reply(self._client.chat.completions.create(**body), waited)
            except openai.APIStatusError as error:
                if error.status_code not in _RETRYABLE or attempt == _ATTEMPTS - 1:
                    raise ModelError(f"{self.name}: the server answered {error.status_code}: {error.message[:300]}") from error
                pause = self._pause(attempt, error.response.headers.get("retry-after"))
            except openai.APIConnectionError as error:
                if attempt == _ATTEMPTS - 1:
                    raise ModelError(f"{self.name}: cannot reach {self._client.base_url}: {error}") from error
                pause = self._pause(attempt, None)
            except (openai.OpenAIError, ValueError) as error:
                raise ModelError(f"{self.name}: unusable answer: {error}") from error
            time.sleep(pause)
            waited += pause
        raise ModelError(f"{self.name}: no answer in {_ATTEMPTS} attempts")

    def _pause(self, attempt: int, retry_after: str | None) -> float:
        """Seconds to wait: what the server asks for, else doubling with jitter; capped."""
        if retry_after and retry_after.replace(".", "", 1).isdigit():
            return min(float(retry_after), _LONGEST_WAIT_S)
        return min(self._first_wait_s * float(2**attempt) * random.uniform(0.5, 1.0), _LONGEST_WAIT_S)


def _message(message: Message) -> dict[str, Any]:
    """A message in the wire's form."""
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call, "content": message.text}
    body: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.tool_calls:
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in message.tool_calls
        ]
    return body


def _reply(completion: "ChatCompletion", waited_s: float) -> Reply:
    """A completion as our reply. A 200 whose body is an error has no choices."""
    if not getattr(completion, "choices", None):
        raise ValueError(f"no choices in the reply: {completion.model_dump_json()[:300]}")
    choice = completion.choices[0]
    if choice.finish_reason is None:
        raise ValueError("the reply has no finish_reason: it was cut off")
    calls = tuple(
        ToolCall(id=call.id, name=call.function.name, arguments=call.function.arguments)
        for call in choice.message.tool_calls or ()
        if call.type == "function"
    )
    usage = Usage()
    if completion.usage:
        details = completion.usage.prompt_tokens_details
        usage = Usage(
            input_tokens=completion.usage.prompt_tokens,
            output_tokens=completion.usage.completion_tokens,
            cached_tokens=details.cached_tokens if details else None,
        )
    return Reply(choice.message.content or "", calls, usage, completion.model_dump_json().encode(), waited_s)
