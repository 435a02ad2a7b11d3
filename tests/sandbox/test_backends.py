"""What every backend does alike, what each level says it does not hold, and how one is picked."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra_agent.errors import ArtefactError, SandboxError, UsageError
from infra_agent.sandbox import choose, direct
from infra_agent.sandbox.backend import environment
from infra_agent.sandbox.base import Result
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.choose import BACKENDS, pick
from infra_agent.sandbox.profile import Limits, Profile
from infra_agent.sandbox.text import excerpt, last_line
from tests.conftest import ROOT, Cli

SHELL = "sandboxes.runtime.shell"


def sh(cage: Cage, command: str, timeout_s: float | None = None) -> Result:
    return cage.run(SHELL, {"command": command}, timeout_s=timeout_s)


def small(**limits: float) -> Profile:
    return Profile(name="small", about="", limits=Limits(**limits))  # type: ignore[arg-type]


def test_output_status_and_use_come_back(cage: Cage) -> None:
    result = sh(cage, "echo out; echo err >&2; head -c 3000000 /dev/zero | sha256sum > sum; exit 3")
    assert (result.ended, result.code, result.why) == ("failed", 3, "exit status 3")
    assert b"out" in result.text and b"err" in result.text
    assert result.wall_s > 0 and result.cpu_s > 0 and result.peak_mb > 1


@pytest.mark.parametrize(("signal", "name"), [("SEGV", "SIGSEGV"), ("ABRT", "SIGABRT"), ("KILL", "SIGKILL")])
def test_a_signal_has_its_name(cage: Cage, signal: str, name: str) -> None:
    result = sh(cage, f"kill -{signal} $$")
    assert (result.ended, result.why, cage.alive) == ("signal", f"killed by {name}", False)


def test_a_timeout_ends_everything_in_time_and_keeps_what_was_said(cage: Cage) -> None:
    marker = f"7654.{os.getpid()}{cage.isolation[0]}".replace("f", "1").replace("p", "2").replace("n", "3")
    began = time.monotonic()
    result = sh(cage, f"echo before; setsid sleep {marker} & sleep {marker}", timeout_s=1.0)
    assert result.ended == "timeout" and result.text == b"before\n" and result.why == "out of time"
    assert time.monotonic() - began < 1.5
    assert subprocess.run(["pgrep", "-x", "-f", f"sleep {marker}"], capture_output=True, check=False).returncode == 1


def test_files_come_out_and_do_not_stay(cage: Cage) -> None:
    sh(cage, "mkdir d; printf '\\0binary' > d/file; ln -s file d/link; touch $TMPDIR/mine")
    assert cage.get("ws/d/file", 100) == b"\0binary"
    with pytest.raises(ArtefactError, match="not a regular file"):
        cage.get("ws/d/link", 100)
    with pytest.raises(ArtefactError, match="7 bytes; 3 are allowed"):
        cage.get("ws/d/file", 3)
    assert sh(cage, "ls; ls $TMPDIR").text == b""
    with pytest.raises(ArtefactError, match="No such file"):
        cage.get("ws/d/file", 100)


def test_standard_input_is_empty_and_nothing_asks(cage: Cage) -> None:
    assert sh(cage, "cat; echo $TERM $PAGER $GIT_TERMINAL_PROMPT; ls -A").text == b"dumb cat 0\n"


def test_the_host_environment_does_not_show(cage: Cage, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = Profile(name="passes", about="", pass_environment=("GIVEN", "ABSENT"))
    monkeypatch.setenv("GIVEN", "shown")
    monkeypatch.setenv("OTHER", "hidden")
    made = environment(profile, "/tmp", "/bin", "/app", (3, 4, 5))
    assert made["GIVEN"] == "shown" and "OTHER" not in made and "ABSENT" not in made
    assert b"CAGE_" not in sh(cage, "env").text, "what PID 1 was told is not for a request"


@pytest.mark.parametrize("name", ["bubblewrap", "landlock", "open"])
def test_out_of_memory_has_its_name(name: str) -> None:
    refusal = BACKENDS[name].refusal()
    if refusal:
        pytest.skip(f"NOT RUN: {refusal}")
    with Cage(small(memory_mb=200), backend=BACKENDS[name]) as cage:
        result = sh(cage, "exec python3 -c 'x = bytearray(400 << 20)'")
        assert (result.ended, result.why) == ("oom", "out of memory")


def test_the_disk_of_a_direct_sandbox_is_watched(landlocked: Cage) -> None:
    with Cage(small(disk_mb=32), backend=BACKENDS["landlock"]) as cage:
        result = sh(cage, "for i in 1 2 3 4 5 6 7 8; do head -c 10M /dev/zero > f$i; sleep 0.1; done")
        assert (result.ended, result.why) == ("disk_limit", "too much written")


def test_each_level_says_what_it_does_not_hold(landlocked: Cage) -> None:
    assert BACKENDS["bubblewrap"].not_held == ()
    assert any("namespaces" in clause for clause in landlocked.notes) and landlocked.isolation == "partial"
    assert BACKENDS["open"].not_held == ("nothing is held: the code runs with this user's rights",)


def test_a_folder_that_landlock_cannot_hide_is_refused(tmp_path: Path) -> None:
    below = next(path for path in Path("/usr/share").iterdir() if path.is_dir())
    with pytest.raises(SandboxError, match="cannot hide"):
        Cage(small(), hidden=(below,), backend=BACKENDS["landlock"])


def test_auto_picks_the_best_and_never_open(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pick("auto").name == "bubblewrap"
    monkeypatch.setattr(choose.Bubblewrap, "refusal", lambda self: "no namespaces here")
    pick.cache_clear()
    assert pick("auto").name == "landlock"
    monkeypatch.setattr(choose.Landlock, "refusal", lambda self: "no landlock either")
    pick.cache_clear()
    with pytest.raises(SandboxError, match="no namespaces here; no landlock either; to run without any, name it: --sandbox open"):
        pick("auto")
    assert pick("open").isolation == "none"
    pick.cache_clear()


def test_an_unknown_backend_lists_the_ones_there_are() -> None:
    with pytest.raises(UsageError, match="auto, bubblewrap, landlock, open"):
        pick("docker")


def test_a_tree_thousands_deep_is_removed(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    code = "import os\nfor _ in range(3000):\n    os.mkdir('d'); os.chdir('d')\nopen('f', 'w').close(); os.chmod('.', 0)"
    subprocess.run([sys.executable, "-c", code], cwd=scratch, check=True)
    (scratch / "link").symlink_to(ROOT)
    direct.empty(scratch)
    assert list(scratch.iterdir()) == [] and (ROOT / "pyproject.toml").exists()


NO_NESTING = 'echo 2 > /proc/sys/user/max_pid_namespaces && exec unshare --user --map-user=1000 --map-group=1000 "$@"'
FLAT = """
import time
from infra_agent.sandbox import choose
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.profile import Profile
choose.pick()
time.sleep(0.3)
cage = Cage(Profile(name="flat", about=""))
print(cage.isolation, cage.notes)
for command in (
    "touch /tmp/a /ws/b /dev/shm/c; (setsid sleep 61 >/dev/null 2>&1 &); kill -INT 1; kill -9 1; cat /proc/1/mem /proc/1/environ;"
    "echo left",
    "ls /tmp /ws /dev/shm; ps -e -o comm=; grep CapEff /proc/self/status",
):
    print(cage.run("sandboxes.runtime.shell", {"command": command}).text.decode())
