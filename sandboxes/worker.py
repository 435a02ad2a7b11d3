"""PID 1 of a cage: preload, fork one confined child per request, relay calls to it, report how it ended.

It runs no op, parses nothing that a candidate made but fixed structs, and reads only fixed structs from the judge:

    PID 1 ─┬─ init of the request's pid namespace: sleeps; when it is killed, all in the namespace is
           └─ child: makes its mounts, gives up its rights, runs the program

A request that stays (STANDING) is stopped, with everything it started, except between a call and its reply.
The one descriptor inherited from the host is the judge's socket, its number in CAGE_JUDGE_FD. With each request come where it prints,
where it hands over its scratch folder, its input (sealed) and its output.
"""

import gc
import importlib
import mmap
import os
import select
import signal
import socket
import time
from typing import NamedTuple

from sandboxes import confine, landlock
from sandboxes.confine import Limits
from sandboxes.runtime import request
from sandboxes.scope import Flat, Job, Nested, Scope, Tree
from sandboxes.surroundings import PLACES
from sandboxes.wire import CALL, DONE, EARLY, ERROR, HELD, LOST, OK, READY, REPLY, STANDING, START

OWN_PROC = ("maps", "smaps", "smaps_rollup", "status", "stat", "statm", "cmdline", "comm", "fd", "cgroup", "limits")
"""What of its own /proc folder a process keeps under Landlock: the rest shows the host's network and mounts."""
HOLD_S = 1.0
CONTROL_FD = 3  # of the child: its end of the pair that carries calls


class Setting(NamedTuple):
    """What the host says in the environment, which no request inherits."""

    judge_fd: int
    confine: str
    """full | landlock | none."""
    preload: list[str]
    uids: list[int]
    """First and one beyond the last uid that this cage may be, on a root host."""
    scratch: str
    """The host's folder behind the writable places; empty where the cage mounts its own."""
    readable: list[str]
    """What Landlock leaves readable."""
    ptrace: bool

    @classmethod
    def take(cls) -> "Setting":
        """Read it and remove it from the environment."""
        said = {name.removeprefix("CAGE_"): os.environ.pop(name) for name in list(os.environ) if name.startswith("CAGE_")}
        preload = [name for name in said["PRELOAD"].split(",") if name]
        readable = [path for path in said.get("READABLE", "").split(":") if path]
        uids = [int(uid) for uid in said.get("UIDS", "").split("-") if uid]
        return cls(int(said["JUDGE_FD"]), said["CONFINE"], preload, uids, said.get("SCRATCH", ""), readable, "PTRACE" in said)


class Running:
    """The request under way. ``control`` is None unless it stays; ``awaited`` is the sequence number of a call without a reply."""

    def __init__(self, pid: int, began: int, control: socket.socket | None) -> None:
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.began = began
        self.control = control
        self.awaited: int | None = None if control is None else 0


def confined(setting: Setting, bpf: bytes) -> None:
    """Give up what this level of isolation gives up."""
    if setting.confine == "landlock":
        confine.no_new_privileges()
        own = [f"/proc/{os.getpid()}/{name}" for name in OWN_PROC]
        landlock.restrict([*setting.readable, *own], [*(f"{setting.scratch}/{name}" for name in PLACES), "/dev/null"])
    if setting.confine != "none":
        confine.give_up_rights(bpf)
    if setting.ptrace:
        confine.show()


