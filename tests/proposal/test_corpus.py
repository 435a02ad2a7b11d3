"""Patches of every shape that git knows: propose, approve, merge gives the very tree, or a refusal that says why; clones are left alone."""

import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra_agent.errors import JudgedError
from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.proposal import approval
from infra_agent.proposal.merge import Target, merge
from infra_agent.proposal.store import find_proposal
from infra_agent.task.repository import Repository, for_task
from tests.proposal.recorded import copied, proposed, session_of
from tests.support import RIGHT, rows_task

OLD = "old.txt was deleted before\n"
BASE_FILES = {
    "rows/__init__.py": b"",
    "rows/entry.py": RIGHT.encode(),
    "rows/crlf.txt": b"one\r\ntwo\r\nthree\r\n",
    "rows/latin.txt": "caf\u00e9\n".encode("latin-1"),
    "rows/wide.txt": "wide\n".encode("utf-16"),
    "rows/plain.txt": b"1\n2\n3\n",
    "rows/unended.txt": b"1\n2",
    "rows/folder/inner.txt": b"inner\n",
    "rows/upper.flt": b"text\n",
    "rows/win.win": b"a\r\nb\r\n",
    "rows/Case.txt": b"case\n",
    "rows/pointer.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 3\n",
    ".gitattributes": b"*.flt filter=upper\n*.win text eol=crlf\n",
    "setup.py": b"x = 1\n",
}
Change = Callable[[Path], None]


@dataclass(frozen=True)
class Clone:
    """A person's own clone, with real git and a real index."""

    folder: Path

    def git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        argv = [
            "git",
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@b",
            "-c",
            "core.autocrlf=false",
            "-c",
            "protocol.file.allow=always",
            *arguments,
        ]
        return subprocess.run(argv, cwd=self.folder, input=stdin, capture_output=True, check=True).stdout

    def digest(self) -> str:
        """Of every file, mode and link, the index among them."""
        found = hashlib.sha256()
        for path in sorted(p for p in self.folder.rglob("*") if "objects" not in p.parts):
            data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            found.update(repr((os.fsencode(path), path.lstat().st_mode, data)).encode())
        return found.hexdigest()


def write(name: str, data: bytes) -> Change:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)

    return change


def _rename(folder: Path) -> None:
    (folder / "rows/plain.txt").rename(folder / "rows/renamed.txt")


def _case(folder: Path) -> None:
    (folder / "rows/Case.txt").rename(folder / "rows/case.txt")


def _file_to_folder(folder: Path) -> None:
    (folder / "rows/plain.txt").unlink()
    write("rows/plain.txt/inside.txt", b"in\n")(folder)


def _folder_to_file(folder: Path) -> None:
    (folder / "rows/folder/inner.txt").unlink()
    (folder / "rows/folder").rmdir()
    write("rows/folder", b"a file now\n")(folder)


def _executable(folder: Path) -> None:
    write("rows/run.sh", b"#!/bin/sh\n")(folder)
    (folder / "rows/run.sh").chmod(0o755)


def _two(folder: Path) -> None:
    write("rows/plain.txt", b"1\n2\n3\n4\n")(folder)
    (folder / "rows/latin.txt").unlink()


