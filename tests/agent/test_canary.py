"""A secret in the environment, in a file of the workspace and in what the model says: no file that is written holds it."""

from pathlib import Path

import pytest

from infra_agent.agent import session
from infra_agent.models.base import Reply
from infra_agent.models.manual import Manual
from infra_agent.models.scripted import Scripted
from infra_agent.proposal.store import open_session
from infra_agent.replay.verify import verify
from infra_agent.session.budget import Limits
from infra_agent.session.events import ToolCall
from tests.support import call, mark_audited, rows_task

CANARY = "c4n4ry-9f2e7d55ab10"
KEY = "sk-proj-" + "a1B2" * 8


@pytest.mark.parametrize("secret", [CANARY, KEY], ids=["by its value", "by its form"])
def test_no_file_holds_it(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", CANARY)
    task = rows_task(tmp_path)
    mark_audited(task, home)
    calls = [
        call("hypothesis", do="state", claim=f"the key is {secret}", prediction=secret, check="accuracy"),
        call("edit", path="rows/key.py", old="", new=f"KEY = '{secret}'\n"),
        call("shell", command=f"echo {secret}; echo {secret} > key; env"),
        call("search", pattern=secret),
        call("propose", title="Add a key", summary=f"it is {secret}"),
        (f"tool-{secret}", f'{{"key": "{secret}"'),
    ]
    said = [
        Reply(secret, (ToolCall(id=f"c{n}", name=name, arguments=text),), raw=secret.encode(), reasoning=secret)
        for n, (name, text) in enumerate(calls)
    ]
    name, outcome = session.run(task, Scripted(said), "model:scripted", session.Options(False, Limits(steps=6), home), lambda event: None)
    assert outcome.exit_code == 4, outcome.reason
    written = [path for path in home.rglob("*") if path.is_file()]
    assert len(written) > 20
    assert [str(path) for path in written if secret.encode() in path.read_bytes()] == []
    assert verify(open_session(name)).agrees


def test_not_even_a_request_that_is_a_file(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", CANARY)
    task = rows_task(tmp_path)
    mark_audited(task, home)
    talk = tmp_path / "talk"
    talk.mkdir()
    (talk / "reply-0001.json").write_text(
        f'{{"text": "{CANARY}", "tool_calls": [{{"name": "shell", "arguments": {{"command": "echo {CANARY}"}}}}]}}'
    )
    options = session.Options(False, Limits(steps=2), home)
    session.run(task, Manual(talk, timeout_s=0.1), "unknown", options, lambda event: None)
    asked = (talk / "request-0002.json").read_text()
    assert "[redacted]" in asked and CANARY not in asked
