"""Processes: too many, too long, and those of others: to signal, to read, to change, to slow down."""

import os
import secrets
import signal
from pathlib import Path

from infra_agent.sandbox.attacks.base import Arena, Attack, Trial, script
from infra_agent.sandbox.attacks.descriptors import KNOW

_FORKS = """
pids, why = [], "no error"
until, end = os.pipe()
try:
    for _ in range(300):
        pid = os.fork()
        if pid == 0:
            os.close(end)
            os._exit(len(os.read(until, 1)))
        pids.append(pid)
except OSError as error:
    why = error.strerror
alive = sum(os.waitpid(pid, os.WNOHANG)[0] == 0 for pid in pids)
os.close(end)
print(f"ESCAPED {alive} processes alive at once; 48 are allowed" if alive > 48 else f"HELD at {alive} processes: {why}")
"""

_THREADS = """
import threading
threading.stack_size(65536)
until, why = threading.Event(), "no error"
threads = []
try:
    for _ in range(300):
        threads.append(threading.Thread(target=until.wait, args=(5,)))
        threads[-1].start()
except RuntimeError as error:
    why = error
    threads.pop()
with open("/proc/self/status") as file:
    alive = next(int(line.split()[1]) for line in file if line.startswith("Threads:"))
until.set()
for thread in threads:
    thread.join()
print(f"ESCAPED {alive} threads at once; 48 are allowed" if alive > 48 else f"HELD at {alive} threads: {why}")
"""

_DAEMON = """
import os, subprocess, sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        quiet = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(quiet, descriptor)
        os.set_inheritable(write, True)
        code = "import os, sys, time; os.write(int(sys.argv[2]), b'x'); time.sleep(12)"
        os.execv(sys.executable, [sys.executable, "-c", code, "MARKER", str(write)])
    os._exit(0)
os.close(write)
print("HELD a daemon is there" if os.read(read, 1) == b"x" else "no daemon", flush=True)
"""

_HOLDER = """
import os, subprocess, sys, time
print("partial output", flush=True)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(6)", "MARKER"], start_new_session=True)
time.sleep(6)
"""

_DEAF = """
import os, sys
code = '''
import signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
print("partial output", flush=True)
end = time.monotonic() + 5
while time.monotonic() < end:
    time.sleep(0.1)
'''
os.execv(sys.executable, [sys.executable, "-c", code, "MARKER"])
"""

_STOPPED = """
import os, signal, subprocess, sys, time
print("partial output", flush=True)
code = "import os, signal, sys, time; time.sleep(5); os.kill(int(sys.argv[2]), signal.SIGKILL)"  # where nobody else ends it
subprocess.Popen([sys.executable, "-c", code, "MARKER", str(os.getpid())], start_new_session=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""

_SIGNALS = """
may, why = [], ""
for pid in {*THEIRS}:  # signal 0 asks for the permission and sends nothing
    try:
        os.kill(pid, 0)
        may.append(f"could signal the host's process {pid}")
    except OSError as error:
        why = error.strerror
if CAGED:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSTOP, signal.SIGKILL):
        os.kill(1, number)
        time.sleep(0.05)
    try:
        os.kill(1, signal.SIGCONT)
    except PermissionError:
        pass  # nobody may send that one
    with open("/proc/1/stat") as file:
        state = file.read().rsplit(")", 1)[1].split()[0]
    if state in "TZ":
        may.append(f"pid 1 is in state {state}")
    why = f"pid 1 lives, state {state}"
verdict(may, [why])
"""

_VICTIM = """
if VICTIM == os.getpid():
    print("HELD the number is this program's own here")
else:
    try:
        os.kill(VICTIM, signal.SIGKILL)
        time.sleep(0.2)
        print("ESCAPED the host's process could be killed")
    except OSError as error:
        print("HELD", error)
"""

_EVERYBODY = """
try:
    listed = {int(name) for name in os.listdir("/proc") if name.isdigit()}
except OSError:
    listed = set()
may = []
for pid in {*range(1, 70000), *listed} - {os.getpid(), *([1] if CAGED else [])}:
    try:
        os.kill(pid, 0)
        may.append(pid)
    except OSError:
        pass
