"""The command line as a user has it: exit codes, one-line errors, JSON on stdout and nothing else."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pydantic
import pytest

from infra_agent.sandbox.attacks.ordinary import OrdinaryUser
from infra_agent.sandbox.choose import BACKENDS
from infra_agent.task.load import Task
from tests.loopback import completion, serve
from tests.support import RIGHT, call, mark_audited, patch_of, rows_task

Cli = Callable[..., "subprocess.CompletedProcess[str]"]
EDIT = call("edit", path="rows/entry.py", old="torch.cumsum(product, 1)", new="torch.cumsum(product, 0)")
PROPOSE = call("propose", title="Sum rows along axis 0", summary="The running sum ran along columns.")
STATE = call("hypothesis", do="state", claim="the axis is wrong", prediction="running falls", check="accuracy")
SETTLE = call("hypothesis", do="settle", id="h-1", outcome="confirmed", observation="a-4")
SCRIPT = [call("accuracy"), STATE, EDIT, call("accuracy"), SETTLE, PROPOSE]


@pytest.fixture
def task(tmp_path: Path, home: Path) -> Task:
    made = rows_task(tmp_path)
    mark_audited(made, home)
    return made


def one_line(done: "subprocess.CompletedProcess[str]", code: int, *words: str) -> None:
    """Exit code, nothing on stdout, one line on stderr that holds ``words``."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("infra-agent: "), done.stderr
    for word in words:
        assert word in lines[0]


def write_replies(folder: Path, script: list[tuple[str, str]]) -> None:
    folder.mkdir()
    for n, (name, arguments) in enumerate(script, 1):
        body = {"text": "", "tool_calls": [{"name": name, "arguments": json.loads(arguments)}]}
        (folder / f"reply-{n:04}.json").write_text(json.dumps(body))


def test_openai_and_manual_end_in_the_same_accepted_patch(cli: Cli, task: Task, tmp_path: Path) -> None:
    with serve([completion("", [step], "tool_calls") for step in SCRIPT]) as (url, seen):
        wire = cli("run", str(task.folder), "--model", "openai:loopback", "--base-url", url, "--json")
    assert len(seen) == len(SCRIPT)
    write_replies(tmp_path / "folder", SCRIPT)
    manual = cli("run", str(task.folder), "--model", f"manual:{tmp_path / 'folder'}", "--json")
    assert (wire.returncode, manual.returncode) == (0, 0), wire.stderr + manual.stderr
    patches = [cli("review", json.loads(done.stdout)["proposal"], "--patch-only").stdout for done in (wire, manual)]
    assert patches[0] == patches[1] and "cumsum(product, 0)" in patches[0]


def test_who_wrote_the_replies_stands_in_the_header(cli: Cli, task: Task, tmp_path: Path) -> None:
    write_replies(tmp_path / "folder", SCRIPT[:1])
    model = ("--model", f"manual:{tmp_path / 'folder'}", "--max-steps", "1")
    one_line(cli("run", str(task.folder), "--driver", "model:x"), 2, "only with --model manual:DIR")
    one_line(cli("run", str(task.folder), *model, "--driver", "somebody"), 2, "person or model:NAME")
    assert cli("run", str(task.folder), *model, "--driver", "model:some-one").returncode == 4
    write_replies(tmp_path / "more", SCRIPT[1:2])
    (session,) = (row["session"] for row in json.loads(cli("sessions", "--json").stdout))
    again = cli("resume", session, "--model", f"manual:{tmp_path / 'more'}", "--add-budget", "steps=1", "--task", str(task.folder))
    assert again.returncode == 4, again.stderr
    drivers = [event["driver"] for event in json.loads(cli("show", session, "--json").stdout) if "driver" in event]
    assert drivers == ["model:some-one"] * len(drivers) and drivers


