"""What a cage holds, tried from inside a real one. The cage issue grows this into a suite of attacks."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra_agent.errors import SandboxError, UsageError
from infra_agent.sandbox import processes
from infra_agent.sandbox.base import Result
from infra_agent.sandbox.bubblewrap import _covers
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.mapping import GUARD, Mappings, plan
from infra_agent.sandbox.pool import CagePool
from infra_agent.sandbox.profile import Profile, load

SHELL = "sandboxes.runtime.shell"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pool() -> Iterator[CagePool]:
    made = CagePool("reference")
    yield made
    made.close()


def sh(pool: CagePool, command: str, timeout_s: float | None = None) -> Result:
    with pool.cage() as cage:
        return cage.run(SHELL, {"command": command}, timeout_s=timeout_s)


def text(result: Result) -> str:
    return result.text.decode()


def test_a_request_answers_with_its_output_and_status(pool: CagePool) -> None:
    result = sh(pool, "echo out; echo err >&2; exit 3")
    assert (result.ended, result.code) == ("failed", 3)
    assert "out" in text(result) and "err" in text(result)
    assert result.wall_s > 0 and result.peak_mb > 1


def test_no_capability_is_left(pool: CagePool) -> None:
    said = text(sh(pool, "grep -E 'CapEff|CapPrm|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status"))
    assert said.split() == ["CapPrm:", "0" * 16, "CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1", "Seccomp:", "2"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only a root host maps the cage to another uid")
def test_on_a_root_host_the_cage_is_another_uid() -> None:
    cage = Cage(load("reference"))
    assert cage._started
    owner = next(line for line in Path(f"/proc/{cage._started.pid1}/status").read_text().splitlines() if line.startswith("Uid:"))
    cage.close()
    assert all(600_000 <= int(uid) < 600_000 + 64 * 500_000 for uid in owner.split()[1:])


@pytest.mark.parametrize(
    "attempt",
    [
        "mount -t tmpfs x /tmp",
        "unshare -U true",
        "cat /proc/1/environ",
        "cat /proc/1/mem",
        "echo 0 > /proc/sys/kernel/randomize_va_space",
        "touch /usr/mine",
        "touch /app/feedback/mine",
        "cat /etc/shadow",
        "taskset -p 3 $$",
    ],
)
def test_refused(pool: CagePool, attempt: str) -> None:
    assert sh(pool, attempt).code not in (0, 127), attempt


def test_pid_1_ignores_signals_from_inside(pool: CagePool) -> None:
    assert text(sh(pool, "kill -9 1; kill -INT 1; sleep 0.2; echo alive")).strip().endswith("alive")


def test_no_network(pool: CagePool) -> None:
    said = text(sh(pool, "cat /proc/net/dev; exec 3<>/dev/tcp/127.0.0.1/9"))
    assert [line.split(":")[0].strip() for line in said.splitlines() if ":" in line and "bytes" not in line][:1] == ["lo"]
    assert "refused" in said or "unreachable" in said


def test_the_environment_is_cleared(pool: CagePool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "a-secret-of-the-host")
    fresh = CagePool("reference")
    assert "a-secret-of-the-host" not in text(sh(fresh, "env; cat /proc/self/environ"))
    fresh.close()


def test_nothing_survives_to_the_next_request(pool: CagePool) -> None:
    with pool.cage() as cage:
        first = cage.run(SHELL, {"command": "touch /tmp/a /ws/b /dev/shm/c; (setsid sleep 61 >/dev/null 2>&1 &) ; echo left"})
        second = cage.run(SHELL, {"command": "ls /tmp /ws /dev/shm; ps -e -o comm="})
    assert first.ok and "left" in text(first)
    assert not {"a", "b", "c", "sleep"} & set(text(second).split())


def test_a_timeout_ends_everything_and_keeps_what_was_said(pool: CagePool) -> None:
    began = time.monotonic()
    result = sh(pool, "echo before; setsid sleep 4321.5 & sleep 4321.5", timeout_s=1.0)
    assert result.ended == "timeout" and "before" in text(result)
    assert time.monotonic() - began < 10
    assert not running("sleep 4321.5")


HOST = """
import sys, threading, time
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.profile import load
cages = []
for busy in (True, False):
    started = threading.Thread(target=lambda: cages.append(Cage(load("reference"))))
    started.start()
    started.join()
    if busy:
        threading.Thread(target=cages[0].run, args=("sandboxes.runtime.shell", {"command": "sleep 8765.5"}), daemon=True).start()
