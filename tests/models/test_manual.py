"""The model that is a folder."""

import json
import threading
from pathlib import Path

import pytest

from infra_agent.errors import ModelError
from infra_agent.models.base import ToolSchema
from infra_agent.models.manual import Manual
from infra_agent.session.context import Message

TOOLS = [ToolSchema("view", "Show a file", {})]


def test_request_and_reply_are_files(tmp_path: Path) -> None:
    (tmp_path / "reply-0001.json").write_text('{"text": "hm", "tool_calls": [{"name": "view", "arguments": {"path": "a"}}]}')
    reply = Manual(tmp_path).complete([Message("user", "go")], TOOLS)
    assert reply.text == "hm" and json.loads(reply.tool_calls[0].arguments) == {"path": "a"}
    asked = json.loads((tmp_path / "request-0001.json").read_text())
    assert asked["messages"][0]["text"] == "go" and asked["tools"][0]["name"] == "view"


def test_it_waits_for_the_reply_and_books_the_wait(tmp_path: Path) -> None:
    timer = threading.Timer(0.3, lambda: (tmp_path / "reply-0001.json").write_text('{"text": "late"}'))
    timer.start()
    reply = Manual(tmp_path).complete([Message("user", "go")], TOOLS)
    timer.join()
    assert reply.text == "late" and reply.waited_s > 0.2


@pytest.mark.parametrize("text", ["not json", '{"txt": "x"}', '{"tool_calls": [{"arguments": {}}]}'])
def test_a_bad_reply_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "reply-0001.json").write_text(text)
    with pytest.raises(ModelError, match=r"reply-0001\.json.*expected"):
        Manual(tmp_path).complete([Message("user", "go")], TOOLS)


def test_no_reply_in_time(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no reply-0001\.json in 0 s"):
        Manual(tmp_path, timeout_s=0.2).complete([], TOOLS)


def test_a_used_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "request-0001.json").write_text("{}")
    with pytest.raises(ModelError, match="empty folder"):
        Manual(tmp_path)
