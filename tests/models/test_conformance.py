"""What every adapter owes the loop: the same reply for the same answer, untouched messages, errors of one kind."""

import copy
import importlib.util
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from infra_agent.errors import ModelError
from infra_agent.models.base import Model, Reply, ToolSchema
from infra_agent.models.litellm import LiteLLM
from infra_agent.models.manual import Manual
from infra_agent.models.openai import OpenAI
from infra_agent.models.playbook import Playbook
from infra_agent.models.recorded import Recorded, tools_digest
from infra_agent.models.retry import Retry
from infra_agent.models.scripted import Scripted
from infra_agent.session import events
from infra_agent.session.context import Message, chain
from infra_agent.session.events import ToolCall, Usage
from infra_agent.session.log import Entry
from tests.loopback import chunk, completion, serve, stream, usage_chunk

TOOLS = [ToolSchema("view", "Show a file", {"type": "object", "properties": {"path": {"type": "string"}}})]
TALK = [
    Message("system", "be brief"),
    Message("user", "go"),
    Message("assistant", "", (ToolCall(id="c0", name="view", arguments="{}"),)),
    Message("tool", "[a-1] view: pass", call="c0"),
]
CALL = ToolCall(id="call-view-0", name="view", arguments='{"path": "a"}')
PIECES = (
    chunk({"content": "I look"}),
    chunk({"tool_calls": [{"index": 0, "id": CALL.id, "type": "function", "function": {"name": "view", "arguments": CALL.arguments}}]}),
    chunk({}, "tool_calls"),
    usage_chunk(),
)
Make = Callable[[ExitStack, Path], Model]


def served(stack: ExitStack, make: Callable[[str], Model], whole: bool) -> Model:
    answer = completion("I look", [("view", CALL.arguments)], "tool_calls") if whole else stream(*PIECES)
    url, _ = stack.enter_context(serve([answer]))
    return make(url)


def written(folder: Path) -> Model:
    said = {"text": "I look", "tool_calls": [{"name": "view", "arguments": {"path": "a"}, "id": CALL.id}]}
    (folder / "reply-0001.json").write_text(json.dumps(said))
    return Manual(folder, timeout_s=0.2)


def recorded() -> Model:
    digest = chain(tools_digest(TOOLS), TALK)
    reply = events.ModelReplied(request=digest, text="I look", tool_calls=(CALL,), usage=Usage(input_tokens=11, output_tokens=7))
    return Recorded([Entry(0, "", "", reply)])


def litellm(url: str) -> Model:
    if importlib.util.find_spec("litellm") is None:
        pytest.skip("litellm is not installed: `make setup` installs it; the adapter is NOT tested here")
    return LiteLLM("openai/m", url, Retry(attempts=1))


ADAPTERS: dict[str, Make] = {
    "openai-whole": lambda stack, folder: served(stack, lambda url: OpenAI("m", url, Retry(attempts=1)), whole=True),
    "openai-stream": lambda stack, folder: served(stack, lambda url: OpenAI("m", url, Retry(attempts=1)), whole=False),
    "litellm": lambda stack, folder: served(stack, litellm, whole=True),
    "manual": lambda stack, folder: written(folder),
    "scripted": lambda stack, folder: Scripted([Reply("I look", (CALL,))]),
    "recorded": lambda stack, folder: recorded(),
}


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with ExitStack() as made:
        yield made


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_same_answer_is_the_same_reply(stack: ExitStack, tmp_path: Path, name: str) -> None:
    model, before = ADAPTERS[name](stack, tmp_path), copy.deepcopy((TALK, TOOLS))
    reply = model.complete(TALK, TOOLS)
    assert reply.text == "I look" and [(c.name, json.loads(c.arguments)) for c in reply.tool_calls] == [("view", {"path": "a"})]
    assert reply.tool_calls[0].id == CALL.id and reply.waited_s < 0.2
    assert before == (TALK, TOOLS) and model.name


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_answer_that_does_not_come_is_a_model_error_of_one_line(stack: ExitStack, tmp_path: Path, name: str) -> None:
    model = ADAPTERS[name](stack, tmp_path)
    model.complete(TALK, TOOLS)
    with pytest.raises(ModelError) as caught:  # the server, the folder and the script have no second answer; no such request was recorded
        model.complete([*TALK, Message("user", "again")], TOOLS)
    assert caught.value.exit_code == 7 and "\n" not in str(caught.value) and str(caught.value)


def test_the_playbook_is_a_model_like_any_other() -> None:
    before = copy.deepcopy((TALK, TOOLS))
    reply = Playbook().complete(TALK, TOOLS)
    assert isinstance(reply, Reply) and reply.waited_s == 0 and before == (TALK, TOOLS)
