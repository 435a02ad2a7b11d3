"""Any server that speaks OpenAI's chat completions, through the SDK with its own retries off."""

import importlib.util
import json
import os
from collections.abc import Sequence
from typing import Any

from infra_agent.errors import ModelError
from infra_agent.models import faults, wire
from infra_agent.models.base import Reply, ToolSchema
from infra_agent.models.retry import Retry
from infra_agent.session.context import Message

_TIMEOUT_S = 600.0


class OpenAI:
    """``model`` as the server names it. A local server needs ``base_url`` and no key. ``timeout_s``: without a byte of an answer."""

    def __init__(self, model: str, base_url: str | None = None, retry: Retry | None = None, timeout_s: float = _TIMEOUT_S) -> None:
        import openai

        self.name = model
        self._retry = retry or Retry()
        key = os.environ.get("OPENAI_API_KEY")
        if not key and base_url is None:
            raise ModelError("OPENAI_API_KEY is not set; export it, or name a local server with --base-url")
        self._client = openai.OpenAI(api_key=key or "none", base_url=base_url, max_retries=0, timeout=timeout_s)

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
        """One completion; transient faults are tried again, with the waiting recorded apart."""
        body = wire.request(self.name, messages, tools)
        return self._retry.of(lambda: self._once(body))

    def _once(self, body: dict[str, Any]) -> Reply:
        try:
            with self._client.chat.completions.with_streaming_response.create(**body) as response:
                if not response.headers.get("content-type", "").startswith("text/event-stream"):
                    return wire.reply(self.name, _whole(self.name, response.read()))
                assembly = wire.Assembly()
                for chunk in response.parse():
                    assembly.add(chunk.model_dump())
                return wire.reply(self.name, assembly.body())
        except _raised() as error:
            raise fault(self.name, error, str(self._client.base_url)) from error


def _raised() -> tuple[type[Exception], ...]:
    """The SDK's errors, and what its client raises while a body is read, which it lets through; that package has had two names."""
    import openai

    clients = [importlib.import_module(name) for name in ("httpx", "httpx2") if importlib.util.find_spec(name)]
    return (openai.OpenAIError, ValueError, *(client.HTTPError for client in clients))


def fault(name: str, error: Exception, server: str) -> Exception:
    """What an error of the SDK is to us. LiteLLM's are of the same classes, some with a status and without an answer."""
    import openai

    said = faults.words(error.body) if isinstance(error, openai.APIError) and error.body else str(error)
    if isinstance(error, openai.APITimeoutError):
        return faults.TransientError(f"{name}: no answer from {server} in time")
    if isinstance(error, openai.APIConnectionError):
        return faults.TransientError(f"{name}: cannot reach {server}: {error.__cause__ or error}")
    status, response = getattr(error, "status_code", None), getattr(error, "response", None)
    if isinstance(status, int):
        return faults.of_status(name, status, said, response.headers.get("retry-after") if response is not None else None)
    if isinstance(error, openai.APIError):  # in the middle of a stream
        return faults.of_body(name, error.body or said)
    return faults.TransientError(f"{name}: unusable answer: {said[:300]}")


def _whole(name: str, data: bytes) -> dict[str, Any]:
    """A body that came in one piece, from a server that does not stream. Raises TransientError when it is no JSON object."""
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise faults.TransientError(f"{name}: the answer is no JSON object: {data[:80].decode(errors='replace')!r}")
    return body
