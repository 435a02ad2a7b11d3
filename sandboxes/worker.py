"""PID 1 of a cage: preload, fork one confined child per request, report how it ended.

It runs no op, parses nothing that a candidate made, and reads only fixed structs from the judge. Each request
gets a pid, mount and ipc namespace of its own, so that ending it leaves nothing behind:

    PID 1 ── fork ──▶ init of the request (reaps, holds the namespace) ── fork ──▶ child (confined, runs the program)

Descriptors inherited from the host, their numbers in CAGE_FDS: the judge's socket, the input mapping (sealed), the
output mapping.
"""

import gc
import importlib
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
import time

from sandboxes import confine
from sandboxes.runtime import request

JUDGE_FD, IN_FD, OUT_FD = map(int, os.environ["CAGE_FDS"].split(","))
START = struct.Struct("<4sQ")  # tag, bytes of the request in the input mapping
DONE = struct.Struct("<4siiQQQ")  # tag, exit code, signal, wall ns, cpu us, peak rss KiB
LIMITS = struct.Struct("<QQQQQ")  # address space, file size, processes, cpu seconds, tmpfs MiB
INODES = 20_000


def set_limits(packed: bytes) -> int:
    """Apply rlimits to the calling process; returns the tmpfs size in MiB."""
    address, file_size, processes, cpu, tmpfs = LIMITS.unpack(packed)
    for limit, value in (
        (resource.RLIMIT_AS, address),
        (resource.RLIMIT_FSIZE, file_size),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 1024),
    ):
        resource.setrlimit(limit, (value, value))
    return int(tmpfs)


def run_child(length: int, bpf: bytes) -> None:
    """The request itself: rights are gone before the first byte of the request is read."""
    source = mmap.mmap(IN_FD, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    sink = mmap.mmap(OUT_FD, 0)
    os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])  # the mappings stay without their descriptors
    confine.give_up_rights(bpf)
    request.run(source, sink, length)


def hold_namespace(length: int, bpf: bytes, limits: bytes, own_pid_namespace: int) -> None:
    """Init of the request's pid namespace: make the mounts, start the child, reap, end as the child ended."""
    os.close(JUDGE_FD)
    os.close(own_pid_namespace)
    confine.hide()
    confine.check(confine.libc.unshare(confine.CLONE_NEWNS | confine.CLONE_NEWIPC), "unshare")
    tmpfs = set_limits(limits)
    confine.fresh_mounts(tmpfs, INODES)
    child = os.fork()
    if child == 0:
        try:
            run_child(length, bpf)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        except SystemExit as stop:
            sys.stdout.flush()
            os._exit(stop.code if isinstance(stop.code, int) else (0 if stop.code is None else 1))
        except BaseException:
            request.print_error()
            os._exit(1)
    confine.drop_capabilities()
    while True:
        pid, status = os.wait()
        if pid == child:
            # 128 + n, as a shell says it: an init cannot die by the signal that its child died of
            os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def start(length: int, bpf: bytes, limits: bytes, own_pid_namespace: int, text: int) -> int:
    """Fork the init of a new pid namespace; returns its pid as PID 1 sees it. ``text``: where the request prints."""
    confine.check(confine.libc.unshare(confine.CLONE_NEWPID), "unshare(NEWPID)")
    init = os.fork()
    if init == 0:
        try:
            os.dup2(text, 1)
            os.dup2(text, 2)
            os.close(text)
            hold_namespace(length, bpf, limits, own_pid_namespace)
        except BaseException:
            request.print_error()
        os._exit(70)
    # without going back, the next fork would join the namespace whose init is gone and fail with ENOMEM
    confine.check(confine.libc.setns(own_pid_namespace, confine.CLONE_NEWPID), "setns")
    return init


def wait(init: int, judge: socket.socket, began: int) -> bytes | None:
    """Wait for the request to end; None when the judge hung up, after which this process must end."""
    pidfd = os.pidfd_open(init)
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    poller.register(judge, 0)  # POLLHUP only: PDEATHSIG alone does not notice a judge killed with SIGKILL
    ready = poller.poll()
    os.close(pidfd)
    if any(fd == JUDGE_FD for fd, _ in ready):
        return None
    _, status, usage = os.wait4(init, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
    cpu = int((usage.ru_utime + usage.ru_stime) * 1e6)
    ended_by = code - 128 if code > 128 else 0
    return DONE.pack(b"DONE", code, ended_by, time.monotonic_ns() - began, cpu, usage.ru_maxrss)


def main() -> None:
    """Serve requests until the judge hangs up."""
    if "CAGE_SETUID" in os.environ:  # a root host: uid 0 was needed to reach the mounts, and only for that
        confine.become(int(os.environ["CAGE_SETUID"]))
    confine.hide()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # PID 1 with a default action: a signal from inside is dropped
    judge = socket.socket(fileno=JUDGE_FD)
    bpf = judge.recv(1 << 16)
    for name in filter(None, os.environ.get("CAGE_PRELOAD", "").split(",")):
        importlib.import_module(name)
    gc.freeze()
    own_pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    threads = len(os.listdir("/proc/self/task"))
    judge.send(struct.pack("<4sI", b"REDY", threads))  # more than one thread here means that a fork may hang
    while True:
        message, descriptors, _, _ = socket.recv_fds(judge, START.size + LIMITS.size, 1)
        if len(message) != START.size + LIMITS.size or len(descriptors) != 1:
            os._exit(0)
        _, length = START.unpack(message[: START.size])
        began = time.monotonic_ns()
        init = start(length, bpf, message[START.size :], own_pid_namespace, descriptors[0])
        os.close(descriptors[0])
        reply = wait(init, judge, began)
        if reply is None:
            os._exit(0)
        judge.send(reply)


if __name__ == "__main__":
    main()
