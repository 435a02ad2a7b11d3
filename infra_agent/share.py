"""Where ``feedback/`` and ``sandboxes/`` lie: beside the package in a checkout, under ``share/`` in a wheel."""

import os
from pathlib import Path

from infra_agent.errors import UsageError

_PACKAGE = Path(__file__).resolve().parent


def root() -> Path:
    """The folder that holds ``feedback/`` and ``sandboxes/``; raises UsageError when the installation lacks them."""
    for candidate in (_PACKAGE / "share", _PACKAGE.parent):
        if (candidate / "sandboxes" / "worker.py").is_file():
            return candidate
    raise UsageError(f"{_PACKAGE}: sandboxes/ and feedback/ are missing; reinstall infra-agent-framework")


def search_path(name: str) -> list[Path]:
    """Folders that may hold user-supplied ``feedback`` or ``tasks``, in order: INFRA_AGENT_PATH, then ours."""
    extra = [Path(part) / name for part in os.environ.get("INFRA_AGENT_PATH", "").split(os.pathsep) if part]
    return [folder for folder in [*extra, root() / name] if folder.is_dir()]


def home() -> Path:
    """Where sessions, repositories and audits live: INFRA_AGENT_HOME, else .infra-agent in the current folder."""
    return Path(os.environ.get("INFRA_AGENT_HOME", ".infra-agent")).resolve()


def hidden() -> tuple[Path, ...]:
    """Folders of this program that no cage may show: the host's own package, tasks with their judges, tests, sessions."""
    folders = (_PACKAGE, root() / "tasks", root() / "tests", Path("tasks").resolve(), home())
    return tuple(folder for folder in dict.fromkeys(folders) if folder.is_dir())
