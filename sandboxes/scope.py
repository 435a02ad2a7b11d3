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
from sandboxes.processes import all_but_me_stopped, descendants, stopped
from sandboxes.surroundings import PLACES, SCRATCH, mount_proc, mount_scratch, raise_loopback, unmount

_SWEEP_S = 5.0
_STACK, _CLONE_VM = 1 << 14, 0x100
_NEW = confine.CLONE_NEWPID | confine.CLONE_NEWNET


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

    def begin(self, scratch: int) -> None:
        """Take on the limits, hand the host the scratch folder, run the body.

        The host knows by the descriptor that everything before was well: from here on it is the candidate's doing. It was opened before
        any of the candidate's code could have changed what it leads to.
        """
        self.limits.apply()
        with socket.socket(fileno=self.folder) as channel:
            socket.send_fds(channel, [b"F"], [scratch])
        self.limits.limit_files()
        self.body()

    def in_own_session(self, place: str, uid: int | None) -> None:
        """Run where no namespace is made for it: in a session of its own, as ``uid`` if there is one to spare."""
        self.enter()
        os.setsid()
        scratch = os.open(place, os.O_PATH | os.O_DIRECTORY)
        confine.kill_me_first()
        if uid is not None:
            confine.drop_bounding_set()
            confine.become(uid, kept=())
        self.begin(scratch)


class Scope(Protocol):
    """One way to start a request, reach all of it, and leave nothing of it."""

    name: str

    def fork(self, job: Job) -> int:
        """Start a request; returns the pid that PID 1 waits for."""

    def signal(self, number: int) -> None:
        """Send a signal to all of the request under way."""

    def still(self) -> bool:
        """Is every thread of the request stopped, or dead?"""

    def socket(self) -> socket.socket:
        """A TCP socket in the request's network."""

    def sweep(self) -> bool:
        """After the end: leave nothing of the request; False when that could not be done."""


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
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._own_net = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self._net: int | None = None
        self._stack = ctypes.create_string_buffer(_STACK)
        self._init: int | None = None

    @staticmethod
    def works() -> bool:
        """Can a request have namespaces of its own here? Tried in a child, so that PID 1 stays where it is."""
        probe = os.fork()
        if probe == 0:
            try:
                check(libc.unshare(_NEW | confine.CLONE_NEWNS | confine.CLONE_NEWIPC), "unshare")
                raise_loopback()
                init = os.fork()
                if init == 0:
                    mount_proc()
                    os._exit(0)
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
        """Fork the request's child into a new pid and network namespace; returns its pid as PID 1 sees it."""
        check(libc.unshare(_NEW), "unshare")
        try:
            raise_loopback()
            self._net = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            self._init = self._start_init()
            child = os.fork()
            if child == 0:
                finish(lambda: self._enter(job))
            return child
        finally:
            # without going back, the next fork would join the namespace whose init is gone and fail with ENOMEM
            check(libc.setns(self._own_pids, confine.CLONE_NEWPID), "setns")
            check(libc.setns(self._own_net, confine.CLONE_NEWNET), "setns")

    @staticmethod
    def _enter(job: Job) -> None:
        """In the child, with PID 1's rights still: mounts; what the body does first is to give the rights up."""
        job.enter()
        check(libc.unshare(confine.CLONE_NEWNS | confine.CLONE_NEWIPC), "unshare")
        mount_scratch(job.limits)
        scratch = os.open(SCRATCH, os.O_PATH | os.O_DIRECTORY)
        unmount(SCRATCH)
        confine.kill_me_first()  # by the outer /proc: its own is read-only, so that nobody takes that back
        mount_proc()
        job.begin(scratch)

    def socket(self) -> socket.socket:
        """A TCP socket of the request's own network: a socket stays where it was made, whoever holds it."""
        if self._net is None:
            raise OSError("no request has a network")
        check(libc.setns(self._net, confine.CLONE_NEWNET), "setns")
        try:
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        finally:
            check(libc.setns(self._own_net, confine.CLONE_NEWNET), "setns")

    def still(self) -> bool:
        """All that PID 1 can see but itself."""
        return all_but_me_stopped()

    def signal(self, number: int) -> None:
        """Send a signal to every process of the cage but PID 1."""
        _kill_all(number)

    def sweep(self) -> bool:
        """End the init, and with it everything in its namespace. It is not gone before the others are, of which PID 1 reaps the child."""
        if self._net is not None:
            os.close(self._net)
            self._net = None
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
            finish(lambda: job.in_own_session(SCRATCH, uid))
        return child

    def socket(self) -> socket.socket:
        """A TCP socket of the cage's network, which all its requests share."""
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)

    def still(self) -> bool:
        """All that PID 1 can see but itself."""
        return all_but_me_stopped()

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
            finish(lambda: job.in_own_session(self._place, self._uid))
        return child

    def socket(self) -> socket.socket:
        """None: the network is the host's."""
        raise OSError("no network of its own")

    def still(self) -> bool:
        """Every descendant."""
        return stopped(descendants(os.getpid()))

    def signal(self, number: int) -> None:
        """Send a signal to every descendant: again until a look finds nobody new."""
        seen: set[int] = set()
        while found := descendants(os.getpid()) - seen:
            for pid in found:
                try:
                    os.kill(pid, number)
                except (ProcessLookupError, PermissionError):
                    continue  # it ended, or gained another uid, which only an open sandbox lets it
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
