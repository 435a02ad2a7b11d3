"""Moments that are awkward: ends that cross messages, names no text can hold, hosts short of descriptors, services that dawdle."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra_agent.errors import SandboxError
from infra_agent.sandbox import accounting, processes
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.cgroup import V1, V2
from infra_agent.sandbox.pool import CagePool
from infra_agent.sandbox.profile import Limits, Profile, load
from infra_agent.sandbox.service import Service, ServiceSpec
from infra_agent.task.tree import pack
from tests.conftest import ROOT

SHELL = "sandboxes.runtime.shell"
LEAVES = b"""
import os
from sandboxes.runtime import request
from sandboxes.wire import CALL, OK, REPLY
control = request.current().control
control.send(REPLY.pack(b"RPLY", 0, OK, 0))
_, number, _, _ = CALL.unpack(control.recv(64))
control.send(REPLY.pack(b"RPLY", number, OK, 1))
os._exit(0)
"""
NAMELESS = "exec python3 -c 'import ctypes, time; ctypes.CDLL(None).prctl(15, b\"\\xff\\xfe\\xff\", 0, 0, 0); time.sleep(60)'"


@pytest.fixture
def reference() -> Iterator[Cage]:
    made = Cage(load("reference"))
    yield made
    made.close()


def test_a_child_that_leaves_after_its_reply_breaks_nothing(cage: Cage) -> None:
    for _ in range(10):
        assert cage.start("leaves", {}, {"tree": pack({"leaves.py": LEAVES})}).status == "ok"
        assert cage.call().status == "ok"
        assert cage.call().status == "ended"
        assert cage.stop().ok
        assert cage.run(SHELL, {"command": "echo next"}).text == b"next\n"


def test_a_service_that_left_breaks_nothing(reference: Cage) -> None:
    for _ in range(5):
        with pytest.raises(SandboxError, match="ended before it was ready"):
            Service(reference, ServiceSpec("sleep 0.05; exit 0", 8000))
        assert reference.run(SHELL, {"command": "echo next"}).text == b"next\n"


def test_a_name_that_is_not_text_is_no_trouble(cage: Cage) -> None:
    result = cage.run(SHELL, {"command": NAMELESS}, timeout_s=1.0)
    assert result.ended == "timeout" and not cage.alive


def test_closing_twice_closes_nothing_of_others(reference: Cage) -> None:
    reference.run(SHELL, {"command": "sleep 60"}, timeout_s=0.3)
    others = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
    reference.close()
    reference.close()
    for descriptor in others:
        assert os.readlink(f"/proc/self/fd/{descriptor}") == "/dev/null"
        os.close(descriptor)


def test_a_host_with_many_descriptors(reference: Cage) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip(f"NOT RUN: this user may open {hard} files, 2000 are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(1200)]
    try:
        assert reference.run(SHELL, {"command": "echo fine"}).ok
        with Cage(load("reference")) as high:
            assert high.run(SHELL, {"command": "sleep 60"}, timeout_s=0.3).ended == "timeout"
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_host_out_of_descriptors_says_so_and_leaves_nothing() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    Cage(load("reference")).close()  # what is imported late is imported now
    before = sorted(os.listdir("/proc/self/fd"))
    said = []
    for room in range(1, 16):
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(before) + room, hard))
        try:
            with Cage(load("reference")) as cage:
                cage.run(SHELL, {"command": "true"})
        except Exception as error:
            said.append(error)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert said and all(isinstance(error, SandboxError) for error in said), said
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_calls_with_high_bits_are_the_same_calls(reference: Cage) -> None:
    """The kernel cuts an int argument to 32 bits; a filter that compares 64 would be passed by."""
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
high, (sock, limit) = 1 << 32, ((198, 164) if os.uname().machine == "aarch64" else (41, 160))
for family in (16, 17, 38, 40):
    assert libc.syscall(ctypes.c_long(sock), ctypes.c_long(family | high), ctypes.c_long(3), ctypes.c_long(0)) == -1, family
assert libc.syscall(ctypes.c_long(limit), ctypes.c_long(4 | high), (ctypes.c_ulong * 2)(0, 0)) == -1
print("refused")
"""
    result = reference.run("high", {}, {"tree": pack({"high.py": code.encode()})})
    assert result.text == b"refused\n"


