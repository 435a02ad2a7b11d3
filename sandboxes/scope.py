"""How one request is kept apart from the next: by namespaces, or, where they are refused, by killing all it started.

A scope forks a request, signals everything that belongs to it, and makes sure that nothing is left of it.
"""

import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from itertools import cycle
from typing import NamedTuple, Protocol

from sandboxes import confine
from sandboxes.confine import Limits, check, libc

SCRATCH = "/scratch"
PLACES = {"ws": "/ws", "tmp": "/tmp", "shm": "/dev/shm"}
"""Folders of a request's scratch space -> where a cage shows them."""
_READ_ONLY, _NOSUID_NODEV, _NOSUID_NODEV_NOEXEC, _BIND, _DETACH = 1, 2 | 4, 2 | 4 | 8, 4096, 2
_SWEEP_S = 5.0
_STACK, _CLONE_VM = 1 << 14, 0x100
_NETWORK = {"tcp_max_tw_buckets": "0", "tcp_wmem": "4096 16384 212992", "tcp_rmem": "4096 87380 212992"}


class Job(NamedTuple):
    """One request to fork: what its child runs, its limits, and the host's two descriptors: for its text, for its scratch folder."""

    body: Callable[[], None]
    limits: Limits
    text: int
    folder: int

    def enter(self) -> None:
        """Print where the host reads."""
        os.dup2(self.text, 1)
        os.dup2(self.text, 2)

    def hand_over(self, place: str) -> None:
        """Give the host a descriptor of the scratch folder, before any of the candidate's code could have changed it."""
        descriptor = os.open(place, os.O_PATH | os.O_DIRECTORY)
        with socket.socket(fileno=self.folder) as channel:
            socket.send_fds(channel, [b"F"], [descriptor])
        os.close(descriptor)

    def in_own_session(self, uid: int | None) -> None:
        """Run the body where no namespace is made for it: in a session of its own, as ``uid`` if there is one to spare."""
        os.setsid()
        confine.kill_me_first()
        self.limits.apply()
        if uid is not None:
            confine.drop_bounding_set()
            confine.become(uid, kept=())
        self.body()


class Scope(Protocol):
    """One way to start a request, reach all of it, and leave nothing of it."""

    name: str

    def fork(self, job: Job) -> int:
        """Start a request; returns the pid that PID 1 waits for."""

    def signal(self, number: int) -> None:
        """Send a signal to all of the request under way."""

    def sweep(self) -> bool:
        """After the end: leave nothing of the request; False when that could not be done."""


def mount_scratch(limits: Limits) -> None:
    """One empty tmpfs, bounded in bytes and inodes, behind every writable place; it stays mounted at SCRATCH."""
    options = f"size={limits.disk},nr_inodes={limits.inodes},mode=0755".encode()
    check(libc.mount(b"tmpfs", SCRATCH.encode(), b"tmpfs", _NOSUID_NODEV, options), "mount the scratch space")
    for name, place in PLACES.items():
        folder = f"{SCRATCH}/{name}"
        os.mkdir(folder)
        os.chmod(folder, 0o1777)  # mkdir's mode is cut by the umask
        check(libc.mount(folder.encode(), place.encode(), None, _BIND, None), f"mount {place}")


def tame_network() -> bool:
    """Set up the cage's loopback; False where the kernel does not let us.

    No port stays taken after the request that used it, since all requests of a cage share the loopback, and no connection holds much.
    Done in a /proc of its own, for a moment: bubblewrap shows an ordinary user's settings read-only.
    """
    try:
        check(libc.mount(b"proc", SCRATCH.encode(), b"proc", _NOSUID_NODEV_NOEXEC, None), "mount /proc")
    except OSError:
        return False
    try:
        for name, value in _NETWORK.items():
            with open(f"{SCRATCH}/sys/net/ipv4/{name}", "w") as file:
                file.write(value)
    except OSError:
        return False
    finally:
        unmount(SCRATCH)
    return True


def unmount(place: str) -> None:
    """Take a mount away; what still has it open keeps it alive."""
    check(libc.umount2(place.encode(), _DETACH), f"unmount {place}")


def finish(body: Callable[[], None]) -> None:
    """Run ``body`` in a process of the request and end as it ends."""
    code = 1
    try:
        body()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            code = code or 1
    os._exit(code)


