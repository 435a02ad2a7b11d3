"""Profiles: data that is checked when it is read, and does what it says."""

import os
from pathlib import Path

import pytest

from infra_agent import instruments, share
from infra_agent.errors import UsageError
from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.sandbox import profile as profiles
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.profile import Limits, Profile, load
from tests.support import rows_task

SHELL = "sandboxes.runtime.shell"
TRACE = """
import ctypes, os, signal
child = os.fork()
if child == 0:
    signal.pause()
print("traced" if ctypes.CDLL(None).ptrace(16, child, None, None) == 0 else "refused")
os.kill(child, 9)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root with profiles of the test's own."""
    for name in ("sandboxes", "feedback"):
        (tmp_path / name).symlink_to(share.root() / name) if name == "feedback" else (tmp_path / name).mkdir()
    monkeypatch.setattr(profiles.share, "root", lambda: tmp_path)
    load.cache_clear()
    yield tmp_path / "sandboxes"
    load.cache_clear()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("about = 'x'\nmemory = 3", "memory"),
        ("about = 'x'\n[limits]\nmemory_mb = 0", "memory_mb"),
        ("about = 'x'\n[limits]\nfork_bombs = 1", "fork_bombs"),
        ("about = 'x'\ndevices = ['/etc/shadow']", "does not lie under /dev/"),
        ("about = 'x'\ndevices = ['/dev/../etc/shadow']", "does not lie under /dev/"),
        ("about = 'x'\n[mounts]\n'relative' = '/usr'", "not an absolute place"),
        ("about = 'x'\nptrace = 'maybe'", "ptrace"),
        ("about = ", "Invalid value"),
    ],
)
def test_a_wrong_profile_names_its_file_and_key(folder: Path, text: str, said: str) -> None:
    (folder / "wrong.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        load("wrong")
    assert str(folder / "wrong.toml") in str(caught.value) and said in str(caught.value)


@pytest.mark.parametrize("path", sorted(Path(share.root(), "sandboxes").glob("*.toml")), ids=lambda path: path.stem)
def test_the_shipped_profiles_are_sound(path: Path) -> None:
    profile = load(path.stem)
    assert profile.about and not profile.devices
    assert profile.ptrace is (path.stem == "observe"), "for profilers only: the collector refuses it to evidence that a gate reads"


def test_mounts_are_read_only_and_where_it_says(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # on a root host the cage is another uid
    (tmp_path / "data").write_text("given")
    with Cage(Profile(name="m", about="", mounts={"/opt/deep/given": tmp_path})) as cage:
        assert cage.place("/opt/deep/given") == "/opt/deep/given"
        result = cage.run(SHELL, {"command": "cat /opt/deep/given/data; touch /opt/deep/given/mine"})
    assert result.text.startswith(b"given") and b"Read-only file system" in result.text


def test_devices_are_those_the_profile_names() -> None:
    command = "ls /dev | tr '\\n' ' '; head -c 4 /dev/hwrng >/dev/null 2>&1; test -d /sys/class && echo sys"
    with Cage(Profile(name="d", about="")) as cage:
        assert b"sys" not in cage.run(SHELL, {"command": command}).text.split()
    with Cage(Profile(name="d", about="", devices=("/dev/kms*",))) as cage:
        text = cage.run(SHELL, {"command": command}).text.split()
    assert (b"kmsg" in text) == os.path.exists("/dev/kmsg")  # noqa: PTH110 - a device of the host


def test_only_a_profile_that_says_so_allows_ptrace() -> None:
    for allowed in (False, True):
        with Cage(Profile(name="t", about="", ptrace=allowed)) as cage:
            said = cage.run(SHELL, {"command": f"python3 -c '{TRACE}'"}).text
        assert said == (b"traced\n" if allowed else b"refused\n")


def test_evidence_that_a_gate_reads_is_not_made_where_ptrace_is_allowed(folder: Path, tmp_path: Path) -> None:
    """The accuracy instrument's own profile, with ptrace: it must not even start."""
    (folder / "triton-interpret.toml").write_text("about = 'x'\nptrace = true")
    collector = Collector.__new__(Collector)  # the rule alone: no cage can start from a root without a worker
    collector.platform = "cpu-emulated"
    with pytest.raises(UsageError, match="evidence of kind 'tensors' is read by gates"):
        collector.cages(instruments.load("accuracy"))


def test_limits_of_a_profile_hold_in_its_cage() -> None:
    limits = Limits(file_size_mb=1, processes=12, disk_mb=8, inodes=50, output_mb=1, wall_s=20)
    with Cage(Profile(name="l", about="", limits=limits)) as cage:
        said = cage.run(SHELL, {"command": "head -c 2M /dev/zero > big; for n in $(seq 60); do : > f$n; done; ulimit -u"}).text.decode()
    assert "File size limit exceeded" in said or "File too large" in said
    assert "No space left on device" in said and said.split()[-1] == "12"


def test_a_collector_of_another_backend_says_its_isolation(tmp_path: Path) -> None:
    with Collector(rows_task(tmp_path), seeds.new_secret(), "open") as collector:
        assert collector.isolation == "none"
