"""Each request is a file, each reply is a file: a person or any program can be the model.

``request-0001.json`` holds ``{"messages", "tools"}``; the model writes ``reply-0001.json`` with
``{"text": str, "tool_calls": [{"name": str, "arguments": object}]}``. Write it under another name and rename it, so that
a half-written reply is never read.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from infra_agent.errors import ModelError
from infra_agent.frozen import one_line
from infra_agent.models.base import Reply, ToolSchema
from infra_agent.session.context import Message
from infra_agent.session.events import ToolCall

_POLL_S = 0.05


class _Call(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    arguments: dict[str, object] = {}
    id: str | None = None


class _ReplyFile(BaseModel):
    model_config = ConfigDict(extra="forbid")
    text: str = ""
    tool_calls: list[_Call] = []


class Manual:
    """Talks through a folder. ``timeout_s``: how long one reply may take. ``goes_on``: numbers follow on those of an earlier run."""

    def __init__(self, folder: Path, timeout_s: float = 3600.0, goes_on: bool = False, wait: Callable[[float], None] = time.sleep) -> None:
        self.name = "manual"
        self._folder = folder
        self._timeout_s = timeout_s
        self._wait = wait
        folder.mkdir(parents=True, exist_ok=True)
        self._number = sum(1 for _ in folder.glob("request-*.json"))
        if self._number and not goes_on:
            raise ModelError(f"{folder} holds requests of an earlier run; name an empty folder")

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Reply:
        """Write the request, wait for the reply."""
        self._number += 1
        body = {
            "messages": [{**asdict(m), "tool_calls": [call.model_dump() for call in m.tool_calls]} for m in messages],
            "tools": [tool.as_dict() for tool in tools],
        }
        request = self._folder / f"request-{self._number:04}.json"
        scratch = request.with_suffix(".part")
        scratch.write_text(json.dumps(body, indent=1, ensure_ascii=False))
        scratch.rename(request)
        return self._read(self._folder / f"reply-{self._number:04}.json")

    def _read(self, path: Path) -> Reply:
        began = time.monotonic()
        while not path.exists():
            if time.monotonic() - began > self._timeout_s:
                raise ModelError(f"no {path.name} in {self._timeout_s:.0f} s; write it into {path.parent}")
            self._wait(_POLL_S)
        raw = path.read_bytes()
        try:
            said = _ReplyFile.model_validate_json(raw)
        except ValidationError as error:
            raise ModelError(f"{path}: {one_line(error)}; expected {{text, tool_calls: [{{name, arguments}}]}}") from error
        calls = tuple(
            ToolCall(id=call.id or f"call-{self._number}-{n}", name=call.name, arguments=json.dumps(call.arguments))
            for n, call in enumerate(said.tool_calls)
        )
        return Reply(said.text, calls, raw=raw, waited_s=time.monotonic() - began)
