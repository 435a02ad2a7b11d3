"""Find a task, read it, and say precisely what is wrong with it."""

import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from infra_agent import canonical, share
from infra_agent.errors import UsageError
from infra_agent.task.spec import TaskSpec

_NOT_PART_OF_IT = {"sessions", "audit.json", "README.md", "__pycache__"}


@dataclass(frozen=True)
class Task:
    """A task's folder and its parsed ``task.toml``."""

    folder: Path
    spec: TaskSpec

    @property
    def workspace(self) -> Path:
        """The code under change."""
        return self.folder / "workspace"

    @property
    def judge_folder(self) -> Path | None:
        """The task's own judge code, mounted in a reference cage only; None at evidence level below L2."""
        folder = self.folder / "judge"
        return folder if (folder / "task.py").is_file() else None

    @cached_property
    def digest(self) -> str:
        """SHA-256 over every file that defines the task (not its README, sessions or audit record)."""
        files = sorted(p for p in self.folder.rglob("*") if p.is_file() and not _NOT_PART_OF_IT & set(p.relative_to(self.folder).parts))
        return canonical.digest_of({p.relative_to(self.folder).as_posix(): canonical.digest(p.read_bytes()) for p in files})


def find(name: str) -> Path:
    """The folder of a task given as a folder, a task.toml, or an id; raises UsageError listing the ids there are."""
    path = Path(name)
    for candidate in (path, path.parent if path.name == "task.toml" else path):
        if (candidate / "task.toml").is_file():
            return candidate.resolve()
    for folder in search_folders():
        if (folder / name / "task.toml").is_file():
            return (folder / name).resolve()
    known = ", ".join(sorted(p.name for p in all_folders())) or "none"
    raise UsageError(f"unknown task '{name}': no folder with a task.toml, and no task of that id; there are: {known}")


def search_folders() -> list[Path]:
    """Where tasks are looked for by id: ./tasks, INFRA_AGENT_PATH, the checkout's own."""
    return list(dict.fromkeys(p.resolve() for p in [Path("tasks"), *share.search_path("tasks")] if p.is_dir()))


def all_folders() -> list[Path]:
    """Folders of every task that can be named by id."""
    return [child for folder in search_folders() for child in sorted(folder.iterdir()) if (child / "task.toml").is_file()]


def load(name: str) -> Task:
    """Read a task. Raises UsageError naming the file, the key, what was found and what is allowed."""
    folder = find(name)
    path = folder / "task.toml"
    try:
        data = tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    try:
        spec = TaskSpec.model_validate(data)
    except ValidationError as error:
        raise UsageError(f"{path}: {'; '.join(_explain(item) for item in error.errors())}") from error
    if not (folder / "workspace").is_dir():
        raise UsageError(f"{folder}: no workspace/ folder; put the code under change there")
    return Task(folder, spec)


def _explain(item: Any) -> str:
    """One validation error: key, what was found, what is allowed."""
    key = ".".join(str(part) for part in item["loc"])
    if item["type"] == "missing":
        return f"key '{key}' is missing"
    if item["type"] == "extra_forbidden":
        return f"unknown key '{key}'; allowed here: {', '.join(_allowed(item['loc'][:-1]))}"
    return f"key '{key}': found {item['input']!r}; {item['msg']}"


def _allowed(location: tuple[Any, ...]) -> list[str]:
    """Keys of the model at ``location``."""
    model: Any = TaskSpec
    for part in location:
        if isinstance(part, str) and part in getattr(model, "model_fields", {}):
            annotation = model.model_fields[part].annotation
            found = [a for a in (annotation, *get_args(annotation)) if isinstance(a, type) and issubclass(a, BaseModel)]
            model = found[0] if found else model
    return sorted(model.model_fields)