MERGED: dict[str, Change] = {
    "crlf": write("rows/crlf.txt", b"one\r\n2\r\nthree\r\n"),
    "crlf-to-lf": write("rows/crlf.txt", b"one\ntwo\nthree\n"),
    "lone-cr": write("rows/crlf.txt", b"one\rtwo\r\nthree\r\n"),
    "latin-1": write("rows/latin.txt", "caf\u00e9s\n".encode("latin-1")),
    "rename": _rename,
    "copy": write("rows/copy.txt", b"1\n2\n3\n"),
    "executable-added": _executable,
    "empty-added": write("rows/nothing.txt", b""),
    "emptied": write("rows/plain.txt", b""),
    "deleted": lambda folder: (folder / "rows/plain.txt").unlink(),
    "newline-at-end-lost": write("rows/plain.txt", b"1\n2\n3"),
    "newline-at-end-won": write("rows/unended.txt", b"1\n2\n"),
    "no-newline-either": write("rows/unended.txt", b"1\n3"),
    "file-to-folder": _file_to_folder,
    "folder-to-file": _folder_to_file,
    "case-only-rename": _case,
    "unicode-name": write("rows/\u00fcn\u00efc\u00f6de \u6587.txt", b"x\n"),
    "blank-in-name": write("rows/with blank.txt", b"x\n"),
    "deleted-then-added-again": write("rows/old.txt", OLD.encode()),
    "filtered": write("rows/upper.flt", b"other text\n"),
    "eol-attribute": write("rows/win.win", b"a\r\nc\r\n"),
    "lfs-pointer": write("rows/pointer.bin", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"1" * 64 + b"\nsize 4\n"),
    "line-of-5-megabytes": write("rows/long.txt", b"x" * 5_000_000 + b"\n"),
    "looks-like-a-patch": write("rows/plain.txt", b"--- a/x\n+++ b/y\n@@ -1 +1 @@\ndiff --git a/x b/x\n+1\n"),
    "two-files": _two,
}
REFUSED: dict[str, tuple[Change, str]] = {
    "utf-16": (write("rows/wide.txt", "wider\n".encode("utf-16")), "is binary: nobody can review it"),
    "binary-added": (write("rows/new.bin", bytes(range(256))), "is binary: nobody can review it"),
    "mode": (lambda folder: (folder / "rows/plain.txt").chmod(0o755), "changes its mode (100644 to 100755)"),
    "symlink": (lambda folder: (folder / "rows/link").symlink_to("/etc/passwd"), "is not a regular file (mode 120000)"),
    "symlink-loop": (lambda folder: (folder / "rows/loop").symlink_to("loop"), "is not a regular file (mode 120000)"),
    "newline-in-name": (write("rows/new\nline.txt", b"x\n"), "is not a plain path"),
    "backslash-in-name": (write("rows/back\\slash.txt", b"x\n"), "is not a plain path"),
    "attributes": (write(".gitattributes", b"* -text\n"), "decides what else runs"),
    "outside": (write("setup.py", b"x = 2\n"), "outside the edit scope"),
    "protected-test": (write("tests/conftest.py", b"x = 2\n"), "decides what else runs"),
}
RAW: dict[str, tuple[str, str]] = {
    "path-escape": ("rows/../../outside.txt", "does not apply"),
    "absolute-path": ("/etc/outside.txt", "does not apply"),
    "hook": (".git/hooks/pre-commit", "does not apply"),
    "nested-repository": ("rows/sub/.git/config", "does not apply"),
    "dot-git-in-capitals": ("rows/sub/.GIT/config", "does not apply"),
}


@dataclass(frozen=True)
class World:
    """What all shapes share: a home with one real session, a clone with the base commit, warm cages."""

    home: Path
    like: str
    clone: Clone
    base: str
    collector: Collector


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("corpus")
    home = folder / "home"
    task = rows_task(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INFRA_AGENT_HOME", str(home))
        like, _ = session_of(task, home)
    clone = Clone(folder / "clone")
    clone.folder.mkdir()
    clone.git("init", "--quiet", "--initial-branch=main")
    write("rows/old.txt", OLD.encode())(clone.folder)
    clone.git("add", "-A")
    clone.git("commit", "--quiet", "-m", "first")
    (clone.folder / "rows/old.txt").unlink()
    for name, data in BASE_FILES.items():
        write(name, data)(clone.folder)
    clone.git("add", "-A")
    clone.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},rows/module")
    clone.git("commit", "--quiet", "-m", "base")
    base = clone.git("rev-parse", "HEAD").decode().strip()
    repository, _ = for_task(task, home)
    repository.git("fetch", "--quiet", str(clone.folder), "+main:refs/heads/main")
    with Collector(task, seeds.new_secret()) as collector:
        yield World(home, like, clone, base, collector)


