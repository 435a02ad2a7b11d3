"""Patches as bytes through real git."""

from pathlib import Path

import pytest

from infra_agent.task.patch import changes
from infra_agent.task.repository import ConflictError, PatchError, Repository, for_task
from infra_agent.task.tree import digest, matches, pack, read_folder
from tests.support import ENTRY, RIGHT, rows_task

AWKWARD = {
    "crlf.txt": b"one\r\ntwo\r\n",
    "latin.txt": b"caf\xe9\n",
    "binary.bin": bytes(range(256)) * 4,
    "no-newline": b"end",
    "space in name.txt": b"x\n",
    "ünï.txt": b"y\n",
}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "r.git")
    made.folder.mkdir()
    made.git("init", "-q", "--bare", "--initial-branch=main")
    return made


def test_awkward_bytes_survive_diff_and_apply(repository: Repository) -> None:
    base = repository.commit_tree(repository.write_tree({"a.txt": b"a\n"}), [], "base\n")
    patch = repository.diff(base, repository.write_tree({"a.txt": b"a\n", **AWKWARD}))
    assert repository.read_tree(repository.apply(base, patch)) == {"a.txt": b"a\n", **AWKWARD}
    assert {change.path for change in changes(patch)} == set(AWKWARD)
    again = repository.commit_tree(repository.write_tree({**AWKWARD}), [], "base\n")
    back = repository.diff(again, repository.write_tree({k: v + b"\x00more\r" for k, v in AWKWARD.items()}))
    assert repository.read_tree(repository.apply(again, back)) == {k: v + b"\x00more\r" for k, v in AWKWARD.items()}


def test_a_patch_that_does_not_apply_says_where(repository: Repository) -> None:
    base = repository.commit_tree(repository.write_tree({"a.txt": b"a\n"}), [], "base\n")
    other = repository.commit_tree(repository.write_tree({"a.txt": b"z\n"}), [], "other\n")
    patch = repository.diff(other, repository.write_tree({"a.txt": b"y\n"}))
    with pytest.raises(PatchError, match=r"a\.txt"):
        repository.apply(base, patch)
    with pytest.raises(PatchError):
        repository.apply(base, b"not a patch at all")


def test_kinds_modes_and_counts(repository: Repository) -> None:
    base = repository.commit_tree(repository.write_tree({"a": b"1\n2\n", "b": b"x\n"}), [], "base\n")
    found = {c.path: c for c in changes(repository.diff(base, repository.write_tree({"a": b"1\n3\n4\n", "c": b"n\n"})))}
    assert {path: change.kind for path, change in found.items()} == {"a": "changed", "b": "deleted", "c": "added"}
    assert (found["a"].added, found["a"].removed, found["a"].added_lines) == (2, 1, (b"3", b"4"))
    assert found["c"].modes == ("100644",)


def test_merge_is_three_way_and_conflicts_are_named(repository: Repository) -> None:
    base = repository.commit_tree(repository.write_tree({"a": b"1\n", "b": b"1\n"}), [], "base\n")
    ours = repository.commit_tree(repository.write_tree({"a": b"2\n", "b": b"1\n"}), [base], "ours\n")
    theirs = repository.commit_tree(repository.write_tree({"a": b"1\n", "b": b"2\n"}), [base], "theirs\n")
    clash = repository.commit_tree(repository.write_tree({"a": b"3\n", "b": b"1\n"}), [base], "clash\n")
    assert repository.read_tree(repository.merge(ours, theirs)) == {"a": b"2\n", "b": b"2\n"}
    with pytest.raises(ConflictError, match=r"conflicts with \w+ in: a$"):
        repository.merge(ours, clash)


def test_the_same_workspace_has_the_same_base_everywhere(tmp_path: Path) -> None:
    task = rows_task(tmp_path)
    first, base = for_task(task, tmp_path / "one")
    _, again = for_task(task, tmp_path / "two")
    assert base == again and first.branch("main") == base
    assert first.read_tree(base)["rows/entry.py"] == ENTRY.encode()


def test_trees_are_plain_data(tmp_path: Path) -> None:
    task = rows_task(tmp_path)
    (task.workspace / "link").symlink_to("/etc/passwd")
    tree = read_folder(task.workspace)
    assert "link" not in tree and "rows/entry.py" in tree
    assert pack(tree) == pack(dict(reversed(tree.items()))) and digest(tree) != digest({**tree, "rows/entry.py": RIGHT.encode()})


@pytest.mark.parametrize(
    ("path", "globs", "expected"),
    [
        ("kda/a.py", ("kda/**",), True),
        ("kda/x/a.py", ("kda/**",), True),
        ("kdb/a.py", ("kda/**",), False),
        ("a.py", ("*.py",), True),
        ("kda", ("kda/**",), False),
    ],
)
def test_globs(path: str, globs: tuple[str, ...], expected: bool) -> None:
    assert matches(path, globs) is expected
