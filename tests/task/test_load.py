"""Bad task files: one line that names the file, the key, what was found and what is allowed."""

from pathlib import Path

import pytest

from infra_agent.errors import UsageError
from infra_agent.task.load import load
from infra_agent.task.spec import TaskSpec
from tests.support import TASK, rows_task


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('id = "rows"', 'id = "Rows!"', "key 'id': found 'Rows!'"),
        ('goal = "Make both stages right."', "", "key 'goal' is missing"),
        ("[metric]", "[metrics]", "unknown key 'metrics'; allowed here: accepts, commands, determinism_runs, edit"),
        (
            'callable = "run"',
            'callable = "run"\nshape = 3',
            "unknown key 'entry.shape'; allowed here: callable, modelled, module",
        ),
        ("max_steps = 20", "max_steps = 0", "key 'max_steps': found 0"),
        ("[entry]", "[entry", "not valid TOML"),
    ],
)
def test_a_bad_key_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    task = rows_task(tmp_path)
    (task.folder / "task.toml").write_text(TASK.replace(old, new))
    with pytest.raises(UsageError) as caught:
        load(str(task.folder))
    message = str(caught.value)
    assert message.startswith(str(task.folder / "task.toml")) and said in message and "\n" not in message


def test_an_unknown_task_lists_the_known() -> None:
    with pytest.raises(UsageError, match=r"unknown task 'nope'.*kda-cp-tf32"):
        load("nope")


def test_a_task_is_found_by_id_folder_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = rows_task(tmp_path / "tasks")
    assert load(str(task.folder)).spec.id == load(str(task.folder / "task.toml")).spec.id == "rows"
    monkeypatch.setenv("INFRA_AGENT_PATH", str(tmp_path))
    assert load("rows").folder == task.folder


def test_the_digest_covers_what_decides_and_nothing_else(tmp_path: Path) -> None:
    task = rows_task(tmp_path)
    before = load(str(task.folder)).digest
    (task.folder / "README.md").write_text("words")
    assert load(str(task.folder)).digest == before
    (task.folder / "judge" / "task.py").write_text("# other\n")
    assert load(str(task.folder)).digest != before


def test_the_schema_documents_every_key() -> None:
    schema = TaskSpec.model_json_schema()
    assert schema["properties"]["goal"]["description"]
    assert "stages" in schema["$defs"]["Entry"]["properties"]
    assert schema["additionalProperties"] is False
