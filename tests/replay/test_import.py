"""Runs of another program become sessions that can be read, whatever their files hold, and nothing else."""

import copy
import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from infra_agent.agent.fork import fork
from infra_agent.cli import formats
from infra_agent.errors import UsageError
from infra_agent.proposal.store import Session, find_proposal, open_session, proposal_id
from infra_agent.replay.compare import compare
from infra_agent.replay.export import export
from infra_agent.replay.formats.mini_swe import MOST_BYTES, MOST_CALLS, MOST_VALUES
from infra_agent.replay.formats.mini_swe_schema import MOST_MESSAGES
from infra_agent.replay.importing import import_file
from infra_agent.replay.verify import verify
from infra_agent.session import events
from infra_agent.session.budget import Budget, Limits
from infra_agent.session.context import project
from infra_agent.session.events import Usage
from infra_agent.session.log import SessionLog
from tests.conftest import Cli
from tests.replay.rebuilt import check, events_of

Json = dict[str, Any]


def completion(message: Json, **usage: Any) -> Json:
    return {"id": "r", "object": "chat.completion", "choices": [{"index": 0, "message": message}], "usage": usage}


def first() -> Json:
    """Format 1: hand-made messages, commands as blocks of text, times beside the text."""
    answers = {
        "response": completion({"role": "assistant"}, prompt_tokens=120, completion_tokens=9, prompt_tokens_details={"cached_tokens": 0})
    }
    return {
        "info": {
            "exit_status": "Submitted", "submission": "diff --git a b", "mini_version": "1.17.4", "swebench": {"resolved": False},
            "model_stats": {"instance_cost": 0.31, "api_calls": 3},
            "config": {"agent": {"step_limit": 0}, "model": {"model_name": "some/model", "model_kwargs": {}}, "agent_type": "x.Agent"},
        },
        "messages": [
            {"role": "system", "content": "You are helpful.", "timestamp": 1750000000.0},
            {"role": "user", "content": "Fix the sum.", "timestamp": 1750000000},
            {"role": "assistant", "content": "THOUGHT: look\n\n```bash\nls -la | cat\n```\n", "timestamp": 1750000002.5, "extra": answers},
            {"role": "user", "content": "<returncode>0</returncode>\n<output>\na.py\n</output>", "timestamp": 1750000003.0, "unknown": [1]},
            {"role": "assistant", "content": "```bash\na\n```\nand\n```bash\nb\n```", "timestamp": 1750000004.0},
            {"role": "user", "content": "EXACTLY ONE action, found 2.", "timestamp": 1750000004.5},
            {"role": "assistant", "content": "```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```", "timestamp": 1750000006.0},
            {"role": "user", "content": "diff --git a b", "timestamp": 1750000007.0},
        ],
        "trajectory_format": "mini-swe-agent-1",
        "instance_id": "owner__repo__1",
    }  # fmt: skip


def bash(identity: str, command: str) -> Json:
    return {"id": identity, "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}


def second() -> Json:
    """Format 1.1: the provider's own messages, two calls at once, and a reply that could not be read."""
    calls = [bash("c1", "ls"), bash("c2", "false")]
    usage = {"prompt_tokens": 200, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 150, "audio_tokens": None}}
    extra = {
        "actions": [{"command": "ls", "tool_call_id": "c1"}, {"command": "false", "tool_call_id": "c2"}], "cost": 0.02,
        "timestamp": 1750000002.0, "response": completion({"role": "assistant", "tool_calls": calls}, **usage),
    }  # fmt: skip
    lost = completion({"role": "assistant", "content": "I am done."}, prompt_tokens=300, completion_tokens=5)
    return {
        "info": {
            "model_stats": {"instance_cost": 0.05, "api_calls": 2}, "mini_version": "2.4.6", "exit_status": "LimitsExceeded",
            "submission": "", "config": {"model": {"model_name": "anthropic/m"}, "environment": {"cwd": "/"}},
        },
        "messages": [
            {"role": "system", "content": "You are helpful."},
            {"role": "user", "content": [{"type": "text", "text": "Fix it."}, {"type": "image_url", "image_url": {"url": "data:,"}}]},
            {"role": "assistant", "content": None, "tool_calls": calls, "reasoning_content": "first look", "blocks": [], "extra": extra},
            {
                "role": "tool", "tool_call_id": "c2", "content": "{\"returncode\": 1}",
                "extra": {"returncode": 1, "timestamp": 1750000004.0, "exception_info": "", "raw_output": ""},
            },
            {"role": "tool", "tool_call_id": "c1", "content": "a.py", "extra": {"returncode": 0, "timestamp": 1750000005.0}},
            {
                "role": "user", "content": "No tool calls found.",
                "extra": {"interrupt_type": "FormatError", "cost": 0.03, "timestamp": 1750000009.0, "response": lost},
            },
            {"role": "user", "content": "Interrupted by user: hurry", "extra": {"interrupt_type": "UserInterruption"}},
            {"role": "exit", "content": "LimitsExceeded", "extra": {"exit_status": "LimitsExceeded", "submission": ""}},
        ],
        "trajectory_format": "mini-swe-agent-1.1",
    }  # fmt: skip


