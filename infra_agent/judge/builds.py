"""The project's own build step: it runs once for a tree, in a cage, and what it leaves lies beside the sources wherever they run."""

import shlex
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from pydantic import Field

from infra_agent import canonical
from infra_agent.errors import ArtefactError, UsageError
from infra_agent.frozen import Frozen
from infra_agent.sandbox.base import Result
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.text import excerpt
from infra_agent.session.observation import FileWhere, Finding, Status
from infra_agent.task.spec import Commands, TaskSpec
from infra_agent.task.tree import Tree, digest, pack

_MOST_BYTES = 64 << 20
_LINES, _WIDTH = 30, 300


class BuildRecord(Frozen):
    """One build of a tree. In-process: the compiler ran in the candidate's cage."""

    tree: str
    """Digest of the sources."""
    ended: str
    """ok, or how it failed: crashed, timeout, missing (a file that it was to leave is not there)."""
    ending: str = ""
    """The end of what the build printed when it did not end well."""
    files: dict[str, str] = Field(default_factory=dict)
    """Path -> SHA-256 of what it left."""
    seconds: float = 0.0


class BuildError(UsageError):
    """The sources cannot be built; nothing that would run them can be asked."""

    def __init__(self, record: BuildRecord) -> None:
        super().__init__(f"the build {record.ended}: {record.ending[-300:]}")
        self.record = record


class Builds:
    """Trees that were built, with what the builds left. ``cage`` lends one."""

    def __init__(self, commands: Commands | None, cage: Callable[[], AbstractContextManager[Cage]]) -> None:
        self._commands = commands if commands and commands.build else None
        self._cage = cage
        self._lock = threading.Lock()
        self._done: dict[str, tuple[BuildRecord, dict[str, bytes]]] = {}

    @property
    def asked(self) -> bool:
        """Does the task have a build step?"""
        return self._commands is not None

    def clear(self) -> None:
        """Build anew from now on."""
        with self._lock:
            self._done = {}

    def packed(self, tree: Tree) -> bytes:
        """The tree as a cage gets it, with what its build left. Raises BuildError."""
        if self._commands is None:
            return pack(tree)
        record, left = self._built(tree, self._commands)
        if record.ended != "ok":
            raise BuildError(record)
        return pack({**tree, **left})

    def record(self, tree: Tree) -> BuildRecord:
        """How the build of a tree went. Raises ValueError for a task without one."""
        if self._commands is None:
            raise ValueError("no build step")
        return self._built(tree, self._commands)[0]

    def _built(self, tree: Tree, commands: Commands) -> tuple[BuildRecord, dict[str, bytes]]:
        with self._lock:
            name = digest(tree)
            if name not in self._done:
                self._done[name] = self._build(tree, name, commands)
            return self._done[name]

    def _build(self, tree: Tree, name: str, commands: Commands) -> tuple[BuildRecord, dict[str, bytes]]:
        sources = {path: data for path, data in tree.items() if path not in commands.built}  # what lay there was not built
        with self._cage() as cage:
            began = time.monotonic()
            call = {"command": shlex.join(commands.build)}
            result = cage.run("sandboxes.runtime.shell", call, {"tree": pack(sources)}, timeout_s=commands.build_s)
            seconds = round(time.monotonic() - began, 3)
            left: dict[str, bytes] = {}
            if not result.ok:
                ended = {"failed": "crashed", "signal": "crashed", "oom": "out_of_memory"}.get(result.ended, result.ended)
                return BuildRecord(tree=name, ended=ended, ending=_said(result), seconds=seconds), left
            for path in commands.built:
                try:
                    left[path] = cage.get(f"ws/{path}", _MOST_BYTES)
                except ArtefactError as error:
                    return BuildRecord(tree=name, ended="missing", ending=f"{path}: {error}; {_said(result)}", seconds=seconds), {}
        files = {path: canonical.digest(data) for path, data in left.items()}
        return BuildRecord(tree=name, ended="ok", files=files, seconds=seconds), left


def _said(result: Result) -> str:
    return excerpt(result.text.strip(), 0, _LINES, _WIDTH) or result.why


def assess(record: BuildRecord, path: str) -> tuple[Status, str | None, tuple[Finding, ...]]:
    """Status, kind and findings. ``path`` is where a reader begins to look."""
    if record.ended == "ok":
        return "pass", None, ()
    kind = "timeout" if record.ended == "timeout" else "build_failed"
    message = f"the build ended with {record.ended}: {record.ending}"
    return "fail", kind, (Finding(kind=kind, where=FileWhere(path=path), magnitude=1e12, message=message[:3000]),)


def place(spec: TaskSpec) -> str:
    """Where a reader of a build that failed begins: the build's script, or the first file that it was to leave."""
    commands = spec.commands or Commands()
    return next((part for part in commands.build if "." in part and not part.startswith("-")), next(iter(commands.built), "workspace"))
