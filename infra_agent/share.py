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