def responses() -> Json:
    """Format 1.1 with a model of the responses interface, whose answer is the message."""
    output = [
        {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "think"}], "content": None},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Look."}]},
        {"type": "function_call", "call_id": "f1", "name": "bash", "arguments": '{"command": "ls"}', "status": None},
    ]
    usage = {"input_tokens": 70, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 60}}
    answer = {"object": "response", "output": output, "usage": usage, "extra": {"actions": [{"command": "ls"}], "cost": 0.0}}
    seen = {
        "type": "function_call_output",
        "call_id": "f1",
        "output": "killed",
        "extra": {"returncode": -1, "exception_info": "timed\nout"},
    }
    told = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "go on"}],
        "extra": {"interrupt_type": "FormatError"},
    }
    opening = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    return {"info": {"exit_status": ""}, "messages": [*opening, answer, seen, told], "trajectory_format": "mini-swe-agent-1.1"}


def text_based() -> Json:
    """Format 1.1 with commands as blocks, a command of a person's, and an answer that came after its call was given up."""
    said = {
        "role": "assistant",
        "content": "```mswea_bash_command\nls\n```",
        "extra": {"actions": [{"command": "ls"}], "timestamp": 1750000001},
    }
    own = {"role": "user", "content": "User command: ls", "extra": {"actions": [{"command": "ls"}]}}
    late = {"role": "tool", "tool_call_id": "c9", "content": "late", "extra": {"returncode": 0}}
    seen = {"role": "user", "content": "a.py", "extra": {"returncode": 0, "timestamp": 1750000002}}
    opening = [{"role": "user", "content": "u"}]
    return {"messages": [*opening, said, seen, own, seen, late], "trajectory_format": "mini-swe-agent-1.1"}


EVERY: dict[str, Callable[[], Json]] = {"first": first, "second": second, "responses": responses, "text_based": text_based}


def imported(document: Any, tmp_path: Path, home: Path) -> Session:
    path = tmp_path / "run.traj.json"
    path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
    return open_session(str(import_file("mini-swe-agent", path, home)))


def found(opened: Session, kind: type) -> list[Any]:
    return [entry.event for entry in opened.entries if isinstance(entry.event, kind)]


@pytest.mark.parametrize("name", EVERY)
def test_every_form_is_a_session_that_holds(name: str, tmp_path: Path, home: Path) -> None:
    document = EVERY[name]()
    opened = imported(document, tmp_path, home)
    report = verify(opened)
    assert report.agrees, report.differences
    assert report.recomputed["model requests"] == len(found(opened, events.ModelRequested)) > 0
    kept = opened.header.imported
    assert kept and json.loads(opened.blobs.get(kept.document)) == document, "what no event has a field for is kept"
    exported = json.loads(export(opened, "atif"))
    check(exported)
    assert events_of(exported) == [(entry.seq, entry.time, entry.event) for entry in opened.entries]
    assert exported["agent"]["name"] == "mini-swe-agent" and export(opened, "chrome") and export(opened, "markdown")


