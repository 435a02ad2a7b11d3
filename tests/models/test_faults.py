"""Adapters that speak to a server, against a real one with planted faults: what comes of it, in how many requests, after which waits."""

import contextlib
import importlib.util
import io
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra_agent.errors import ContextError, ModelError
from infra_agent.models import choose, faults
from infra_agent.models.base import Model, Reply
from infra_agent.models.litellm import LiteLLM
from infra_agent.models.openai import OpenAI
from infra_agent.models.retry import Retry
from infra_agent.session.context import Message
from tests.loopback import serve
from tests.models.faults import FAULTS, OK, Fault

TALK = [Message("system", "be brief"), Message("user", "go")]
Make = Callable[[str, Retry], Model]
ADAPTERS: dict[str, Make] = {
    "openai": lambda url, retry: OpenAI("m", url, retry, timeout_s=2.0),
    "litellm": lambda url, retry: LiteLLM("openai/m", url, retry, timeout_s=2.0),
}
LITELLM_DIFFERS = {
    "no finish reason": "it makes one up",
    "200 with a status inside": "it drops the words",
    "200 with a context error": "it drops the words",
    "context: 413": "it takes it for a limit on the rate",
}
"""Where LiteLLM hides what the server said."""


def adapter(name: str) -> Make:
    if name == "litellm" and importlib.util.find_spec("litellm") is None:
        pytest.skip("litellm is not installed: `make setup` installs it; the adapter is NOT tested here")
    return ADAPTERS[name]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
@pytest.mark.parametrize("name", ADAPTERS)
def test_a_fault_comes_to_its_documented_end(name: str, fault: Fault) -> None:
    if name == "litellm" and (fault.streamed or fault.name in LITELLM_DIFFERS):
        return
    waits: list[float] = []
    printed = io.StringIO()
    with serve(list(fault.answers)) as (url, seen):
        model = adapter(name)(url, Retry(wait=waits.append))
        outcome: Reply | ModelError
        with contextlib.redirect_stdout(printed):
            try:
                outcome = model.complete(TALK, [])
            except ModelError as error:
                outcome = error
    assert printed.getvalue() == ""
    assert kind(outcome) == fault.want, outcome
    assert len(seen) == fault.requests, outcome
    assert outcome.waited_s == pytest.approx(sum(waits))
    assert len(waits) == fault.requests - 1
    for pause, (low, high) in zip(waits, fault.waits, strict=True):
        assert low <= pause <= high
    if isinstance(outcome, ModelError):
        assert_said(outcome, fault, name)
    else:
        assert outcome.text == "ok"


def kind(outcome: Reply | ModelError) -> str:
    return "context" if isinstance(outcome, ContextError) else "error" if isinstance(outcome, ModelError) else "reply"


def assert_said(error: ModelError, fault: Fault, name: str) -> None:
    """One line that names the model and what the server said, and its exit code."""
    assert re.search(fault.said, str(error)), str(error)
    assert str(error).startswith({"openai": "m: ", "litellm": "openai/m: "}[name]) and "\n" not in str(error) and error.exit_code == 7


def test_there_are_as_many_as_promised() -> None:
    assert len(FAULTS) >= 40 and len({fault.name for fault in FAULTS}) == len(FAULTS)
    on_litellm = [fault for fault in FAULTS if not fault.streamed and fault.name not in LITELLM_DIFFERS]
    assert len(on_litellm) >= 12


@pytest.mark.parametrize("name", ADAPTERS)
def test_no_answer_in_time_is_tried_again(name: str) -> None:
    waits: list[float] = []
    with serve([OK, OK], late_s=4.0) as (url, seen):
        reply = adapter(name)(url, Retry(wait=waits.append)).complete(TALK, [])
    assert reply.text == "ok" and len(seen) == 2 and len(waits) == 1


@pytest.mark.parametrize(
    ("name", "said"), [("openai", r"cannot reach http://127\.0\.0\.1:9.*5 attempts"), ("litellm", r"Connection error.*5 attempts")]
)
def test_an_unreachable_server_is_named(name: str, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        adapter(name)("http://127.0.0.1:9/v1", Retry(wait=lambda pause: None)).complete(TALK, [])


def test_a_missing_key_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ModelError, match=r"OPENAI_API_KEY is not set; export it, or .*--base-url"):
        OpenAI("m")


def test_models_are_named_on_the_command_line(tmp_path: Path) -> None:
    assert choose.model("openai:x", "http://127.0.0.1:9/v1").name == "x"
    assert choose.model("playbook").name == "playbook" and choose.model(f"manual:{tmp_path}").name == "manual"
    with pytest.raises(Exception, match="unknown model 'oracle'; there are: playbook"):
        choose.model("oracle")


def test_retry_after_in_each_of_its_forms() -> None:
    now = datetime(2026, 1, 1, 12, tzinfo=UTC)
    dates = {"Thu, 01 Jan 2026 12:00:20 GMT": 20.0, "Thu, 01 Jan 2026 11:00:00 GMT": 0.0, "Thu, 01 Jan 2026 12:00:05 -0000": 5.0}
    for text, wanted in {**dates, "7": 7.0, " 1.5 ": 1.5, "": None, "soon": None, "-3": None}.items():
        assert faults.seconds(text, now) == wanted, text
