"""One cage: a warm worker behind a backend's wall, asked to run one request at a time."""

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Literal

from infra_agent.errors import SandboxError
from infra_agent.sandbox import accounting, choose, wire
from infra_agent.sandbox.artefacts import Artefacts
from infra_agent.sandbox.backend import Backend, Launch, Started
from infra_agent.sandbox.base import REPORT_MB, Reply, Result, Sandbox, Shapes
from infra_agent.sandbox.exchange import Exchange, drain
from infra_agent.sandbox.mapping import Layout, Mappings, plan
from infra_agent.sandbox.profile import Profile

_READY_S = 60.0
_GONE_S = 10.0
_FEWEST_FILES = 32
_STATUS: dict[int, Literal["ok", "error", "early", "lost"]] = {
    wire.OK: "ok", wire.ERROR: "error", wire.EARLY: "early", wire.LOST: "lost",
}  # fmt: skip


class Cage(Sandbox):
    """A started sandbox of any backend; :class:`Sandbox` says what each method does."""

    def __init__(
        self, profile: Profile, mounts: dict[str, Path] | None = None, hidden: tuple[Path, ...] = (), backend: Backend | None = None
    ) -> None:
        """Start it. ``mounts``: place in the cage -> host folder; ``hidden``: host folders that no mount may show."""
        self._backend = backend or choose.pick()
        self.profile, self.isolation, self.alive = profile, self._backend.isolation, False
        self.notes = self._backend.not_held
        self._mounts = profile.mounts | (mounts or {})
        self._processes = self._backend.process_limit(profile.limits.processes)
        self._accounting = accounting.choose()
        self._judge, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._started: Started | None = None
        self._exchange: Exchange | None = None
        self._files: Artefacts | None = None
        self._sequence = 0
        said, own_text = os.pipe()
        try:
            with theirs, os.fdopen(own_text, "wb") as text:
                self._started = self._backend.launch(Launch(profile, self._mounts, hidden, theirs.fileno(), text.fileno()))
            self._await_ready(self._started, said)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(said)

    def __enter__(self) -> "Cage":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _await_ready(self, started: Started, said: int) -> None:
        """Hand the filter over and wait for PID 1 to have preloaded. ``said``: the pipe of its own output."""
        self._judge.settimeout(_READY_S)
        try:
            if started.pid1 >= 0:
                self._accounting.adopt(started.pid1)
            self._judge.send(self._backend.filter(self.profile, self._accounting.look_s is None) or b"-")
            message = self._judge.recv(64)
        except OSError:
            message = b""  # what it printed says why
        if len(message) != wire.READY.size:
            self._kill()
            os.set_blocking(said, False)
            text = drain(said, 1 << 16).decode(errors="replace").strip()
            raise SandboxError(f"the cage did not start: {text.splitlines()[-1] if text else 'no message'}{self._backend.advice(text)}")
        _, threads, tamed, scope = wire.READY.unpack(message)
        if threads != 1:
            raise SandboxError(f"profile {self.profile.name}: preloading started {threads} threads; a fork could hang")
        self._accounting.settle(self.profile.limits.memory_mb << 20, self.profile.limits.processes)
        if scope.rstrip(b"\0") == b"flat":
            self.notes = (*self.notes, "requests share the cage's namespaces and are kept apart by killing and wiping")
        if self.isolation == "full" and not tamed:
            self.notes = (
                *self.notes,
                "a port stays taken for a minute after the request that used it; connections may hold megabytes each",
            )
        self.alive = True

    def run(
        self, program: str, args: dict[str, Any], sections: dict[str, bytes] | None = None, shapes: Shapes | None = None,
        timeout_s: float | None = None, report_mb: int = REPORT_MB,
    ) -> Result:  # fmt: skip
        """Run a program to its end."""
        self._begin(program, args, sections or {}, plan(shapes or {}, report_mb << 20), 0)
        return self._end(self._under_way(), timeout_s or self.profile.limits.wall_s)

    def start(
        self, program: str, args: dict[str, Any], sections: dict[str, bytes] | None = None, shapes: Shapes | None = None,
        timeout_s: float | None = None, report_mb: int = REPORT_MB,
    ) -> Reply:  # fmt: skip
        """Start a program that stays; it is stopped as soon as it is ready."""
        began = time.perf_counter_ns()
        self._begin(program, args, sections or {}, plan(shapes or {}, report_mb << 20), wire.STANDING)
        self._sequence = 0
        return self._await_reply(began, timeout_s)

    def serve(self, program: str, args: dict[str, Any], sections: dict[str, bytes] | None = None) -> None:
        """Start a program that stays and runs freely; :class:`~infra_agent.sandbox.service.Service` knows when it is ready."""
        self._begin(program, args, sections or {}, plan({}, REPORT_MB << 20), 0)

    def _begin(self, program: str, args: dict[str, Any], sections: dict[str, bytes], layout: Layout, flags: int) -> None:
        if not self.alive or self._started is None:
            raise SandboxError("this cage is closed")
        if self._exchange:
            raise SandboxError("a request is under way in this cage; stop it first")
        self._forget_files()
        self._started.refresh()
        limits = self.profile.limits
        memory = Mappings(program, args, sections, layout, (self.profile.in_mb << 20, self.profile.out_mb << 20))
        sizes = (limits.address_space_mb << 20, limits.file_size_mb << 20)
        counts = (self._processes, limits.cpu_s)
        self._exchange = Exchange(self._judge, self._accounting, limits, self._started.scratch, memory)
        self._exchange.begin(wire.START.pack(b"STRT", flags, *sizes, *counts, limits.disk_mb << 20, limits.inodes, self._open_files()))

    def _open_files(self) -> int:
        """Descriptors of a process. Where nothing counts the kernel's own memory, full sockets must not hold more than the request may."""
        limits = self.profile.limits
        if self._accounting.look_s is None:
            return limits.open_files
        affordable = (limits.memory_mb << 20) // (limits.processes * accounting.socket_bytes())
        return max(_FEWEST_FILES, min(limits.open_files, affordable))

    def _under_way(self) -> Exchange:
        if self._exchange is None:
            raise SandboxError("no request is under way in this cage")
        return self._exchange

    def call(self, first: int = 0, count: int = 1, timeout_s: float | None = None) -> Reply:
        """Let the standing program run until it has answered for ``count`` slots from ``first``."""
        exchange = self._under_way()
        self._sequence += 1
        message = wire.CALL.pack(b"CALL", self._sequence, first, count)
        began = time.perf_counter_ns()
        exchange.tell(message)
        return self._await_reply(began, timeout_s)

    def _await_reply(self, began: int, timeout_s: float | None) -> Reply:
        exchange = self._under_way()
        message, broke = exchange.receive(timeout_s or self.profile.limits.wall_s)
        wall = time.perf_counter_ns() - began
        if len(message) == wire.REPLY.size:
            _, sequence, status, ns = wire.REPLY.unpack(message)
            if sequence == self._sequence:
                return Reply(_STATUS[status], wall, ns)
        exchange.finished = (message, broke)
        return Reply("timeout" if broke == "timeout" else "ended", wall)

    def put(self, section: str, data: bytes) -> None:
        """Give a section of the standing request other bytes, of the same length, and poison the outputs again."""
        memory = self._under_way().memory
        memory.put(section, data)
        memory.poison()

    def output(self) -> bytes:
        """The output slots and their guards as they are now."""
        return self._under_way().memory.output()

    def stop(self) -> Result:
        """End the standing request or the service, whole; the cage stays warm unless it had ended badly by itself."""
        exchange = self._under_way()
        if exchange.finished is None:
            exchange.tell(b"QUIT")
            return self._end(exchange, _GONE_S, stopped=True)
        return self._end(exchange, _GONE_S)

    def _end(self, exchange: Exchange, timeout_s: float, *, stopped: bool = False) -> Result:
        """Wait for the end, collect what is left. What did not end well costs the cage."""
        try:
            message, broke = exchange.receive(timeout_s)
            if broke or len(message) != wire.DONE.size:
                self._kill()
            self._files, self._exchange = exchange.files(), None
            result = exchange.outcome(message, broke, stopped=stopped)
        except BaseException:
            self._kill()
            raise
        finally:
            exchange.close()
        if result.ended not in ("ok", "stopped"):
            self._kill()
        return result

    def get(self, path: str, limit: int) -> bytes:
        """A file that the last request left, as ``ws/...``, ``tmp/...`` or ``shm/...``; until the next request starts."""
        if self._files is None:
            raise SandboxError("no request has left files in this cage")
        return self._files.read(path, limit)

    def connect(self, port: int, timeout_s: float) -> socket.socket:
        """A TCP connection to a port on the cage's own loopback: PID 1 makes the socket, whose network is the cage's."""
        if self.isolation != "full":
            raise SandboxError(f"a service needs a network of its own: isolation full, not {self.isolation}")
        made = self._under_way().ask_socket(timeout_s)
        if made is None:
            raise ConnectionError("the service has ended")
        made.settimeout(timeout_s)
        try:
            made.connect(("127.0.0.1", port))
        except OSError:
            made.close()
            raise
        return made

    def place(self, target: str) -> str:
        """Where the cage shows what was mounted as ``target``."""
        return self._backend.place(target, self._mounts)

    def kill(self) -> None:
        """Kill everything in the cage, from any thread; a request under way ends as ``broken``."""
        if self._started:
            self._started.kill()

    def _kill(self) -> None:
        """Kill, and wait until the last process of the cage is gone: PID 1 is not gone before that."""
        self.alive = False
        if self._started is None:
            return
        self._started.kill()
        try:
            self._started.wait(_GONE_S)
        except subprocess.TimeoutExpired as error:
            raise SandboxError(f"the cage's processes did not end within {_GONE_S:.0f} s of SIGKILL") from error

    def _forget_files(self) -> None:
        if self._files:
            self._files.close()
            self._files = None

    def close(self) -> None:
        """End it and release its memory. Safe to call twice."""
        if self._judge.fileno() < 0:
            return
        try:
            self._kill()
        finally:
            if self._exchange:
                self._exchange.close()
            self._forget_files()
            self._judge.close()
            self._accounting.close()
            if self._started:
                self._started.release()