print(*[cage._started.pid1 for cage in cages], flush=True)
time.sleep(60)
"""


def running(command: str) -> bool:
    """Is there a live process with exactly this command line?"""
    return subprocess.run(["pgrep", "-x", "-f", command], capture_output=True, check=False).returncode == 0


def test_a_killed_host_leaves_nothing_alive() -> None:
    """SIGKILL gives the host no chance to clean up: PID 1 notices that the judge's socket closed, busy or idle."""
    with subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True, cwd=ROOT) as host:
        assert host.stdout
        pids = [int(word) for word in host.stdout.readline().split()]
        deadline = time.monotonic() + 20
        while not running("sleep 8765.5") and time.monotonic() < deadline:
            time.sleep(0.05)
        assert running("sleep 8765.5")
        host.kill()
    while (running("sleep 8765.5") or processes.alive(set(pids))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running("sleep 8765.5") and not processes.alive(set(pids))


def test_a_cage_outlives_the_thread_that_started_it() -> None:
    started: list[Cage] = []
    thread = threading.Thread(target=lambda: started.append(Cage(load("reference"))))
    thread.start()
    thread.join()
    time.sleep(0.3)
    assert started[0].run(SHELL, {"command": "true"}).ok
    started[0].close()


def test_a_killed_child_is_a_signal_and_costs_the_cage(pool: CagePool) -> None:
    with pool.cage() as cage:
        result = cage.run(SHELL, {"command": "kill -9 $PPID"})
        assert (result.ended, result.code, cage.alive) == ("signal", 137, False)
    assert sh(pool, "true").ok


def test_endless_output_is_cut(pool: CagePool) -> None:
    result = sh(pool, "yes")
    assert result.ended == "output_limit" and len(result.text) <= 4 << 20


def test_memory_is_limited() -> None:
    profile = Profile(name="small", about="", in_mb=16, out_mb=32, limits={"address_space_mb": 1024})  # type: ignore[arg-type]
    cage = Cage(profile)
    result = cage.run(SHELL, {"command": "python3 -c 'x = bytearray(3 << 30)'"})
    cage.close()
    assert result.code == 1 and "MemoryError" in text(result)


def test_a_profile_that_starts_threads_is_refused() -> None:
    """A fork after threads may hang: better no cage than one that hangs now and then."""
    threads = Profile(name="threads", about="", preload=("numpy",), environment={"OPENBLAS_NUM_THREADS": "2"})
    with pytest.raises(SandboxError, match="preloading started 2 threads"):
        Cage(threads)


def test_the_disk_is_limited(pool: CagePool) -> None:
    assert "No space left" in text(
        sh(pool, "ulimit -f unlimited 2>/dev/null; for i in 1 2 3 4 5; do head -c 200M /dev/zero > /tmp/f$i; done")
    )


def test_inodes_are_limited(pool: CagePool) -> None:
    assert "No space left" in text(sh(pool, "cd /tmp && seq 1 30000 | xargs touch 2>&1 | tail -1"))


def test_the_input_mapping_cannot_be_written() -> None:
    """Sealed: even a process that reopened the memory could not change what the host wrote, nor could it grow."""
    memory = Mappings("p", {}, {"x": b"held"}, plan({}, 1 << 16), (1 << 20, 1 << 20))
    with pytest.raises(PermissionError):
        os.pwrite(memory.in_fd, b"x", 0)
    for descriptor in (memory.in_fd, memory.out_fd):
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, 1 << 21)
    memory.close()


def test_a_request_larger_than_its_profile_is_refused() -> None:
    with pytest.raises(SandboxError, match="a request needs 2 MiB in and 0 MiB out; the profile allows 1 and 1"):
        Mappings("p", {}, {"x": bytes(2 << 20)}, plan({}, 1 << 16), (1 << 20, 1 << 20))


def test_hidden_folders_are_covered_wherever_they_lie(tmp_path: Path) -> None:
    """A checkout under /usr, or a virtual environment made in the checkout, would show a judge to its candidates."""
    below = Path("/usr/share/doc")
    assert _covers((below, tmp_path), {}) == ["--tmpfs", str(below)]
    cage = Cage(load("reference"), hidden=(below,))
    assert text(cage.run(SHELL, {"command": "ls /usr/share/doc | wc -l"})).strip() == "0"
    cage.close()


def test_a_request_cannot_change_how_the_next_one_prints(pool: CagePool) -> None:
    with pool.cage() as cage:
        change = "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_NONBLOCK)"
        assert cage.run(SHELL, {"command": f"python3 -c '{change}'"}).ok
        assert len(cage.run(SHELL, {"command": "head -c 1000000 /dev/zero | tr '\\0' x"}).text) == 1_000_000


def test_the_child_holds_no_descriptor_of_the_cage(pool: CagePool) -> None:
    """Standard streams, and the one that lists them."""
    assert text(sh(pool, "ls /proc/self/fd | wc -w")).strip() == "4"


@pytest.mark.parametrize("call", ["os.memfd_create('x')", "os.sched_setaffinity(0, {0})", "socket.socket(38, 5)"])
def test_seccomp_denies_what_capabilities_would_not(pool: CagePool, call: str) -> None:
    result = sh(pool, f'python3 -c "import os, socket; {call}"')
    assert result.code == 1 and ("Operation not permitted" in text(result) or "not supported" in text(result)), text(result)


def test_missing_bubblewrap_is_one_line_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxError, match="apt install bubblewrap"):
        Cage(load("reference"))


def test_an_unknown_profile_lists_the_ones_there_are() -> None:
    with pytest.raises(UsageError, match="reference, torch, triton-compile, triton-interpret"):
        load("gpu-of-the-future")


def test_layout_has_a_guard_around_every_slot() -> None:
    layout = plan({"a": ("F32", (3, 5)), "b": ("F64", (4096,))}, 1 << 16)
    a, b = layout.slots["a"], layout.slots["b"]
    assert a.offset >= GUARD and b.offset - (a.offset + a.nbytes) >= GUARD
    assert layout.report_offset - (b.offset + b.nbytes) >= GUARD
    assert (a.nbytes, b.nbytes) == (60, 32768)