def test_a_hidden_folder_is_covered_under_a_mount(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "truth").write_text("secret")
    with Cage(load("reference"), {"/repo": tmp_path}, hidden=(tmp_path / "judge",)) as cage:
        assert cage.run(SHELL, {"command": "ls -d /repo/judge; cat /repo/judge/truth"}).text.startswith(b"/repo/judge\ncat:")
    with Cage(load("reference"), {"/judge": tmp_path / "judge"}, hidden=(tmp_path,)) as cage:
        assert cage.run(SHELL, {"command": "cat /judge/truth"}).text == b"secret", "what is asked for by name is shown"


@pytest.mark.parametrize(
    "sends",
    ["b'HTTP'; time.sleep(0.1)", "b'HTTP/1.1 100 Continue\\r\\n\\r\\n'", "b'x' * 100000", "b'\\r\\n'"],
    ids=["a byte at a time", "continue for ever", "no line", "no status"],
)
def test_a_service_that_dawdles_is_given_up_in_time(reference: Cage, sends: str) -> None:
    data, _, pause = sends.partition(";")
    server = f"""
import socket, threading, time
def talk(made):
    try:
        while True:
            made.sendall({data})
            {pause.strip() or "time.sleep(0.001)"}
    except OSError:
        return
listener = socket.create_server(("127.0.0.1", 8000))
while True:
    threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()
"""
    began = time.monotonic()
    with pytest.raises(SandboxError, match="not ready after 1 s"):
        Service(reference, ServiceSpec("exec python3 s.py", 8000, "/health", ready_s=1.0, files=pack({"s.py": server.encode()})))
    assert time.monotonic() - began < 5


def test_a_service_may_say_much_before_it_listens(reference: Cage) -> None:
    command = "head -c 900000 /dev/zero | tr '\\0' x; exec python3 -m http.server 8000 --bind 127.0.0.1"
    service = Service(reference, ServiceSpec(command, 8000, "/", ready_s=20))
    assert len(service.stop().text) > 900_000


@pytest.mark.parametrize(
    ("command", "ended"), [("yes", "output_limit"), ("exec python3 -c 'x = bytearray(400 << 20); input()'", "oom")], ids=["text", "memory"]
)
def test_limits_hold_while_a_service_runs(monkeypatch: pytest.MonkeyPatch, command: str, ended: str) -> None:
    for kind in (V1, V2):
        monkeypatch.setattr(kind, "make", classmethod(lambda cls, name, own: None))
    with Cage(Profile(name="s", about="", limits=Limits(memory_mb=150, output_mb=1))) as cage:
        assert "watchdog" in cage._accounting.about
        cage.serve(SHELL, {"command": f"sleep 0.2; {command}"})
        deadline = time.monotonic() + 10
        while cage._exchange and cage._exchange.finished is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert cage.stop().ended == ended and not cage.alive


def test_an_aborted_pool_does_not_use_what_was_starting() -> None:
    pool = CagePool("reference")
    said: list[str] = []

    def use() -> None:
        try:
            with pool.cage() as cage:
                said.append(cage.run(SHELL, {"command": "sleep 5"}).ended)
        except SandboxError as error:
            said.append(str(error))

    user = threading.Thread(target=use)
    user.start()
    time.sleep(0.01)  # a cage takes longer than that to start
    pool.abort()
    user.join(4)
    assert said == ["stopped while a cage was starting"]
    pool.close()


def test_a_cage_in_use_when_the_pool_closes_ends_when_it_is_given_back() -> None:
    pool = CagePool("reference")
    with pool.cage() as cage:
        pool.close()
        assert cage.run(SHELL, {"command": "true"}).ok
    assert not cage.alive
    with pool.cage() as fresh:
        assert fresh is not cage
    pool.close()