class Nested:
    """A pid, mount and ipc namespace for each request: ending its init ends it whole, files and all."""

    name = "nested"

    def __init__(self) -> None:
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._stack = ctypes.create_string_buffer(_STACK)
        self._init: int | None = None

    @staticmethod
    def works() -> bool:
        """Can a request have namespaces of its own here? Tried in a child, so that PID 1 stays where it is."""
        probe = os.fork()
        if probe == 0:
            try:
                check(libc.unshare(confine.CLONE_NEWPID | confine.CLONE_NEWNS | confine.CLONE_NEWIPC), "unshare")
                init = os.fork()
                if init == 0:
                    os._exit(libc.mount(b"proc", b"/proc", b"proc", _NOSUID_NODEV_NOEXEC, None) != 0)
                os._exit(os.waitstatus_to_exitcode(os.waitpid(init, 0)[1]))
            except OSError:
                os._exit(1)
        return os.waitpid(probe, 0)[1] == 0

    def _start_init(self) -> int:
        """Start the init of the namespace that the next fork will be in: a process that sleeps, and shares PID 1's memory.

        A copy of PID 1 would cost milliseconds, a program of its own could be taken over from inside. It reaps by ignoring SIGCHLD.
        """
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            top = ctypes.addressof(self._stack) + _STACK - 64
            pause = ctypes.cast(libc.pause, ctypes.c_void_p)
            pid = int(libc.clone(pause, ctypes.c_void_p(top & ~63), _CLONE_VM | signal.SIGCHLD, None))
            check(min(pid, 0), "clone the init of a request")
            return pid
        finally:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def fork(self, job: Job) -> int:
        """Fork the request's child into a new pid namespace; returns its pid as PID 1 sees it."""
        check(libc.unshare(confine.CLONE_NEWPID), "unshare(NEWPID)")
        try:
            self._init = self._start_init()
            child = os.fork()
            if child == 0:
                finish(lambda: self._enter(job))
            return child
        finally:
            # without going back, the next fork would join the namespace whose init is gone and fail with ENOMEM
            check(libc.setns(self._own, confine.CLONE_NEWPID), "setns")

    @staticmethod
    def _enter(job: Job) -> None:
        """In the child, with PID 1's rights still: mounts and limits; what the body does first is to give the rights up."""
        job.enter()
        check(libc.unshare(confine.CLONE_NEWNS | confine.CLONE_NEWIPC), "unshare")
        mount_scratch(job.limits)
        job.hand_over(SCRATCH)
        unmount(SCRATCH)
        confine.kill_me_first()  # by the outer /proc: its own is read-only, so that nobody takes that back
        check(libc.mount(b"proc", b"/proc", b"proc", _NOSUID_NODEV_NOEXEC | _READ_ONLY, None), "mount /proc")
        job.limits.apply()
        job.body()

    def signal(self, number: int) -> None:
        """Send a signal to every process of the cage but PID 1."""
        _kill_all(number)

    def sweep(self) -> bool:
        """End the init, and with it everything in its namespace. It is not gone before the others are, of which PID 1 reaps the child."""
        if self._init is not None:
            os.kill(self._init, signal.SIGKILL)
            self._init = None
            try:
                while os.wait():
                    continue
            except ChildProcessError:
                return True
        return True


class Flat:
    """Where a cage may not nest namespaces: everything but PID 1 is killed, the scratch space replaced."""

    name = "flat"

    def __init__(self, fresh_uids: range) -> None:
        self._uids = cycle(fresh_uids)
        self._mounted = False

    def fork(self, job: Job) -> int:
        """Start a request in PID 1's own namespaces, as a uid of its own where there are any."""
        uid = next(self._uids, None)
        if not self._mounted:
            mount_scratch(job.limits)
            self._mounted = True
        child = os.fork()
        if child == 0:
            job.enter()
            job.hand_over(SCRATCH)
            finish(lambda: job.in_own_session(uid))
        return child

    def signal(self, number: int) -> None:
        """Send a signal to every process of the cage but PID 1."""
        _kill_all(number)

    def sweep(self) -> bool:
        """Kill what the request left behind and empty the scratch space; False when that took too long."""
        deadline = time.monotonic() + _SWEEP_S
        while time.monotonic() < deadline:
            _kill_all(signal.SIGKILL)
            if not _reap():
                for place in (*PLACES.values(), SCRATCH):
                    unmount(place)
                self._mounted = False
                return True
        return False


class Tree:
    """Outside a cage, where PID 1 is an ordinary process: what it started is found by parentage, its scratch is the host's to wipe."""

    name = "tree"

    def __init__(self, place: str, uid: int | None) -> None:
        confine.adopt_orphans()
        self._place = place
        self._uid = uid

    def fork(self, job: Job) -> int:
        """Start a request as a session of its own."""
        child = os.fork()
        if child == 0:
            job.enter()
            job.hand_over(self._place)
            finish(lambda: job.in_own_session(self._uid))
        return child

    def signal(self, number: int) -> None:
        """Send a signal to every descendant: again until a look finds nobody new."""
        seen: set[int] = set()
        while found := descendants(os.getpid()) - seen:
            for pid in found:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
            seen |= found

    def sweep(self) -> bool:
        """Kill what the request left behind; False when something keeps coming back."""
        deadline = time.monotonic() + _SWEEP_S
        while time.monotonic() < deadline:
            self.signal(signal.SIGSTOP)  # a stopped process cannot fork between a look and the kill
            self.signal(signal.SIGKILL)
            if not _reap():
                return True
        return False


def _kill_all(number: int) -> None:
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        return  # nobody else is there


def _reap() -> bool:
    """Wait for every child that has ended; True while one has not."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return False
    time.sleep(0.002)
    return True


def descendants(root: int) -> set[int]:
    """Processes below ``root``, from /proc: an orphan is adopted by ``root``, so none is missed."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended between the two looks
        if state != "Z":
            children.setdefault(int(parent), []).append(int(name))
    found, todo = set(), [root]
    while todo:
        below = children.get(todo.pop(), [])
        found.update(below)
        todo += below
    return found
