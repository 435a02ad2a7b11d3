"""Limits of a whole cage: by cgroup where there is one, else by looking; each with real processes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra_agent.sandbox import accounting, processes
from infra_agent.sandbox.base import Result
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.cgroup import V1, V2
from infra_agent.sandbox.profile import Limits, Profile

SHELL = "sandboxes.runtime.shell"
MANY = "for n in 1 2 3 4 5 6; do python3 -c 'import time; x = bytearray(60 << 20); time.sleep(2)' & done; wait"
SHARED = "python3 -c 'import mmap, time\nx = mmap.mmap(-1, 300 << 20)\nfor n in range(0, 300 << 20, 4096): x[n] = 1\ntime.sleep(1)'"
FILES = "head -c 90M /dev/zero > /tmp/a; head -c 90M /dev/zero > /dev/shm/b; head -c 90M /dev/zero > /ws/c; sleep 1"
PROFILE = Profile(name="small", about="", limits=Limits(memory_mb=200))


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cage]:
    """A cage whose host may make no cgroup, as most users' may not."""
    for kind in (V1, V2):
        monkeypatch.setattr(kind, "make", classmethod(lambda cls, name, own: None))
    cage = Cage(PROFILE)
    yield cage
    cage.close()


@pytest.fixture
def grouped() -> Iterator[Cage]:
    """A cage in a cgroup."""
    if "watchdog" in accounting.mechanism():
        pytest.skip("NOT RUN: this user may not make a control group here")
    cage = Cage(PROFILE)
    yield cage
    cage.close()


def run(cage: Cage, command: str) -> Result:
    return cage.run(SHELL, {"command": command}, timeout_s=20)


@pytest.mark.parametrize("command", [MANY, SHARED, FILES], ids=["many processes", "shared memory", "files in memory"])
def test_the_watchdog_counts_everything(watched: Cage, command: str) -> None:
    result = run(watched, command)
    assert result.ended == "oom" and 200 < result.peak_mb < 400


def test_the_watchdog_lets_the_rest_be(watched: Cage) -> None:
    result = run(watched, "python3 -c 'import time; x = bytearray(80 << 20); time.sleep(0.3)'; echo done")
    assert result.ok and result.text == b"done\n" and 70 < result.peak_mb < 150


@pytest.mark.parametrize("command", [SHARED, FILES], ids=["shared memory", "files in memory"])
def test_a_cgroup_holds_it_to_the_byte(grouped: Cage, command: str) -> None:
    result = run(grouped, f"{command}; exit $?")
    assert result.ended == "oom" and 190 < result.peak_mb <= 201


def test_a_cgroup_counts_the_cpu_of_what_was_killed(grouped: Cage) -> None:
    result = run(grouped, "python3 -c 'while True: pass' & sleep 0.6; echo enough")
    assert result.ok and result.cpu_s > 0.4


def test_a_cgroup_is_gone_with_its_cage() -> None:
    if "v1" not in accounting.mechanism():
        pytest.skip("NOT RUN: no cgroup v1 that this user may write")
    parents = V1._parents(Path("/proc/self"))
    with Cage(PROFILE):
        assert [folder for parent in parents.values() for folder in parent.glob(f"infra-agent-{os.getpid()}-*")]
    assert not [folder for parent in parents.values() for folder in parent.glob(f"infra-agent-{os.getpid()}-*")]


def test_groups_of_a_host_that_was_killed_are_removed() -> None:
    if "v1" not in accounting.mechanism():
        pytest.skip("NOT RUN: no cgroup v1 that this user may write")
    parent = V1._parents(Path("/proc/self"))["pids"]
    gone, own = parent / f"infra-agent-{2**22 + 1}-ab", parent / f"infra-agent-{os.getpid()}-cd"
    gone.mkdir()
    own.mkdir()
    with Cage(PROFILE):
        assert own.is_dir() and not gone.exists()
    own.rmdir()


def test_where_version_two_is_delegated(tmp_path: Path) -> None:
    """A hierarchy as files: the nearest ancestor with both controllers is taken; without one there is none."""
    own, root = tmp_path / "self", tmp_path / "cgroup"
    group = root / "user.slice" / "app.slice" / "shell.scope"
    group.mkdir(parents=True)
    own.mkdir()
    (own / "mountinfo").write_text(f"30 24 0:27 / {root} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n")
    (own / "cgroup").write_text("0::/user.slice/app.slice/shell.scope\n")
    for folder, controllers in ((group, ""), (group.parent, "memory pids"), (group.parents[1], "cpu memory pids")):
        (folder / "cgroup.subtree_control").write_text(controllers)
        (folder / "cgroup.procs").write_text("1\n")
    (group / "cgroup.subtree_control").chmod(0o444)
    assert V2._ancestors(own)[:3] == [group, group.parent, group.parents[1]]
    (own / "cgroup").write_text("1:name=systemd:/\n")
    assert V2.make("g", own) is None


def test_memory_of_a_process_and_its_descendants() -> None:
    exact, most = processes.memory(os.getpid()), processes.resident(os.getpid())
    assert 1 << 20 < exact <= most + (1 << 20)
    assert processes.memory(2**22 + 1) == processes.resident(2**22 + 1) == 0
    assert os.getpid() in processes.descendants(os.getppid())
    assert processes.threads_of(os.getuid()) >= 1