def test_the_first_format(tmp_path: Path, home: Path) -> None:
    opened = imported(first(), tmp_path, home)
    header, came = opened.header, opened.header.imported
    assert came and (came.program, came.version, came.format) == ("mini-swe-agent", "1.17.4", "mini-swe-agent-1")
    assert (header.driver, header.isolation, header.audited, header.platform) == ("model:some/model", "none", False, "unknown")
    said = found(opened, events.ModelReplied)
    assert [reply.usage for reply in said] == [Usage(input_tokens=120, cached_tokens=0, output_tokens=9), Usage(), Usage()]
    assert [action.arguments for action in found(opened, events.ActionProposed)] == [
        {"command": "ls -la | cat"}, {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
    ]  # fmt: skip
    seen = [made.observation for made in found(opened, events.ObservationMade)]
    assert [(o.status, o.headline) for o in seen] == [("pass", "exit status 0"), ("inconclusive", "its exit status is not recorded")]
    assert [note.text for note in found(opened, events.Note)] == ["EXACTLY ONE action, found 2."]
    ended = found(opened, events.SessionEnded)[0]
    assert (ended.reason, ended.exit_code, ended.spent) == ("Submitted", 0, {"steps": 3, "usd": 0.31})
    shown = project(opened.entries, opened.blobs, None)
    assert [message.role for message in shown] == ["system", "user", "assistant", "tool", "assistant", "user", "assistant", "tool"]
    assert (shown[0].text, shown[1].text) == ("You are helpful.", "Fix the sum.") and "a.py" in shown[3].text
    times = [(entry.event.type, entry.time[17:23]) for entry in opened.entries[1:4]]
    assert times == [("model.requested", "40+00:"), ("model.replied", "42.500"), ("action.proposed", "42.500")]
    assert Budget.of(Limits(), opened.entries).earlier_s == pytest.approx(7.0)


def test_the_second_format(tmp_path: Path, home: Path) -> None:
    opened = imported(second(), tmp_path, home)
    said = found(opened, events.ModelReplied)
    assert [reply.usage for reply in said] == [
        Usage(input_tokens=200, cached_tokens=150, output_tokens=20, cost_usd=0.02), Usage(input_tokens=300, output_tokens=5, cost_usd=0.03)
    ]  # fmt: skip
    assert said[0].reasoning == "first look" and [call.id for call in said[0].tool_calls] == ["c1", "c2"]
    assert said[1].text == "I am done.", "the reply that could not be read was paid for too"
    made = [(o.action, o.observation.status, o.observation.body) for o in found(opened, events.ObservationMade)]
    assert made == [("a-2", "fail", '{"returncode": 1}'), ("a-1", "pass", "a.py")], "answers find their calls by id"
    told = [(note.text, note.to_model) for note in found(opened, events.Note)]
    assert told == [("No tool calls found.", True), ("Interrupted by user: hurry", True), ("LimitsExceeded", False)]
    assert found(opened, events.SessionEnded)[0].exit_code == 4
    assert opened.blobs.get(opened.header.brief) == b"Fix it.\n[image_url]"


def test_answers_of_the_responses_interface(tmp_path: Path, home: Path) -> None:
    opened = imported(responses(), tmp_path, home)
    said = found(opened, events.ModelReplied)[0]
    assert (said.text, said.reasoning, said.tool_calls[0].id) == ("Look.", "think", "f1")
    assert said.usage == Usage(input_tokens=70, cached_tokens=60, output_tokens=7, cost_usd=None), "a cost of 0 is one that was not known"
    assert found(opened, events.ObservationMade)[0].observation.headline == "exit status -1: timed out"
    assert not found(opened, events.SessionEnded), "a run that was cut off has not ended"


def test_commands_as_blocks_and_what_a_person_did(tmp_path: Path, home: Path) -> None:
    opened = imported(text_based(), tmp_path, home)
    assert [made.observation.body for made in found(opened, events.ObservationMade)] == ["a.py"]
    assert [note.text for note in found(opened, events.Note)] == ["User command: ls", "a.py", "late"]
    assert opened.header.driver == "unknown" and opened.blobs.get(opened.header.system_prompt) == b""


def test_it_can_be_shown_and_compared_and_nothing_else(cli: Cli, tmp_path: Path, home: Path) -> None:
    opened, other = imported(first(), tmp_path, home), imported(second(), tmp_path, home)
    name = opened.header.session
    assert "model.replied" in cli("show", name).stdout and "THOUGHT: look" in cli("show", name, "--messages").stdout
    assert "agrees" in cli("replay", name).stdout and name in cli("sessions").stdout
    compared = cli("compare", name, other.header.session)
    assert compared.returncode == 0 and "model:some/model" in compared.stdout
    assert any(row.what == "actions" and (row.first, row.second) == ("2 bash", "2 bash") for row in compare(opened, other))
    people = ("--reviewer", "Ada", "--reason", "fine")
    for command in (("resume", name), ("fork", name, "--at", "3"), ("approve", name, *people), ("reject", name, *people), ("merge", name)):
        refused = cli(*command)
        assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1, refused.stderr
        assert f"session {name} was imported from mini-swe-agent: it can be read, not resumed" in refused.stderr
    action = cli("approve", f"{name}/a-1", *people)
    assert action.returncode == 2 and "waits for nobody" in action.stderr
    assert [folder.name for folder in sorted((home / "sessions").iterdir())] == sorted([name, other.header.session])
    assert open_session(name).entries == opened.entries


def test_a_proposal_written_into_it_counts_for_nothing(tmp_path: Path, home: Path) -> None:
    opened = imported(first(), tmp_path, home)
    with SessionLog(opened.folder) as log:
        patch = log.blobs.put(b"")
        made = log.append(events.ProposalMade(action="a-1", base="", patch=patch, title="t", summary=""))
    with pytest.raises(UsageError, match="was imported from"):
        find_proposal(proposal_id(made))
    with pytest.raises(UsageError, match="was imported from"):
        fork(open_session(opened.header.session), 2, home)


def changed(place: str, value: Any) -> Json:
    """The second form with one thing different; ``place``: keys and numbers, dotted."""
    document: Any = second()
    *path, last = [int(key) if key.isdigit() else key for key in place.split(".")]
    at = document
    for key in path:
        at = at[key]
    at[last] = value
    return document  # type: ignore[no-any-return]


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "cut off": (lambda: json.dumps(second()).encode()[:-200], "not JSON that can be read"),
    "empty": (lambda: b"", "not JSON"),
    "no text": (lambda: b"\xff\xfe\x00", "not JSON"),
    "a list of messages": (lambda: second()["messages"], "not a JSON object"),
    "another format": (
        lambda: changed("trajectory_format", "mini-swe-agent-9"),
        "found 'mini-swe-agent-9'; can be read: mini-swe-agent-1, ",
    ),
    "no format": (lambda: {"messages": []}, "trajectory_format: found 'None'"),
    "a format of another type": (lambda: changed("trajectory_format", {"a": []}), "trajectory_format: found"),
    "no messages": (lambda: changed("messages", []), "messages: List should have at least 1 item"),
    "messages of another type": (lambda: changed("messages", {"0": {}}), "messages: Input should be a valid list"),
    "a message of another type": (lambda: changed("messages.3", "text"), r"messages\.3: "),
    "content of another type": (lambda: changed("messages.2.content", 7), r"messages\.2\.content"),
    "a part of another type": (lambda: changed("messages.1.content", ["x"]), r"messages\.1\.content"),
    "calls of another type": (lambda: changed("messages.2.tool_calls", {"id": "x"}), r"messages\.2\.tool_calls"),
    "a call without a function": (lambda: changed("messages.2.tool_calls.0.function", "bash"), r"messages\.2\.tool_calls\.0\.function"),
    "a command of another type": (lambda: changed("messages.2.extra.actions.0.command", None), r"messages\.2\.extra\.actions\.0\.command"),
    "tokens of another type": (lambda: changed("messages.2.extra.response.usage.prompt_tokens", "200"), r"usage\.prompt_tokens"),
    "tokens below 0": (lambda: changed("messages.2.extra.response.usage.prompt_tokens", -1), r"usage\.prompt_tokens"),
    "a truth for a number": (lambda: changed("messages.3.extra.returncode", True), r"messages\.3\.extra\.returncode"),
    "a cost below 0": (lambda: changed("messages.2.extra.cost", -0.5), r"messages\.2\.extra\.cost"),
    "a time that is none": (lambda: changed("messages.2.extra.timestamp", "yesterday"), r"messages\.2\.extra\.timestamp"),
    "a time past all years": (lambda: changed("messages.2.extra.timestamp", 1e18), r"messages\.2\.extra\.timestamp"),
    "info of another type": (lambda: changed("info", []), "info: "),
    "a model of another type": (lambda: changed("info.config.model.model_name", 3), r"info\.config\.model\.model_name"),
    "not a number": (lambda: changed("info.config.environment", float("nan")), "NaN is no number of JSON's"),
    "no finite number": (lambda: json.dumps(second()).replace("0.02", "1e999").encode(), "Out of range float"),
    "half a character": (lambda: changed("messages.1.content", "\ud800"), "surrogates not allowed"),
    "too deep": (lambda: changed("extra", deep(80)), "more than 64 levels deep"),
    "so deep that no parser takes it": (lambda: b"[" * 500_000, "not JSON"),
    "too many messages": (
        lambda: changed("messages", [{"role": "user", "content": "x"}] * (MOST_MESSAGES + 1)),
        "messages: List should have",
    ),
    "too many calls": (
        lambda: changed("messages.2.tool_calls", [{"id": "c", "function": {"name": "bash"}}] * (MOST_CALLS + 1)),
        f"messages: more than {MOST_CALLS} calls",
    ),
    "too many values": (lambda: b'{"a": [' + b"0," * MOST_VALUES + b"0]}", f"more than {MOST_VALUES} values"),
    "too large": (lambda: b" " * (MOST_BYTES + 1), f"more than {MOST_BYTES} bytes"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_trajectory_is_said_with_its_place(name: str, tmp_path: Path, home: Path) -> None:
    make, message = WRONG[name]
    with pytest.raises(UsageError, match=message) as refused:
        imported(make(), tmp_path, home)
    assert str(tmp_path / "run.traj.json") in str(refused.value) and "\n" not in str(refused.value) and len(str(refused.value)) < 600
    assert not (home / "sessions").exists(), "nothing is left behind"


def test_a_disk_that_is_full_leaves_no_half_session(tmp_path: Path, home: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    document = changed("messages.1.content", "x" * 200_000)
    (tmp_path / "run.traj.json").write_text(json.dumps(document))
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            import_file("mini-swe-agent", tmp_path / "run.traj.json", home)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((home / "sessions").iterdir()) == []


def test_calls_that_cannot_be_read_are_kept_as_they_were(tmp_path: Path, home: Path) -> None:
    document = second()
    document["messages"][2]["tool_calls"][0]["function"]["arguments"] = '{"command": NaN'
    document["messages"][2]["tool_calls"][1]["function"]["arguments"] = "[1]"
    opened = imported(document, tmp_path, home)
    assert [call.arguments for call in found(opened, events.ModelReplied)[0].tool_calls] == ['{"command": NaN', "[1]"]
    assert [action.problem for action in found(opened, events.ActionProposed)] == [
        "arguments are not JSON (JSONDecodeError)", "arguments are not a JSON object"
    ]  # fmt: skip
    assert verify(opened).agrees


def test_secrets_of_the_other_program_stay_out(tmp_path: Path, home: Path) -> None:
    key = "ghp_" + "a1" * 18
    document = second()
    document["info"]["config"]["environment"] = {"env": {"GH": key}}
    document["messages"][1]["content"] = f"use {key}"
    document["messages"][3]["content"] = key
    opened = imported(document, tmp_path, home)
    assert verify(opened).agrees
    assert not [path for path in opened.folder.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


def test_the_command(tmp_path: Path, home: Path) -> None:
    app = typer.Typer()
    app.command()(formats.export)
    app.command("import")(formats.import_)
    path = tmp_path / "run.traj.json"
    path.write_text(json.dumps(second()))
    plain = CliRunner().invoke(app, ["import", "mini-swe-agent", str(path)])
    assert plain.exit_code == 0 and open_session(plain.stdout.strip()).header.imported
    told = json.loads(CliRunner().invoke(app, ["import", "mini-swe-agent", str(path), "--json"]).stdout)
    assert (told["replies"], told["actions"], told["imported"]["format"]) == (2, 2, "mini-swe-agent-1.1")
    with pytest.raises(UsageError, match="cannot import from 'swe-agent'; there are: mini-swe-agent"):
        import_file("swe-agent", path, home)
    with pytest.raises(OSError, match="No such file"):
        import_file("mini-swe-agent", tmp_path / "absent", home)


WORDS = st.sampled_from(["", "x", "```bash\nls\n```", "<returncode>3</returncode>", "```bash\n```bash\n", "\u202e\x1b"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=12
)
CALLS = st.lists(
    st.builds(lambda i, a: {"id": i, "function": {"name": "bash", "arguments": a}}, st.sampled_from([None, "", "c", "d"]), WORDS),
    max_size=3,
)
EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        "actions": st.lists(st.fixed_dictionaries({"command": WORDS}), max_size=3),
        "timestamp": st.floats(0, 2e9) | st.none(), "returncode": st.integers(-9, 9) | st.none(), "cost": st.floats(0, 1),
        "interrupt_type": WORDS, "exit_status": WORDS, "response": st.just(completion({"content": "r"}, prompt_tokens=1)) | WORDS,
        "unknown": st.recursive(st.none() | st.integers(), lambda inner: st.lists(inner, max_size=2), max_leaves=3),
    },
)  # fmt: skip
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "assistant", "tool", "exit", "developer", "", None])},
    optional={
        "content": WORDS | st.none(),
        "tool_calls": CALLS | st.none(),
        "tool_call_id": st.sampled_from(["c", "d", ""]),
        "extra": EXTRAS,
    },
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=st.lists(MESSAGES, min_size=1, max_size=8), version=st.sampled_from(["mini-swe-agent-1", "mini-swe-agent-1.1"]))
def test_any_order_of_messages_is_a_session_that_holds(messages: list[Json], version: str, tmp_path: Path, home: Path) -> None:
    opened = imported({"messages": copy.deepcopy(messages), "trajectory_format": version}, tmp_path, home)
    report = verify(opened)
    assert report.agrees, report.differences
    exported = json.loads(export(opened, "atif"))
    check(exported)
    assert events_of(exported) == [(entry.seq, entry.time, entry.event) for entry in opened.entries]
    assert export(opened, "markdown") and export(opened, "chrome")
