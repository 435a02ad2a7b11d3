"""One cage: a warm worker behind bubblewrap, asked to run one program at a time."""

import json
import os
import select
import selectors
import signal
import socket
import struct
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra_agent.errors import SandboxError
from infra_agent.sandbox import bubblewrap, seccomp, userns
from infra_agent.sandbox.mapping import Layout, Mappings, plan
from infra_agent.sandbox.profile import Limits, Profile

_START = struct.Struct("<4sQ")
_DONE = struct.Struct("<4siiQQQ")
_LIMITS = struct.Struct("<QQQQQ")
_READY_S = 60.0
_GONE_S = 10.0
REPORT_MB = 16


@dataclass(frozen=True)
class Result:
    """How a request ended. ``ended`` is ok | failed | signal | timeout | output_limit | bad_report | broken."""

    ended: str
    code: int
    text: bytes
    report: bytes
    output: bytes
    layout: Layout = field(repr=False)
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_rss_mb: float = 0.0

    @property
    def ok(self) -> bool:
        """True when the program ended by itself with status 0."""
        return self.ended == "ok"


def _pack_limits(limits: Limits) -> bytes:
    return _LIMITS.pack(limits.address_space_mb << 20, limits.file_size_mb << 20, limits.processes, limits.cpu_s, limits.tmpfs_mb)