nobody = f"nobody can be signalled, pid 1 {'aside' if CAGED else 'included'}"
verdict([f"could signal {len(may)} processes, the first {may[0]}"] if may else [], [nobody])
"""

_MEM = """
found, why = [], []
for pid in (*OURS, *THEIRS):
    try:
        start = memory_of(pid)
        with open(f"/proc/{pid}/mem", "r+b" if pid in OURS else "rb", buffering=0) as memory:
            memory.seek(start)
            data = memory.read(16)
            found.append(f"read memory of process {pid}")
            if pid in OURS:  # the bytes that are there already
                memory.seek(start)
                memory.write(data)
                found.append(f"wrote memory of process {pid}")
    except (OSError, ValueError) as error:
        why.append(error)
verdict(found, why)
"""

_PTRACE = """
found, why = [], []
libc.ptrace.restype = ctypes.c_long
for pid in OURS:
    ctypes.set_errno(0)
    libc.ptrace(ctypes.c_long(0x4206), ctypes.c_long(pid), None, None)  # SEIZE: does not stop it, and ends with this program
    wrong = errno.errorcode.get(ctypes.get_errno(), "no error")
    try:
        with open(f"/proc/{pid}/status") as file:
            tracer = next(int(line.split()[1]) for line in file if line.startswith("TracerPid:"))
        if tracer == os.getpid():
            found.append(f"traces process {pid}")
    except OSError as error:
        wrong += f", {error.strerror}"
    why.append(f"process {pid}: {wrong}")
verdict(found, why)
"""

_VM = """
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

read, write = (270, 271) if ARM else (310, 311)
own = ctypes.create_string_buffer(b"mine", 16)
here = Piece(ctypes.addressof(own), 16)
found, why = [], []
for pid in (*OURS, *THEIRS):
    try:
        start = memory_of(pid)
    except (OSError, ValueError):
        start = ctypes.addressof(own)  # a fork has it at the same place
    there = Piece(start, 16)
    result, wrong = raw(read, pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if result > 0:
        found.append(f"read memory of process {pid}")
        if pid in OURS and raw(write, pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)[0] > 0:
            found.append(f"wrote memory of process {pid}")
    elif wrong == "EFAULT":
        found.append(f"may read memory of process {pid}")
    why.append(f"process {pid}: {wrong}")
verdict(found, why)
"""

_PRLIMIT = """
found, why = [], []
for pid in (*OURS, *THEIRS):
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU):
        try:
            soft, hard = resource.prlimit(pid, limit)
            if pid not in OURS:
                resource.prlimit(pid, limit, (soft, hard))  # what it is already
                found.append(f"may set limits of process {pid}")
                continue
            wanted = 1000 if soft == resource.RLIM_INFINITY else soft - 1
            resource.prlimit(pid, limit, (wanted, hard))
            if resource.prlimit(pid, limit)[0] == wanted:
                found.append(f"lowered limit {limit} of process {pid}")
            resource.prlimit(pid, limit, (soft, hard))
        except OSError as error:
            why.append(f"process {pid}: {error.strerror}")
verdict(found, why)
"""

_AFFINITY = """
found, why = [], []
for pid in (0, *OURS):
    try:
        before = os.sched_getaffinity(pid)
        for wanted in ({min(before)}, set(range(os.cpu_count() or 1))):
            os.sched_setaffinity(pid, wanted)
            now = os.sched_getaffinity(pid)
            if now != before:
                found.append(f"moved process {pid} from {len(before)} CPUs to {len(now)}")
        os.sched_setaffinity(pid, before)
    except OSError as error:
        why.append(f"process {pid}: {error.strerror}")
verdict(found, why or ["nothing to change: one CPU"])
"""

_PRIORITY = """
found, why = [], []
for pid in (0, *OURS):
    try:
        before = os.getpriority(os.PRIO_PROCESS, pid)
        os.setpriority(os.PRIO_PROCESS, pid, before - 1)
        if os.getpriority(os.PRIO_PROCESS, pid) < before:
            found.append(f"process {pid} has priority {before - 1}")
            os.setpriority(os.PRIO_PROCESS, pid, before)
    except OSError as error:
        why.append(f"process {pid}, nice: {error.strerror}")
