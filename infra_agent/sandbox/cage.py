"""One cage: a warm worker behind bubblewrap, asked to run one program at a time."""

import os
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
REPORT_MB = 16


@dataclass(frozen=True)
class Result:
    """How a request ended. ``ended`` is ok | failed | signal | timeout | output_limit | broken."""

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

    def __init__(self, profile: Profile, mounts: dict[str, Path] | None = None) -> None:
        self.profile = profile
        self.alive = False
        self._mounts = mounts or {}
        self._mappings = Mappings(profile.in_mb, profile.out_mb)
        self._judge, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._text_read, text_write = os.pipe()
        os.set_blocking(self._text_read, False)
        try:
            self._process = self._spawn(theirs.fileno(), text_write)
        except BaseException:
            self._release()
            raise
        finally:
            theirs.close()
            os.close(text_write)
        self._await_ready()

    def _spawn(self, socket_fd: int, text_fd: int) -> subprocess.Popen[bytes]:
        """Start bubblewrap; on a root host inside a user namespace that maps the worker to another uid."""
        bubblewrap.executable()
        if os.geteuid() != 0:
            return self._popen(None, socket_fd, text_fd)
        with userns.mapped_namespace(int.from_bytes(os.urandom(2), "little")) as namespace:
            return self._popen(namespace, socket_fd, text_fd)

    def _popen(self, namespace: int | None, socket_fd: int, text_fd: int) -> subprocess.Popen[bytes]:
        worker_fds = (socket_fd, self._mappings.in_fd, self._mappings.out_fd)
        argv = bubblewrap.command(self.profile, self._mounts, namespace, worker_fds)
        passed = (*worker_fds, *(() if namespace is None else (namespace,)))
        return subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=text_fd, stderr=text_fd, env={}, pass_fds=passed, start_new_session=True
        )  # fmt: skip

    def _await_ready(self) -> None:
        """Hand the filter over and wait for PID 1 to have preloaded."""
        self._judge.settimeout(_READY_S)
        try:
            self._judge.send(seccomp.program())
            message = self._judge.recv(64)
        except (TimeoutError, BrokenPipeError):
            message = b""  # what it printed says why
        if len(message) != 8:
            self._process.kill()
            self._process.wait()
            text = self._drain(1 << 16).decode(errors="replace").strip()
            self.close()
            raise SandboxError(f"the cage did not start: {text.splitlines()[-1] if text else 'no message'}{_advice(text)}")
        _, threads = struct.unpack("<4sI", message)
        if threads != 1:
            self.close()
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
        self._judge.send(_START.pack(b"STRT", length) + _pack_limits(self.profile.limits))
        reply, text, ended = self._await_reply(timeout_s or self.profile.limits.wall_s)
        wall = time.monotonic() - began
        if ended != "ok":
            self.close()
            return Result(ended, -1, text, b"", b"", layout, wall)
        _, code, by_signal, _, cpu_us, rss = _DONE.unpack(reply)
        ended = "ok" if code == 0 else ("signal" if by_signal else "failed")
        result = Result(
            ended, code, text, self._mappings.report(layout), self._mappings.output(layout), layout, wall, cpu_us / 1e6, rss / 1024
        )
        if ended != "ok":
            self.close()
        return result

    def _await_reply(self, timeout_s: float) -> tuple[bytes, bytes, str]:
        """Drain text until PID 1 answers; kill the cage on time-out or too much text."""
        limit, text, deadline = self.profile.limits.output_mb << 20, bytearray(), time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._judge, selectors.EVENT_READ)
            selector.register(self._text_read, selectors.EVENT_READ)
            while True:
                left = deadline - time.monotonic()
                if left <= 0:
                    return b"", bytes(text), "timeout"
                ready = {key.fileobj for key, _ in selector.select(left)}
                if self._text_read in ready:
                    text += self._drain(1 << 20)
                    if len(text) > limit:
                        return b"", bytes(text[:limit]), "output_limit"
                if self._judge in ready:
                    reply = self._judge.recv(64)
                    text += self._drain(limit)
                    ended = "ok" if len(reply) == _DONE.size else "broken"
                    return reply, bytes(text), ended

    def _drain(self, most: int) -> bytes:
        """What the cage has printed so far, up to ``most`` bytes, without waiting."""
        parts, size = [], 0
        while size < most:
            try:
                part = os.read(self._text_read, 65536)
            except BlockingIOError:
                break
            if not part:
                break
            parts.append(part)
            size += len(part)
        return b"".join(parts)

    def close(self) -> None:
        """End every process of the cage and release its memory. Safe to call twice."""
        if self._judge.fileno() < 0:
            return
        self.alive = False
        try:
            os.killpg(self._process.pid, signal.SIGKILL)  # bwrap dies, its pid namespace's init dies, all in it die
        except ProcessLookupError:
            pass  # it ended by itself; nothing is left to kill
        self._process.wait()
        self._release()

    def _release(self) -> None:
        self._judge.close()
        os.close(self._text_read)
        self._mappings.close()


def _advice(text: str) -> str:
    """The line that usually helps when bubblewrap cannot make its namespaces."""
    if "setting up uid map" in text or "Operation not permitted" in text or "No permissions to create" in text:
        return (
            "; user namespaces are refused: run 'sysctl -w kernel.apparmor_restrict_unprivileged_userns=0' as root "
            "(Ubuntu 24.04) or 'sysctl -w kernel.unprivileged_userns_clone=1' (older Debian)"
        )
    return ""
