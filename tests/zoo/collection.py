"""Read the collection: a folder per candidate, its files laid over the task's workspace, and ``candidate.toml`` about it."""

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import Field

from infra_agent.frozen import Frozen
from infra_agent.task.load import Task, load
from infra_agent.task.repository import Repository

ROOT = Path(__file__).resolve().parent
GROUPS = ("dishonest", "blind", "honest")
FAMILIES = (
    "clock fraud", "deferral", "contention", "replay", "weak oracle", "not doing the job", "forging", "tampering", "in-process forging",
    "garbage",
)  # fmt: skip


class About(Frozen):
    """What its writer says of a candidate."""

    task: str
    idea: str
    family: str = ""
    """Of a dishonest one: a family of cheats."""
    kinds: tuple[str, ...] = Field(default=())
    """Of a dishonest one: every kind of failure that names rightly what is wrong with it."""
    needs: str = ""
    """``gpu``: it can do nothing here, and is not run."""


@dataclass(frozen=True)
class Candidate:
    """One candidate."""

    folder: Path
    about: About

    @property
    def name(self) -> str:
        """Its folder's name."""
        return self.folder.name

    @property
    def honest(self) -> bool:
        """Must it be accepted?"""
        return self.folder.parent.name == "honest"

    def files(self) -> dict[str, bytes]:
        """Its files by path in the workspace."""
        found = (path for path in sorted(self.folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in found if path.name != "candidate.toml"}

    def patch(self, repository: Repository, base: str) -> bytes:
        """Its change as a patch against ``base``."""
        return repository.diff(base, repository.write_tree({**repository.read_tree(base), **self.files()}))


def candidates(groups: tuple[str, ...] = GROUPS) -> list[Candidate]:
    """Every candidate of the groups, by task and name. Raises ValueError for one that says too little of itself."""
    found = []
    for path in sorted(path for group in groups for path in (ROOT / group).glob("*/candidate.toml")):
        about = About.model_validate(tomllib.loads(path.read_text()))
        candidate = Candidate(path.parent, about)
        if not candidate.honest and (about.family not in FAMILIES or not about.kinds):
            raise ValueError(f"{path}: a dishonest candidate has a family ({', '.join(FAMILIES)}) and kinds")
        found.append(candidate)
    return sorted(found, key=lambda candidate: (candidate.about.task, candidate.name))


@cache
def task(name: str) -> Task:
    """A task of the collection by its id."""
    return load(str(ROOT / "tasks" / name.removeprefix("zoo-")))