def staged(clone: Clone, base: str, change: Change) -> tuple[bytes, str]:
    """The patch of a change as a person's git makes it, and the tree it makes; the clone is at base again afterwards."""
    try:
        change(clone.folder)
        clone.git("add", "-A", ":(exclude)rows/module")
        patch = clone.git("diff", "--cached", "--binary", "--full-index", base)
        return patch, clone.git("write-tree").decode().strip()
    finally:
        clone.git("reset", "--quiet", "--hard", base)
        clone.git("clean", "-qfdx")


def judged(world: World, home: Path, patch: bytes) -> str:
    copied(world.home, home)
    repository = Repository(home / "repos" / "rows.git")
    return proposed(world.like, home, world.collector, repository, world.base, patch, 1)


@pytest.mark.parametrize("shape", MERGED)
def test_merged_as_it_was_proposed(world: World, home: Path, shape: str) -> None:
    patch, tree = staged(world.clone, world.base, MERGED[shape])
    assert patch.strip(), "the shape changes something"
    before = world.clone.digest()
    identity = judged(world, home, patch)
    proposal = find_proposal(identity)
    assert proposal.state == "passed", [c for c in proposal.verdict.verdict.checks if c.status != "pass"] if proposal.verdict else None
    approval.decide(identity, "approve", "A Reviewer", "as wanted")
    merged = merge(identity, Target(home))
    repository = Repository(home / "repos" / "rows.git")
    assert repository.tree_of(merged.commit) == tree
    assert repository.git("rev-parse", f"{merged.commit}^").decode().strip() == world.base
    assert world.clone.digest() == before


def refused(world: World, home: Path, patch: bytes, why: str) -> None:
    before = world.clone.digest()
    identity = judged(world, home, patch)
    proposal = find_proposal(identity)
    assert proposal.state == "failed" and proposal.verdict
    assert why in next(check.message for check in proposal.verdict.verdict.checks if check.status == "fail")
    with pytest.raises(JudgedError, match="only a proposal that passed"):
        approval.decide(identity, "approve", "A Reviewer", "no")
    repository = Repository(home / "repos" / "rows.git")
    assert repository.branch("main") == world.base and world.clone.digest() == before


@pytest.mark.parametrize("shape", REFUSED)
def test_refused_for_its_shape(world: World, home: Path, shape: str) -> None:
    change, why = REFUSED[shape]
    refused(world, home, staged(world.clone, world.base, change)[0], why)


@pytest.mark.parametrize("shape", RAW)
def test_paths_that_git_itself_would_not_write(world: World, home: Path, shape: str) -> None:
    path, why = RAW[shape]
    patch = f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    refused(world, home, patch.encode(), why)


def test_a_submodule_is_not_moved(world: World, home: Path) -> None:
    gone = world.clone.git("update-index", "--cacheinfo", f"160000,{'2' * 40},rows/module")
    patch = world.clone.git("diff", "--cached", "--binary", "--full-index", "--submodule=short", world.base)
    world.clone.git("reset", "--quiet", "--hard", world.base)
    assert not gone and patch
    refused(world, home, patch, "is not a regular file (mode 160000)")


def test_a_name_that_is_not_utf8(world: World, home: Path) -> None:
    def change(folder: Path) -> None:
        Path(os.fsdecode(os.fsencode(folder) + b"/rows/\xff.txt")).write_bytes(b"x\n")

    refused(world, home, staged(world.clone, world.base, change)[0], "is not a plain path")


def test_a_patch_of_another_base(world: World, home: Path) -> None:
    head = b"diff --git a/rows/plain.txt b/rows/plain.txt\n--- a/rows/plain.txt\n+++ b/rows/plain.txt\n"
    patch = head + b"@@ -1,3 +1,3 @@\n 1\n-not there\n+x\n 3\n"
    refused(world, home, patch, "does not apply")


def test_there_are_many_shapes() -> None:
    assert len(MERGED) + len(REFUSED) + len(RAW) + 3 >= 25
