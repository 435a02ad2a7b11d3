"""Shared fixtures: real git, real cages, a home of its own for every test; nothing is mocked."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
KDA = ROOT / "tasks" / "kda-cp-tf32"
Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh INFRA_AGENT_HOME, no policy of the user's, and no key in the environment."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("INFRA_AGENT_HOME", str(folder))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return folder


@pytest.fixture
def cli(home: Path, tmp_path: Path) -> Cli:
    """Run the real command line in a process of its own, in an empty folder."""

    def run(*arguments: str, timeout: float = 180, **environment: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "INFRA_AGENT_HOME": str(home), **environment}
        argv = [sys.executable, "-m", "infra_agent.cli.main", *arguments]
        return subprocess.run(argv, capture_output=True, text=True, env=env, cwd=tmp_path, timeout=timeout, check=False)

    return run