def test_run_review_approve_merge_replay(cli: Cli, task: Task, tmp_path: Path) -> None:
    write_replies(tmp_path / "folder", SCRIPT)
    done = cli("run", str(task.folder), "--model", f"manual:{tmp_path / 'folder'}")
    assert done.returncode == 0
    approve_line = done.stdout.strip().splitlines()[-1]
    assert approve_line.startswith("Approve:  infra-agent approve p-")
    proposal = approve_line.split()[3]
    assert "Verdict: pass   evidence L2, isolation full, platform cpu-emulated" in done.stdout
    one_line(cli("merge", proposal), 2, "not approved", f"infra-agent approve {proposal}")
    assert cli("approve", proposal, "--reviewer", "A Reviewer", "--reason", "right axis").returncode == 0
    merged = cli("merge", proposal, "--json")
    assert merged.returncode == 0
    said = json.loads(merged.stdout)
    log = subprocess.run(
        ["git", "--git-dir", said["repository"], "log", "-1", "--format=%(trailers:key=Reviewed-by,valueonly)", said["commit"]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert log.stdout.strip() == "A Reviewer"
    session = json.loads(cli("sessions", "--json").stdout)[0]["session"]
    replayed = cli("replay", session, "--json")
    assert replayed.returncode == 0 and json.loads(replayed.stdout)["agrees"]
    assert json.loads(cli("proposals", "--json").stdout)[0]["state"] == "merged"
    assert "hypothesis" not in cli("show", session).stderr and "verdict.given" in cli("show", session).stdout
    assert "→ edit" in cli("show", session, "--messages").stdout
    assert "h-1" in done.stderr and "h-1 confirmed by a-4" in done.stderr, "hypotheses are told as they happen"
    assert "small: stage running" in done.stderr, "findings name their place"
    one_line(cli("merge", proposal), 2, "merged already")


def test_what_an_observation_says_reproduces_it_and_names_no_folder_of_the_machine(
    cli: Cli, task: Task, tmp_path: Path, home: Path
) -> None:
    write_replies(tmp_path / "folder", SCRIPT[:4])
    cli("run", str(task.folder), "--model", f"manual:{tmp_path / 'folder'}", "--max-steps", "4")
    folder = next((home / "sessions").iterdir())
    made = [event for event in json.loads(cli("show", str(folder), "--json").stdout) if event["type"] == "observation.made"]
    first, last = (made[n]["observation"] for n in (0, -1))
    assert (first["status"], last["status"]) == ("fail", "pass")
    for said in (first, last):
        assert str(home) not in " ".join(said["reproduce"])
        again = cli(*[str(task.folder) if word == "rows" else word for word in said["reproduce"][1:]], "--json")
        assert json.loads(again.stdout)["status"] == said["status"], again.stderr


def test_replay_says_where_a_session_was_edited(cli: Cli, task: Task, tmp_path: Path, home: Path) -> None:
    write_replies(tmp_path / "folder", SCRIPT[:3])
    assert cli("run", str(task.folder), "--model", f"manual:{tmp_path / 'folder'}", "--max-steps", "3").returncode == 4
    folder = next((home / "sessions").iterdir())
    log = folder / "session.jsonl"
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b"cumsum(product, 0)", b"cumsum(product, 9)"))
    one_line(cli("replay", folder.name), 2, "session.jsonl: line", "hash")
    log.write_bytes(whole)
    blob = next((folder / "blobs").iterdir())
    blob.write_bytes(blob.read_bytes() + b"x")
    done = cli("replay", folder.name)
    assert done.returncode in (1, 2) and blob.name in done.stdout + done.stderr


