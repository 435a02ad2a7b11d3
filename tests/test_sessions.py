"""Sessions that ship with the tasks: each verifies, without torch, triton, a key or a cage, and names no folder of a machine."""

import json
import os
import re
from pathlib import Path

import pytest

from infra_agent.proposal.store import open_session, proposals_of
from infra_agent.share import root
from infra_agent.task.load import load
from tests.conftest import Cli

SHIPPED = sorted((root() / "tasks").glob("*/sessions/*"))
FOLDERS = re.compile(rb"(?<![\w.])/(?:home|root|Users|var|srv|work|opt|mnt|data)/\w[^\s\"']*")


@pytest.mark.parametrize("bundle", SHIPPED, ids=lambda path: f"{path.parents[1].name}-{path.name}")
def test_a_session_that_ships_verifies_without_the_kernels(cli: Cli, bundle: Path, tmp_path: Path) -> None:
    for name in ("torch", "triton"):
        (tmp_path / "block" / name).mkdir(parents=True)
        (tmp_path / "block" / name / "__init__.py").write_text("raise ImportError('absent here')\n")
    done = cli("replay", str(bundle), "--json", PATH="/nonexistent", PYTHONPATH=f"{tmp_path / 'block'}{os.pathsep}{root()}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["recomputed"]["checks"] > 5


@pytest.mark.parametrize("bundle", SHIPPED, ids=lambda path: f"{path.parents[1].name}-{path.name}")
def test_a_session_that_ships_is_of_its_task_and_of_no_machine(bundle: Path) -> None:
    opened = open_session(str(bundle))
    assert opened.header.task == load(str(bundle.parents[1])).spec.id
    assert proposals_of(opened)[-1].state == "passed"
    for path in (opened.folder / "session.jsonl", *(opened.folder / "blobs").iterdir()):
        assert not FOLDERS.findall(path.read_bytes()), path


def test_every_task_ships_one() -> None:
    tasks = {path.parent.name for path in (root() / "tasks").glob("*/task.toml")}
    assert {path.parents[1].name for path in SHIPPED} == tasks
