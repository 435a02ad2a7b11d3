"""The host's side of one request under way: what it prints, what it leaves, what PID 1 says about it."""

import os
import select
import socket
import stat
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from infra_agent.sandbox import wire
from infra_agent.sandbox.accounting import LOOK_S, Accounting
from infra_agent.sandbox.artefacts import Artefacts
from infra_agent.sandbox.base import Ended, Result
from infra_agent.sandbox.mapping import Mappings
from infra_agent.sandbox.profile import Limits

_LATEST_LOOK_S = 0.5
_ASK_S = 10.0


class Exchange:
    """Messages with PID 1 while one request runs. Text is drained all the while, limits are watched where nobody else holds them.

    One thread talks to PID 1; another may call :meth:`look`.
    """

    def __init__(self, judge: socket.socket, accounting: Accounting, limits: Limits, scratch: Path | None, memory: Mappings) -> None:
        self._judge = judge
        self._accounting = accounting
        self._limits = limits
        self._scratch = scratch
        self.memory = memory
        self._began = time.monotonic()
        self._held = ExitStack()
        self._held.callback(memory.close)
        self._lock, self._asking = threading.RLock(), threading.Lock()
        self._files: Artefacts | None = None
        self.text = bytearray()
        self.finished: tuple[bytes, Ended | None] | None = None
        """The end of the request, when it came in place of something else."""
        try:
            self._open()
        except OSError:
            self._held.close()
            raise

    def _open(self) -> None:
        # A pipe of its own for each request, so that none leaves its mark on another's. The host keeps the writing end open too:
        # a pipe at its end would be ready all the time.
        self._text_fd, self._text_write = os.pipe()
        for descriptor in (self._text_fd, self._text_write):
            self._held.callback(os.close, descriptor)
        os.set_blocking(self._text_fd, False)
        self._folder, self._folder_theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._held.callback(self._folder.close)
        self._held.callback(self._folder_theirs.close)
        self._folder.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._judge, select.POLLIN)
        self._poll.register(self._text_fd, select.POLLIN)
        self._look_s = self._accounting.look_s or (LOOK_S if self._scratch else None)
        self._next_look = 0.0
        self._accounting.begin()

    def begin(self, message: bytes) -> None:
        """Start the request; it inherits where to print, where to hand over its scratch folder, and its memory."""
        descriptors = [self._text_write, self._folder_theirs.fileno(), self.memory.in_fd, self.memory.out_fd]
        try:
            socket.send_fds(self._judge, [message], descriptors)
        except OSError:
            self.finish(b"", "broken")
        self._folder_theirs.close()

    def tell(self, message: bytes) -> None:
        """Send PID 1 a message; when it is gone, the next ``receive`` says so."""
        try:
            self._judge.send(message)
        except OSError:
            self.finish(b"", "broken")

    def receive(self, timeout_s: float, eager_s: float = 0.0) -> tuple[bytes, Ended | None]:
        """PID 1's next message, or how the request has to be ended because none came or a limit was passed.

        For ``eager_s`` it looks without sleeping: a core that has to be woken answers late, and how late is chance.
        """
        eager_until = time.perf_counter() + min(eager_s, timeout_s)
        while self.finished is None and time.perf_counter() < eager_until:
            try:
                return self._message(socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
        deadline = time.monotonic() + timeout_s
        while self.finished is None and (left := deadline - time.monotonic()) > 0:
            ready = {descriptor for descriptor, _ in self._poll.poll(1000 * min(left, self._look_s or left))}
            if self._judge.fileno() in ready:
                return self._message()
            passed = self.look(left)
            if passed:
                return b"", passed
        return self.finished or (b"", "timeout")

    def _message(self, flags: int = 0) -> tuple[bytes, Ended | None]:
        try:
            message = self._judge.recv(64, flags)
        except BlockingIOError:
            raise
        except OSError:
            message = b""
        return message, None if message else "broken"

    def look(self, left: float = LOOK_S) -> Ended | None:
        """Drain the text, see to the limits; which of them was passed. ``left``: seconds that there are for it.

        A look costs what the request made it cost, so after a slow one the next comes later, but never much.
        """
        with self._lock:
            if not self._drain():
                return "output_limit"
            began = time.monotonic()
            if self._look_s is None or began < self._next_look or left <= 0:
                return None
            passed = self._passed()
            took = time.monotonic() - began
            self._next_look = began + max(self._look_s, min(10 * took, _LATEST_LOOK_S))
            return passed

    def _drain(self) -> bool:
        """Take what was printed; False when it is more than allowed."""
        limit = self._limits.output_mb << 20
        self.text += drain(self._text_fd, limit + 1 - len(self.text))
        if len(self.text) <= limit:
            return True
        del self.text[limit:]
        return False

    def _passed(self) -> Ended | None:
        if self._accounting.exceeded(self._used):
            return "oom"
        if self._scratch is None:
            return None
        size, entries = _size(self._scratch, self._limits.inodes)
        return "disk_limit" if size > self._limits.disk_mb << 20 or entries > self._limits.inodes else None

    def _used(self) -> int:
        """Bytes of memory that the request's scratch space takes: none where it lies on a disk of the host."""
        if self._scratch:
            return 0
        files = self.files()
        return files.used() if files else 0

    def files(self) -> Artefacts | None:
        """The scratch folder, once the request has handed it over: before it ran anything of the candidate's."""
        with self._lock:
            if self._files is None:
                try:
                    _, descriptors, _, _ = socket.recv_fds(self._folder, 1, 1)
                except OSError:
                    return None
                self._files = Artefacts(descriptors[0]) if descriptors else None
            return self._files

    def take_files(self) -> Artefacts | None:
        """The same, for the caller to close."""
        files, self._files = self.files(), None
        return files

    def ask_socket(self) -> socket.socket | None:
        """A TCP socket made by PID 1, not connected; None when the request ended instead. Any thread may ask."""
        with self._asking:
            if self.finished:
                return None
            self.tell(b"SOCK")
            self._judge.settimeout(_ASK_S)
            try:
                message, descriptors, _, _ = socket.recv_fds(self._judge, 64, 1)
            except OSError:
                message, descriptors = b"", []
            finally:
                self._judge.settimeout(None)
            if descriptors:
                return socket.socket(fileno=descriptors[0])
            self.finish(message, None if message else "broken")
            return None

    def finish(self, message: bytes, broke: Ended | None) -> None:
        """Keep how it ended, whoever learns it first."""
        with self._lock:
            if self.finished is None:
                self.finished = message, broke

    def outcome(self, message: bytes, broke: Ended | None, *, stopped: bool) -> Result:
        """The request's result: from PID 1's last message, or from why it had to be ended."""
        with self._lock:
            self._drain()
        oom = self._accounting.out_of_memory()
        wall, peak, cpu = time.monotonic() - self._began, self._accounting.peak() / 2**20, self._accounting.cpu_s()
        if broke or len(message) != wire.DONE.size:
            ended: Ended = "oom" if oom else (broke or "broken")
            return Result(ended, -1, bytes(self.text), b"", b"", self.memory.layout, wall, cpu or 0.0, peak)
        _, code, by_signal, _, cpu_us, rss, blocks_in, blocks_out = wire.DONE.unpack(message)
        ended = _how(code, by_signal, oom, stopped)
        report = self.memory.report() if ended == "ok" else b""
        if report is None:
            ended, report = "bad_report", b""
        used = (cpu if cpu is not None else cpu_us / 1e6, peak or rss / 1024, blocks_in * 512, blocks_out * 512)
        return Result(ended, code, bytes(self.text), report, self.memory.output(), self.memory.layout, wall, *used)

    def close(self) -> None:
        """Give back descriptors and memory; the files stay with who took them. Safe to call twice."""
        with self._lock:
            files, self._files = self._files, None
        if files:
            files.close()
        self._held.close()


def _how(code: int, by_signal: int, oom: bool, stopped: bool) -> Ended:
    if code and oom:
        return "oom"
    if stopped:
        return "stopped"
    return "ok" if code == 0 else ("signal" if by_signal else "failed")


def drain(descriptor: int, most: int) -> bytes:
    """What a non-blocking pipe holds, at most ``most`` bytes."""
    parts: list[bytes] = []
    while most > 0:
        try:
            part = os.read(descriptor, min(most, 65536))
        except BlockingIOError:
            break
        if not part:
            break
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _size(folder: Path, most: int) -> tuple[int, int]:
    """Bytes and entries below a folder, looked at without following links; what vanishes meanwhile counts nothing.

    It ends at ``most`` entries: a tree that is moved about while one looks at it has no end.
    """
    total, entries, todo = 0, 0, [str(folder)]
    while todo and entries <= most:
        try:
            for entry in list(os.scandir(todo.pop())):
                about = entry.stat(follow_symlinks=False)
                total, entries = total + about.st_blocks * 512, entries + 1
                if stat.S_ISDIR(about.st_mode):
                    todo.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return sys.maxsize, sys.maxsize  # too deep to name, or closed to the host: it was made so that nobody can count it
    return total, entries