def test_replay_needs_no_key_no_cage_no_torch_and_writes_nothing(cli: Cli, task: Task, tmp_path: Path, home: Path) -> None:
    write_replies(tmp_path / "folder", SCRIPT)
    assert cli("run", str(task.folder), "--model", f"manual:{tmp_path / 'folder'}").returncode == 0
    folder = next((home / "sessions").iterdir())
    block = tmp_path / "block"
    for name in ("torch", "triton"):
        (block / name).mkdir(parents=True)
        (block / name / "__init__.py").write_text("raise ImportError('absent here')\n")
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    subprocess.run(["chmod", "-R", "a-w", str(folder)], check=True)
    root = Path(__file__).resolve().parents[2]
    done = cli("replay", str(folder), PATH="/nonexistent", PYTHONPATH=f"{block}{os.pathsep}{root}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("agrees")
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before


ELSEWHERE = (
    {"TZ": "Pacific/Kiritimati", "LC_ALL": "C"},
    {"TZ": "America/St_Johns", "LC_ALL": "de_DE.UTF-8"},
    {"TZ": "UTC-14", "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
)
"""Time zones and locales; in the last, text is ASCII."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_what_root_recorded_replays_for_another_user_in_another_place(cli: Cli, task: Task, tmp_path: Path, home: Path) -> None:
    write_replies(tmp_path / "folder", [EDIT, PROPOSE])
    assert cli("run", str(task.folder), "--model", f"manual:{tmp_path / 'folder'}").returncode == 0
    folder = next((home / "sessions").iterdir())
    here = {command: cli(command, str(folder), "--json").stdout for command in ("replay", "show")}
    libraries = str(Path(pydantic.__file__).parents[1])
    with OrdinaryUser() as user:
        if user.refusal:
            pytest.skip(f"NOT RUN: {user.refusal}")
        copy = Path(user.environment["HOME"]).parent / "ein anderer Ort — größer"
        shutil.copytree(folder, copy)
        subprocess.run(["chmod", "-R", "a=rX", str(copy)], check=True)
        for place in ELSEWHERE:
            found = {**user.environment, **place, "PYTHONPATH": f"{user.environment['PYTHONPATH']}{os.pathsep}{libraries}"}
            for command in here if "PYTHONUTF8" not in place else ["replay"]:
                argv = user.argv("-m", "infra_agent.cli.main", command, str(copy), "--json")
                done = subprocess.run(argv, capture_output=True, env=found, cwd="/", check=False)
                assert (done.returncode, done.stdout.decode()) == (0, here[command]), (place, done.stderr)


def test_gate_json_is_the_documented_document(cli: Cli, task: Task, tmp_path: Path, home: Path) -> None:
    patch = tmp_path / "right.patch"
    patch.write_bytes(patch_of(task, home, rows__entry_py=RIGHT))
    done = cli("gate", str(task.folder), "--patch", str(patch), "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 0 and said["decision"] == "pass"
    assert {"task", "patch", "level", "isolation", "decision", "checks", "elapsed_s"} <= said.keys()
    assert {"name", "status", "kind", "trust", "figure", "where", "message"} <= said["checks"][0].keys()


def test_measure_says_what_is_wrong_and_where(cli: Cli, task: Task) -> None:
    done = cli("measure", str(task.folder), "accuracy", "--set", "cases=small", "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 1 and said["status"] == "fail" and said["findings"][0]["where"]["stage"] == "running"
    assert said["reproduce"][:3] == ["infra-agent", "measure", str(task.folder)]


def test_bad_input_is_one_line_with_the_fix(cli: Cli, task: Task, tmp_path: Path) -> None:
    (tmp_path / "bad.patch").write_text("this is no patch\n")
    toml = task.folder / "task.toml"
    one_line(cli("run", "no-such-task"), 2, "unknown task 'no-such-task'", "kda-cp-tf32")
    one_line(cli("run", str(task.folder), "--model", "oracle"), 2, "unknown model 'oracle'", "playbook")
    one_line(cli("run", str(task.folder), "--model", "openai:gpt"), 7, "OPENAI_API_KEY is not set")
    one_line(cli("run", str(task.folder), "--feedback", "some"), 2, "dense and sparse")
    one_line(cli("measure", str(task.folder), "static"), 2, "does not use instrument 'static'", "accuracy")
    one_line(cli("measure", str(task.folder), "accuracy", "--patch", "absent.patch"), 2, "absent.patch", "No such file")
    one_line(cli("measure", str(task.folder), "accuracy", "--patch", "bad.patch"), 2, "does not apply")
    one_line(cli("measure", str(task.folder), "accuracy", "--set", "cases"), 2, "KEY=VALUE")
    one_line(cli("review", "p-123"), 2, "proposal 'p-123' is unknown")
    one_line(cli("approve", "p-123", "--reviewer", "A", "--reason", "b"), 2, "unknown")
    one_line(cli("replay", "nothing"), 2, "session 'nothing' is unknown")
    one_line(cli("run", str(task.folder), PATH="/nonexistent"), 2, "git")
    toml.write_text(toml.read_text().replace("[entry]", "[entry"))
    one_line(cli("run", str(task.folder)), 2, str(toml), "not valid TOML")
    assert not list((tmp_path / "home" / "sessions").glob("*")) if (tmp_path / "home" / "sessions").exists() else True


def test_a_patch_that_does_not_apply_fails_the_gate(cli: Cli, task: Task, tmp_path: Path) -> None:
    (tmp_path / "bad.patch").write_text("this is no patch\n")
    done = cli("gate", str(task.folder), "--patch", "bad.patch")
    assert done.returncode == 1 and "applies      fail (does_not_apply)" in done.stderr


def test_missing_bubblewrap_exits_6_and_leaves_no_session(cli: Cli, task: Task, tmp_path: Path, home: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("git", "unshare", "sh", "cat"):
        (tools / name).symlink_to(subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip())
    named = cli("run", str(task.folder), "--sandbox", "bubblewrap", PATH=str(tools))
    one_line(named, 6, "bubblewrap is missing", "apt install bubblewrap")
    assert not (home / "sessions").exists()
    if BACKENDS["landlock"].refusal() is None:  # then the next best is taken, and said
        left_to_it = cli("run", str(task.folder), PATH=str(tools))
        assert "isolation partial" in left_to_it.stderr and "not held at this isolation: no namespaces" in left_to_it.stderr


def test_doctor_tables(cli: Cli) -> None:
    done = cli("doctor", "--json")
    said = json.loads(done.stdout)
    states = {item["name"]: item["state"] for item in said["machine"]}
    assert done.returncode == 0 and states["git"] == states["sandbox bubblewrap"] == states["limits"] == "ok"
    assert {trial["state"] for trial in said["attacks"]} <= {"held", "not_run"} and len(said["attacks"]) > 60


def test_lists(cli: Cli, tmp_path: Path) -> None:
    assert "kda-cp-tf32" in cli("tasks").stdout
    assert json.loads(cli("tasks", "--schema").stdout)["properties"]["entry"]
    listed = {i["name"]: i for i in json.loads(cli("instruments", "--json").stdout)}
    assert listed["numerics"]["trust"] == "advice" and listed["static"]["evidence"] == "static"
    assert cli("sessions").stdout.startswith("session") and cli("proposals").stdout.startswith("proposal")


def test_run_all_runs_every_task_and_says_what_became_of_each(cli: Cli, task: Task, tmp_path: Path) -> None:
    broken = tmp_path / "tasks" / "broken"
    broken.mkdir(parents=True)
    (broken / "task.toml").write_text("[entry\n")
    shutil.copytree(task.folder, tmp_path / "tasks" / "a-task")
    write_replies(tmp_path / "folder", [EDIT, PROPOSE])
    done = cli("run", "all", "--model", f"manual:{tmp_path / 'folder'}", "--max-steps", "2", "--json", timeout=400)
    said = json.loads(done.stdout)
    rows = {row["task"]: row for row in said["tasks"]}
    assert done.returncode == 1 and set(rows) >= {"a-task", "broken", "kda-cp-tf32"} and said["of"] == len(rows)
    assert "not valid TOML" in rows["broken"]["verdict"] and not rows["broken"]["solved"]
    listed = cli("tasks")
    assert listed.returncode == 0 and "not valid TOML" in listed.stderr and "kda-cp-tf32" in listed.stdout
    solved = rows["a-task"]
    assert (solved["solved"], solved["steps"], solved["verdict"]) == (True, 2, "passed") and said["solved"] == 1