for policy in (os.SCHED_FIFO, os.SCHED_RR):
    try:
        os.sched_setscheduler(0, policy, os.sched_param(1))
        if os.sched_getscheduler(0) == policy:
            found.append(f"runs under real-time policy {policy}")
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    except OSError as error:
        why.append(f"policy {policy}: {error.strerror}")
verdict(found, why)
"""

_OOM_SCORE = """
code = '''
import sys
for pid in sys.argv[1:]:
    try:
        with open(f"/proc/{pid}/oom_score_adj", "r+") as file:
            before = int(file.read())
            for wanted in (before - 1, before):
                file.seek(0)
                file.write(str(wanted))
                file.flush()
                file.seek(0)
                if int(file.read()) < before:
                    print(f"ESCAPED lowered the score of process {pid} from {before}", flush=True)
    except OSError as error:
        print("HELD", error, flush=True)
'''
sys.argv[1:] = ["self", *map(str, OURS)]
exec(code)
subprocess.run([sys.executable, "-c", code, *sys.argv[1:]])  # loaded anew a program owns what /proc says of it
"""


def _left(marker: str) -> list[int]:
    """Processes of the host with ``marker`` in their command line. They are ended: nothing may stay behind a trial."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended between the two looks, or is another user's
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return found


def _staying(name: str, about: str, code: str, *, late: bool) -> Attack:
    """A program that leaves something running: at its own end, or, ``late``, at a time-out of one second."""
    says = "HELD" if code.startswith(_DAEMON) else "partial output"

    def attempt(arena: Arena) -> Trial:
        marker = secrets.token_hex(12)
        outcome = arena.run(code.replace("MARKER", marker), 1.0 if late else 4.0)
        left, text = _left(marker), outcome.text.decode(errors="replace")
        if damage := arena.scene.damage(outcome.text):
            return Trial("escaped", damage)
        if says not in text:
            return Trial("escaped", f"the attack did not do its work: {outcome.ended}: {text[-300:]}")
        if left:
            return Trial("escaped", f"{len(left)} processes lived on; it ended as {outcome.ended}")
        if outcome.ended != ("timeout" if late else "ok"):
            return Trial("escaped", f"it ended as {outcome.ended} after {outcome.wall_s:.1f} s")
        if late and outcome.wall_s > 1.5:
            return Trial("escaped", f"the host had its answer after {outcome.wall_s:.1f} s")
        return Trial("held", f"answer after {outcome.wall_s:.2f} s")

    return Attack(name, "processes", about, attempt)


FAMILY: tuple[Attack, ...] = (
    script("fork-bomb", "processes", "300 processes at once", KNOW + _FORKS),
    script("thread-bomb", "processes", "300 threads at once", KNOW + _THREADS),
    _staying("daemon", "a daemon that outlives the program", _DAEMON, late=False),
    _staying("daemon-at-time-out", "a daemon that outlives the time-out", _DAEMON + "time.sleep(6)\n", late=True),
    _staying("held-pipe", "a child in a session of its own that holds the pipe when time is out", _HOLDER, late=True),
    _staying("deaf", "every signal ignored and blocked when time is out", _DEAF, late=True),
    _staying("stopped", "stopped when time is out", _STOPPED, late=True),
    script("signal-parent", "processes", "kill, stop and interrupt pid 1 and the parent", KNOW + _SIGNALS),
    script("kill-victim", "processes", "kill a process of the host by its number", KNOW + _VICTIM),
    script("signal-everybody", "processes", "look for a process that can be signalled", KNOW + _EVERYBODY),
    script("proc-mem", "processes", "read and write other processes through /proc/<pid>/mem", KNOW + _MEM),
    script("ptrace", "processes", "trace another process", KNOW + _PTRACE),
    script("process-vm", "processes", "read and write other processes with process_vm_readv and its like", KNOW + _VM),
    script("prlimit", "processes", "lower another process's limits", KNOW + _PRLIMIT),
    script("affinity", "processes", "change the CPUs of itself and others", KNOW + _AFFINITY),
    script("priority", "processes", "a higher priority, a real-time policy", KNOW + _PRIORITY),
    script("oom-score", "processes", "have the kernel take another process when memory runs out", KNOW + _OOM_SCORE),
)