cage.close()
"""


def test_where_nesting_is_refused_requests_are_killed_and_wiped() -> None:
    """A user namespace that may make no more pid namespaces than the cage itself needs: the refusal is the kernel's."""
    argv = ["unshare", "--user", "--map-root-user", "sh", "-c", NO_NESTING, "sh", sys.executable, "-c", FLAT]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    note, _, rest = done.stdout.partition("\n")
    assert note == 'full ("requests share the cage\'s namespaces and are kept apart by killing and wiping",)'
    first, _, second = rest.partition("left\n")
    assert first.count("Permission denied") == 2
    assert "sleep" not in second and second.split()[-1] == "0" * 16
    assert not {"a", "b", "c"} & set(second.split())


def test_an_excerpt_has_head_tail_and_the_end_of_a_traceback() -> None:
    many = "\n".join(f"line {n}" for n in range(500))
    trace = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    boom()\nValueError: what went wrong'
    shown = excerpt(f"{many}\n{trace}\n{many}".encode())
    lines = shown.splitlines()
    assert lines[0] == "line 0" and lines[-1] == "line 499" and "ValueError: what went wrong" in lines
    assert any("lines left out" in line for line in lines) and len(lines) < 80
    assert excerpt(b"x" * 1000 + b"\n\xff", widest=10) == "xxxxxxxxxx (+990 characters)\n\ufffd"
    assert excerpt(b"") == "" and last_line(b"\n") == "no output" and last_line(b"a\nb\n\n") == "b"


def test_an_unknown_sandbox_is_bad_use(cli: Cli) -> None:
    done = cli("run", "kda-cp-tf32", "--sandbox", "docker")
    assert done.returncode == 2 and "there are: auto, bubblewrap, landlock, open" in done.stderr