class Cage:
    """A started cage. After a request that did not end well it is closed; callers take a new one."""

    isolation = "full"

    def __init__(self, profile: Profile, mounts: dict[str, Path] | None = None, hidden: tuple[Path, ...] = ()) -> None:
        """Start it. ``mounts``: place in the cage -> host folder; ``hidden``: host folders that no mount may show."""
        self.profile = profile
        self.alive = False
        self._mounts = mounts or {}
        self._hidden = hidden
        self._mappings = Mappings(profile.in_mb, profile.out_mb)
        self._judge, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        said, own_text = os.pipe()
        try:
            with theirs, os.fdopen(own_text, "wb") as text:
                self._process, self._init = self._spawn(theirs.fileno(), text.fileno())
            self._await_ready(said)
        except BaseException:
            self._judge.close()
            self._mappings.close()
            raise
        finally:
            os.close(said)

    def _spawn(self, socket_fd: int, text_fd: int) -> tuple[subprocess.Popen[bytes], int]:
        """Start bubblewrap; on a root host inside a user namespace that maps the worker to another uid.

        Returns bubblewrap's process and a pidfd of PID 1 of the cage.
        """
        bubblewrap.executable()
        if os.geteuid() != 0:
            return self._popen(None, socket_fd, text_fd)
        with userns.mapped_namespace(int.from_bytes(os.urandom(2), "little")) as namespace:
            return self._popen(namespace, socket_fd, text_fd)

    def _popen(self, namespace: int | None, socket_fd: int, text_fd: int) -> tuple[subprocess.Popen[bytes], int]:
        worker_fds = (socket_fd, self._mappings.in_fd, self._mappings.out_fd)
        info_read, info_write = os.pipe()
        with os.fdopen(info_read, "rb") as info:
            try:
                argv = bubblewrap.command(self.profile, self._mounts, self._hidden, namespace, worker_fds, info_write)
                passed = (*worker_fds, info_write, *(() if namespace is None else (namespace,)))
                process = subprocess.Popen(
                    argv, stdin=subprocess.DEVNULL, stdout=text_fd, stderr=text_fd, env={}, pass_fds=passed, start_new_session=True
                )
            finally:
                os.close(info_write)
            text = info.read()  # until bubblewrap has closed it, which it does before it runs anything of ours
        try:
            return process, os.pidfd_open(json.loads(text)["child-pid"])
        except (ValueError, KeyError, ProcessLookupError):
            return process, -1  # it did not get that far; what it printed says why

    def _await_ready(self, said: int) -> None:
        """Hand the filter over and wait for PID 1 to have preloaded. ``said``: the pipe of its own output."""
        self._judge.settimeout(_READY_S)
        try:
            self._judge.send(seccomp.program())
            message = self._judge.recv(64)
        except OSError:
            message = b""  # what it printed says why
        if len(message) != 8:
            self._kill()
            os.set_blocking(said, False)
            text = _drain(said, 1 << 16).decode(errors="replace").strip()
            raise SandboxError(f"the cage did not start: {text.splitlines()[-1] if text else 'no message'}{_advice(text)}")
        _, threads = struct.unpack("<4sI", message)
        if threads != 1:
            self._kill()
            raise SandboxError(f"profile {self.profile.name}: preloading started {threads} threads; a fork could hang")
        self.alive = True

    def request(
        self,
        program: str,
        args: dict[str, Any],
        sections: dict[str, bytes] | None = None,
        shapes: dict[str, tuple[str, tuple[int, ...]]] | None = None,
        timeout_s: float | None = None,
        report_mb: int = REPORT_MB,
    ) -> Result:
        """Run ``program`` in a fresh namespace of this cage. ``shapes`` maps an output to (dtype, shape)."""
        if not self.alive:
            raise SandboxError("this cage is closed")
        layout = plan(shapes or {}, report_mb << 20)
        length = self._mappings.write(program, args, sections or {}, layout)
        began = time.monotonic()
        reply, text, ended = self._exchange(length, timeout_s or self.profile.limits.wall_s)
        wall = time.monotonic() - began
        report = self._mappings.report(layout) if ended == "ok" else b""
        if ended != "ok" or report is None:
            self.close()
            return Result("bad_report" if report is None else ended, -1, text, b"", b"", layout, wall)
        _, code, by_signal, _, cpu_us, rss = _DONE.unpack(reply)
        ended = "ok" if code == 0 else ("signal" if by_signal else "failed")
        result = Result(ended, code, text, report, self._mappings.output(layout), layout, wall, cpu_us / 1e6, rss / 1024)
        if ended != "ok":
            self.close()
        return result

    def _exchange(self, length: int, timeout_s: float) -> tuple[bytes, bytes, str]:
        """Start the request with a text pipe of its own, so that no request leaves its mark on another's."""
        text_read, text_write = os.pipe()
        os.set_blocking(text_read, False)
        try:
            message = _START.pack(b"STRT", length) + _pack_limits(self.profile.limits)
            socket.send_fds(self._judge, [message], [text_write])
            return self._await_reply(text_read, timeout_s)
        except OSError:
            return b"", b"", "broken"  # PID 1 is gone
        finally:
            os.close(text_write)
            os.close(text_read)

    def _await_reply(self, text_fd: int, timeout_s: float) -> tuple[bytes, bytes, str]:
        """Drain text until PID 1 answers; give up on time-out or too much text."""
        limit, text, deadline = self.profile.limits.output_mb << 20, bytearray(), time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._judge, selectors.EVENT_READ)
            selector.register(text_fd, selectors.EVENT_READ)
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    return b"", bytes(text), "timeout"
                ready = {key.fileobj for key, _ in selector.select(left)}
                if text_fd in ready:
                    text += _drain(text_fd, 1 << 20)
                    if len(text) > limit:
                        return b"", bytes(text[:limit]), "output_limit"
                if self._judge in ready:
                    reply = self._judge.recv(64)
                    text += _drain(text_fd, limit)
                    ended = "ok" if len(reply) == _DONE.size else "broken"
                    return reply, bytes(text), ended

    def kill(self) -> None:
        """Kill PID 1 of the cage, and with it everything in the cage, from any thread; a request under way ends as ``broken``."""
        try:
            if self._init >= 0:
                signal.pidfd_send_signal(self._init, signal.SIGKILL)
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # it ended by itself; nothing is left to kill

    def _kill(self) -> None:
        """Kill, and wait until the last process of the cage is gone: PID 1 is not gone before that."""
        self.kill()
        self._process.wait()
        if self._init >= 0:
            select.select([self._init], [], [], _GONE_S)
            os.close(self._init)
            self._init = -1

    def close(self) -> None:
        """End every process of the cage and release its memory. Safe to call twice."""
        if self._judge.fileno() < 0:
            return
        self.alive = False
        self._kill()
        self._judge.close()
        self._mappings.close()


def _drain(descriptor: int, most: int) -> bytes:
    """What a non-blocking pipe holds, up to ``most`` bytes."""
    parts, size = [], 0
    while size < most:
        try:
            part = os.read(descriptor, 65536)
        except BlockingIOError:
            break
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _advice(text: str) -> str:
    """The line that usually helps when bubblewrap cannot make its namespaces."""
    if "setting up uid map" in text or "Operation not permitted" in text or "No permissions to create" in text:
        return (
            "; user namespaces are refused: run 'sysctl -w kernel.apparmor_restrict_unprivileged_userns=0' as root "
            "(Ubuntu 24.04) or 'sysctl -w kernel.unprivileged_userns_clone=1' (older Debian)"
        )
    return ""