def run_child(setting: Setting, memory: tuple[int, int], bpf: bytes, control: int | None) -> None:
    """The request itself: rights are gone before the first byte of the request is read."""
    source = mmap.mmap(memory[0], 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    sink = mmap.mmap(memory[1], 0)
    if control is not None:
        os.dup2(control, CONTROL_FD)
    os.closerange(CONTROL_FD + (control is not None), 1 << 16)  # the mappings stay without their descriptors
    confined(setting, bpf)
    request.run(source, sink, None if control is None else socket.socket(fileno=CONTROL_FD))


class Worker:
    """Serves one judge, one request at a time."""

    def __init__(self, setting: Setting, judge: socket.socket, scope: Scope, bpf: bytes) -> None:
        self._setting = setting
        self._judge = judge
        self._scope = scope
        self._bpf = bpf
        self._running: Running | None = None

    def serve(self) -> None:
        """Answer until the judge hangs up: a judge that was killed closes its socket too, and PDEATHSIG would miss that."""
        try:
            while self._turn():
                continue
        finally:
            self._scope.sweep()

    def _turn(self) -> bool:
        """Deal with one message or one ending; False when it is time to end."""
        ready = self._wait()
        running = self._running
        if self._judge.fileno() in ready:
            return self._from_judge()
        if running and running.control and running.control.fileno() in ready:
            self._from_child(running, running.control)
            return True
        return running is None or self._finished(running)

    def _wait(self) -> set[int]:
        poller = select.poll()
        poller.register(self._judge, select.POLLIN)
        if self._running:
            poller.register(self._running.pidfd, select.POLLIN)
            if self._running.control and self._running.awaited is not None:
                poller.register(self._running.control, select.POLLIN)
        return {descriptor for descriptor, _ in poller.poll()}

    def _from_judge(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self._judge, START.size, 4)
        tag = message[:4]
        if tag == b"STRT" and len(descriptors) == 4 and self._running is None:
            self._start(message, *descriptors)
        elif tag == b"CALL" and self._running:
            self._call(self._running, message)
        elif tag == b"QUIT" and self._running:
            os.kill(self._running.pid, signal.SIGKILL)
        elif tag == b"SOCK" and self._running:
            with self._scope.socket() as made:
                socket.send_fds(self._judge, [b"SOCK"], [made.fileno()])
        else:
            # too late: the request has ended by itself, and the judge is about to read so
            return tag in (b"CALL", b"QUIT", b"SOCK")
        return True

    def _start(self, message: bytes, text: int, folder: int, source: int, sink: int) -> None:
        _, flags, *limits = START.unpack(message)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) if flags & STANDING else (None, None)
        began = time.monotonic_ns()

        control = theirs.fileno() if theirs else None
        job = Job(lambda: run_child(self._setting, (source, sink), self._bpf, control), Limits(*limits), text, folder)
        try:
            pid = self._scope.fork(job)
        except OSError as error:  # of this machine's making: nothing of the candidate has run
            os.write(text, f"{error}\n".encode())
            pid = 0
            if ours:
                ours.close()
        for descriptor in (text, folder, source, sink):
            os.close(descriptor)
        if theirs:
            theirs.close()
        if pid:
            self._running = Running(pid, began, ours)
        else:
            self._scope.sweep()
            self._judge.send(DONE.pack(b"DONE", 1, 0, 0, 0, 0, 0, 0))

    def _call(self, running: Running, message: bytes) -> None:
        """Let the request run until it replies. What it sent before it was asked is no reply."""
        _, sequence, _, _ = CALL.unpack(message)
        if running.control is None or _pending(running.control):
            running.awaited = sequence
            self._reply(running, EARLY, 0)
            return
        running.awaited = sequence
        self._scope.signal(signal.SIGCONT)
        try:
            running.control.send(message, socket.MSG_DONTWAIT)  # a child that never reads must not block PID 1
        except BlockingIOError:
            self._reply(running, LOST, 0)
        except OSError:
            self._hung_up(running, running.control)

    def _hung_up(self, running: Running, control: socket.socket) -> None:
        """The child closed its end: if it is ending, how it ended says more; if it lives on, the judge's time runs out."""
        control.close()
        running.control = None

    def _from_child(self, running: Running, control: socket.socket) -> None:
        message = _receive(control)
        if not message:
            self._hung_up(running, control)
            return
        if len(message) == REPLY.size:
            tag, sequence, status, ns = REPLY.unpack(message)
            if tag == b"RPLY" and sequence == running.awaited and status in (OK, ERROR):
                self._reply(running, status, ns)
                return
        self._reply(running, LOST, 0)

    def _reply(self, running: Running, status: int, ns: int) -> None:
        sequence, running.awaited = running.awaited or 0, None
        self._scope.signal(signal.SIGSTOP)
        self._judge.send(REPLY.pack(b"RPLY", sequence, status, ns))
        self._judge.send(HELD.pack(b"HELD", self._hold()))

    def _hold(self) -> bool:
        """See that everything is stopped, after the judge's clock: a signal is only a wish, and others can be sent to take it back."""
        deadline = time.monotonic() + HOLD_S
        os.sched_yield()  # what shares this core takes its signal now
        while not self._scope.still():
            if time.monotonic() > deadline:
                return False
            self._scope.signal(signal.SIGSTOP)
            time.sleep(0.00005)
        return True

    def _finished(self, running: Running) -> bool:
        _, status, usage = os.wait4(running.pid, 0)
        os.close(running.pidfd)
        if running.control:
            running.control.close()
        code, by_signal = (os.WEXITSTATUS(status), 0) if os.WIFEXITED(status) else (128 + os.WTERMSIG(status), os.WTERMSIG(status))
        cpu = int((usage.ru_utime + usage.ru_stime) * 1e6)
        self._running = None
        if not self._scope.sweep():
            return False  # something could not be killed: the whole cage is thrown away
        wall = time.monotonic_ns() - running.began
        used = (usage.ru_maxrss, usage.ru_inblock, usage.ru_oublock)
        self._judge.send(DONE.pack(b"DONE", code, by_signal, wall, cpu, *used))
        return True


def _receive(control: socket.socket) -> bytes:
    try:
        return control.recv(64, socket.MSG_DONTWAIT)
    except OSError:
        return b""


def _pending(control: socket.socket) -> bool:
    """True when a message waits that nobody asked for; an end that was closed is found by the send that follows."""
    try:
        return bool(control.recv(64, socket.MSG_DONTWAIT | socket.MSG_PEEK))
    except OSError:
        return False


def choose_scope(setting: Setting) -> Scope:
    """How requests are kept apart here; what is not needed for that is given up."""
    uids = setting.uids
    if setting.scratch:
        return Tree(setting.scratch, uids[0] if uids else None)
    nested = Nested.works()
    kept = confine.NESTING if nested or not uids else confine.NESTING + confine.CHANGE_UID
    if uids:  # a root host: uid 0 was needed to reach the mounts, and only for that
        confine.become(uids[0], kept)
    else:
        confine.keep(kept)
    return Nested() if nested else Flat(range(uids[0] + 1, uids[1]) if uids else range(0))


def ignore_requests() -> None:
    """Default actions for all signals, whoever set a handler: the kernel drops what a request sends to an init without one."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a judge that is gone is noticed, not died of


def main() -> None:
    """Serve requests until the judge hangs up."""
    setting = Setting.take()
    scope = choose_scope(setting)
    confine.hide()
    judge = socket.socket(fileno=setting.judge_fd)
    bpf = judge.recv(1 << 16)
    for name in setting.preload:
        importlib.import_module(name)
    gc.freeze()
    ignore_requests()
    threads = len(os.listdir("/proc/self/task"))
    judge.send(READY.pack(b"REDY", threads, scope.name.encode()))  # more than one thread: a fork may hang
    Worker(setting, judge, scope, bpf).serve()
    os._exit(0)  # at once: nobody waits for what an interpreter tidies up at its end


if __name__ == "__main__":
    main()
