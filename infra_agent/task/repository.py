"""The repository a task's patches apply to: git by its command line, bytes in and out, no working tree.

A task's ``workspace/`` is imported into a bare repository at first use. The import commit has a fixed author and
date, so that the same workspace gives the same base commit everywhere.
"""

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from infra_agent.errors import JudgedError, UsageError
from infra_agent.task.load import Task
from infra_agent.task.tree import Tree, read_folder

_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "infra-agent",
    "GIT_AUTHOR_EMAIL": "infra-agent@localhost",
    "GIT_COMMITTER_NAME": "infra-agent",
    "GIT_COMMITTER_EMAIL": "infra-agent@localhost",
    "LC_ALL": "C",
}
_IMPORT_DATE = "2026-01-01T00:00:00 +0000"
BRANCH = "main"


class PatchError(UsageError):
    """A patch that git cannot apply at its base."""


class ConflictError(JudgedError):
    """A change that cannot be merged cleanly onto the branch."""


class Repository:
    """A bare git repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(
        self,
        *arguments: str,
        stdin: bytes = b"",
        index: Path | None = None,
        dates: str | None = None,
        also: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run git; returns its output. ``also``: more of an environment. Raises UsageError with git's last line when it fails."""
        done = self._run(*arguments, stdin=stdin, index=index, dates=dates, also=also)
        if done.returncode:
            text = done.stderr.decode(errors="replace").strip().splitlines()
            raise UsageError(f"git {arguments[0]}: {text[-1] if text else f'exit {done.returncode}'}")
        return done.stdout

    def _run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        index: Path | None = None,
        dates: str | None = None,
        also: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), **_ENVIRONMENT, **(also or {})}
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        if dates is not None:
            environment |= {"GIT_AUTHOR_DATE": dates, "GIT_COMMITTER_DATE": dates}
        argv = ["git", "-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", "--git-dir", str(self.folder), *arguments]
        try:
            return subprocess.run(argv, input=stdin, capture_output=True, env=environment, check=False)
        except FileNotFoundError as error:
            raise UsageError("git is missing; install it: apt install git") from error

    def write_tree(self, tree: Tree) -> str:
        """Store files; returns the tree's object id."""
        with tempfile.TemporaryDirectory(prefix="infra-agent-") as scratch:
            paths = sorted(tree)
            for number, path in enumerate(paths):
                (Path(scratch) / str(number)).write_bytes(tree[path])
            listed = "".join(f"{scratch}/{number}\n" for number in range(len(paths)))
            ids = self.git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=listed.encode()).decode().split()
            index = Path(scratch) / "index"
            entries = "".join(f"100644 {blob}\t{path}\0" for blob, path in zip(ids, paths, strict=True))
            self.git("update-index", "-z", "--index-info", stdin=entries.encode(), index=index)
            return self.git("write-tree", index=index).decode().strip()

    def read_tree(self, tree_ish: str) -> dict[str, bytes]:
        """Regular files of a commit or tree."""
        listed = self.git("ls-tree", "-r", "-z", tree_ish).split(b"\0")
        files = {}
        for entry in filter(None, listed):
            meta, path = entry.split(b"\t", 1)
            mode, kind, blob = meta.decode().split()
            if kind == "blob" and mode in ("100644", "100755"):
                files[path.decode(errors="backslashreplace")] = self.git("cat-file", "blob", blob)
        return files

    def commit_tree(self, tree: str, parents: list[str], message: str, dates: str | None = None) -> str:
        """Create a commit object; no reference moves."""
        flags = [flag for parent in parents for flag in ("-p", parent)]
        return self.git("commit-tree", tree, *flags, stdin=message.encode(), dates=dates).decode().strip()

    def diff(self, base: str, tree: str) -> bytes:
        """The patch from ``base`` to ``tree``: binary-safe, full object ids, no renames."""
        return self.git("diff", "--binary", "--full-index", "--no-renames", "--no-color", "--no-ext-diff", base, tree)

    def apply(self, base: str, patch: bytes, *how: str) -> str:
        """The tree that ``patch`` makes of ``base``, through a scratch index. ``how``: options. Raises PatchError with git's reason."""
        with tempfile.TemporaryDirectory(prefix="infra-agent-") as scratch:
            index = Path(scratch) / "index"
            self.git("read-tree", base, index=index)
            if not patch.strip():  # a patch that changes nothing applies; git apply calls it corrupt
                return self.git("write-tree", index=index).decode().strip()
            try:
                self.git("apply", "--cached", "--binary", "--whitespace=nowarn", *how, "-", stdin=patch, index=index)
            except UsageError as error:
                raise PatchError(f"the patch does not apply at {base[:12]}: {error}") from error
            return self.git("write-tree", index=index).decode().strip()

    def merge(self, head: str, commit: str) -> str:
        """The tree of a clean three-way merge. Raises ConflictError naming the conflicting paths."""
        done = self._run("merge-tree", "--write-tree", "--name-only", "--no-messages", head, commit)
        lines = done.stdout.decode(errors="replace").split()
        if done.returncode:
            raise ConflictError(
                f"{commit[:12]} conflicts with {head[:12]} in: {', '.join(lines[1:]) or done.stderr.decode(errors='replace').strip()}"
            )
        return lines[0]

    def tree_of(self, commit: str) -> str:
        """The tree of a commit."""
        return self.git("rev-parse", f"{commit}^{{tree}}").decode().strip()

    def message(self, commit: str) -> str:
        """The message of a commit."""
        return self.git("show", "--no-patch", "--format=%B", commit).decode(errors="replace")

    def contains(self, head: str, commit: str) -> bool:
        """True when ``commit`` is an ancestor of ``head``."""
        return self._run("merge-base", "--is-ancestor", commit, head).returncode == 0

    def branch(self, name: str) -> str | None:
        """The commit a branch points at; None when there is no such branch. Raises UsageError for a name git refuses."""
        if self._run("check-ref-format", f"refs/heads/{name}").returncode or name.startswith("-"):
            raise UsageError(f"'{name}' is not a branch name")
        done = self._run("rev-parse", "--verify", "--quiet", f"refs/heads/{name}^{{commit}}")
        return done.stdout.decode().strip() or None

    def move_branch(self, name: str, new: str, old: str | None) -> None:
        """Move a branch if it still points at ``old`` (None: if it does not exist)."""
        self.git("update-ref", f"refs/heads/{name}", new, old or "0" * 40)


def for_task(task: Task, home: Path) -> tuple[Repository, str]:
    """The task's repository under ``home``, made at first use, and the base commit of its workspace."""
    repository = Repository(home / "repos" / f"{task.spec.id}.git")
    repository.folder.mkdir(parents=True, exist_ok=True)
    with open(repository.folder.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two first runs at once
        if not (repository.folder / "HEAD").is_file():
            repository.git("init", "--quiet", "--bare", f"--initial-branch={BRANCH}")
        tree = repository.write_tree(read_folder(task.workspace))
        base = repository.commit_tree(tree, [], f"Import the workspace of {task.spec.id}\n", dates=_IMPORT_DATE)
        if repository.branch(BRANCH) is None:
            repository.move_branch(BRANCH, base, None)
    return repository, base