def test_a_lost_cage_is_replaced_and_a_spare_is_kept() -> None:
    pool = CagePool("reference")
    with pool.cage() as first:
        assert first.run(SHELL, {"command": "kill -9 $PPID"}).ended == "signal"
    deadline = time.monotonic() + 10
    while not pool._idle and time.monotonic() < deadline:
        time.sleep(0.01)
    with pool.cage() as second:
        assert second.run(SHELL, {"command": "true"}).ok
        while not pool._idle and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(pool._idle) == 1
    pool.close()


def test_a_group_that_cannot_be_entered_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, pid: int) -> None:
        raise PermissionError("not delegated after all")

    for kind in (V1, V2):
        monkeypatch.setattr(kind, "add", refuse)
    with Cage(load("reference")) as cage:
        assert isinstance(cage._accounting, accounting.Watchdog)
        assert cage.run(SHELL, {"command": "true"}).ok


def test_a_handler_that_a_preload_left_is_not_a_way_to_pid_1(tmp_path: Path) -> None:
    """Without the reset the kernel would deliver the signal, and PID 1 would die of it or worse."""
    tmp_path.chmod(0o755)
    (tmp_path / "handling.py").write_text("import signal\nsignal.signal(signal.SIGUSR1, lambda *_: 1 / 0)\n")
    profile = Profile(name="h", about="", preload=("handling",), mounts={"/extra": tmp_path}, environment={"PYTHONPATH": "/app:/extra"})
    with Cage(profile) as cage:
        assert cage.run(SHELL, {"command": "kill -USR1 1; sleep 0.1; echo fine"}).text == b"fine\n"


def test_what_could_not_be_set_up_is_not_the_candidates_fault() -> None:
    """A limit above this user's own: known before a byte of the candidate runs."""
    code = """
import resource, sys
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.profile import Limits, Profile
soft, hard = resource.getrlimit(resource.RLIMIT_CPU)
resource.setrlimit(resource.RLIMIT_CPU, (1000, 1000))
with Cage(Profile(name="f", about="", limits=Limits(cpu_s=2000))) as cage:
    try:
        cage.run("sandboxes.runtime.shell", {"command": "true"})
    except Exception as error:
        print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.startswith("SandboxError a request could not be set up: "), done.stdout


def test_there_are_no_pseudo_terminals(reference: Cage) -> None:
    """The kernel continues a stopped session leader when its terminal hangs up, which somebody else may bring about."""
    said = reference.run(SHELL, {"command": "python3 -c 'import os; os.openpty()' 2>&1 | tail -1; ls /dev/pts"}).text
    assert said in (b"FileNotFoundError: [Errno 2] No such file or directory\n", b"OSError: out of pty devices\n"), said


def test_localhost_has_an_address(reference: Cage) -> None:
    command = "python3 -c 'import socket; print(socket.gethostbyname(\"localhost\"))'"
    assert reference.run(SHELL, {"command": command}).text == b"127.0.0.1\n"


def test_a_name_that_looks_like_a_figure_is_not_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (V1, V2):
        monkeypatch.setattr(kind, "make", classmethod(lambda cls, name, own: None))
    code = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'\\x0bRssAnon: x', 0, 0, 0); x = bytearray(400 << 20); time.sleep(2)"
    with Cage(Profile(name="n", about="", limits=Limits(memory_mb=200))) as cage:
        assert cage.run("named", {}, {"tree": pack({"named.py": code.encode()})}).ended == "oom"


def test_cpu_time_that_a_stopped_cage_takes_shows(reference: Cage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever continued it, the judge sees that it ran: here the host itself does."""
    code = """
import os, threading
from sandboxes.runtime import request
def spin():
    while True:
        pass
threading.Thread(target=spin, daemon=True).start()
request.current().serve(lambda first, count: None)
"""
    assert reference.start("spin", {}, {"tree": pack({"spin.py": code.encode()})}).status == "ok"
    assert reference.call().status == "ok"
    assert reference._started
    below = processes.descendants(reference._started.pid1)
    for pid in below:
        os.kill(pid, signal.SIGCONT)
    time.sleep(0.2)
    for pid in below:
        os.kill(pid, signal.SIGSTOP)
    reply = reference.call()
    assert reply.status == "moving" and reply.idle_cpu_ns > 50_000_000
    assert reference.call().status == "ok"
    reference.stop()
