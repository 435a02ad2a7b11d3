"""One cage: a warm worker behind a backend's wall, asked to run one request at a time."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from infra_agent.errors import SandboxError
from infra_agent.sandbox import accounting, choose, wire
from infra_agent.sandbox.artefacts import Artefacts
from infra_agent.sandbox.backend import Backend, Launch, Started
from infra_agent.sandbox.base import REPORT_MB, Reply, Result, Sandbox, ServiceEndedError, Shapes
from infra_agent.sandbox.exchange import Exchange, drain
from infra_agent.sandbox.mapping import Layout, Mappings, plan
from infra_agent.sandbox.profile import Profile
from infra_agent.sandbox.text import last_line

_READY_S = 60.0
_GONE_S = 10.0
_EAGER_S = 0.02
"""How long the judge awaits a call's end without sleeping, where it has a core of its own."""
_FEWEST_FILES = 32
_MOST_FILES_OF_A_USER = 600
"""Descriptors on their way through sockets count for all of a uid together: a request must not use up what its host may have there."""
_IDLE_CPU_NS = 5_000_000
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
        self._started: Started | None = None
        self._exchange: Exchange | None = None
        self._files: Artefacts | None = None
        self._watcher: threading.Thread | None = None
        self._sequence = self._held_at = 0
        self._eager_s = 0.0
        self._resources = ExitStack()
        try:
            self._start(hidden)
        except OSError as error:
            self.close()
            raise SandboxError(f"the cage did not start: {error}") from error
        except BaseException:
            self.close()
            raise

    def _start(self, hidden: tuple[Path, ...]) -> None:
        self._processes = self._backend.process_limit(self.profile.limits.processes, self._mounts)
        self._accounting = accounting.choose()
        self._resources.callback(lambda: self._accounting.close())
        self._judge, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._resources.callback(self._judge.close)
        with theirs:
            said, own_text = os.pipe()
            try:
                with os.fdopen(own_text, "wb") as text:
                    launch = Launch(self.profile, self._mounts, hidden, theirs.fileno(), text.fileno())
                    self._started = self._backend.launch(launch)
                self._resources.callback(self._started.release)
                theirs.close()
                self._await_ready(self._started, said)
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
                self._adopt(started.pid1)
            self._judge.send(self._backend.filter(self.profile, self._mounts, self._accounting.look_s is None) or b"-")
            message = self._judge.recv(64)
        except OSError:
            message = b""  # what it printed says why
        if len(message) != wire.READY.size:
            self._kill()
            os.set_blocking(said, False)
            text = drain(said, 1 << 16).decode(errors="replace").strip()
            raise SandboxError(f"the cage did not start: {text.splitlines()[-1] if text else 'no message'}{self._backend.advice(text)}")
        _, threads, scope = wire.READY.unpack(message)
        if threads != 1:
            raise SandboxError(f"profile {self.profile.name}: preloading started {threads} threads; a fork could hang")
        self._accounting.settle(self.profile.limits.memory_mb << 20, self.profile.limits.processes)
        if scope.rstrip(b"\0") == b"flat":
            self.notes = (*self.notes, "requests share the cage's namespaces and are kept apart by killing and wiping")
        self._judge.settimeout(None)
        self.alive = True

    def _adopt(self, pid1: int) -> None:
        """Put PID 1 under its limits. A group that lets itself be made but not entered is no use: then the host watches."""
        try:
            self._accounting.adopt(pid1)
        except OSError:
            self._accounting.close()
            self._accounting = accounting.Watchdog()
            self._accounting.adopt(pid1)

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
        if self.isolation != "full":
            raise SandboxError(f"a service needs a network of its own: isolation full, not {self.isolation}")
        self._begin(program, args, sections or {}, plan({}, REPORT_MB << 20), 0)
        self._watcher = threading.Thread(target=self._watch, args=(self._under_way(),), daemon=True)
        self._watcher.start()

    def _watch(self, exchange: Exchange) -> None:
        """Drain a service's text and see to its limits, while nobody waits for it."""
        while self._exchange is exchange:
            try:
                passed = exchange.look()
            except OSError:
                passed = "broken"  # the host cannot look: what nobody watches does not run
            if passed:
                exchange.finish(b"", passed)
                self.kill()
                return
            time.sleep(accounting.LOOK_S)

    def _begin(self, program: str, args: dict[str, Any], sections: dict[str, bytes], layout: Layout, flags: int) -> None:
        if not self.alive or self._started is None:
            raise SandboxError("this cage is closed")
        if self._exchange:
            raise SandboxError("a request is under way in this cage; stop it first")
        self._forget_files()
        self._started.refresh()
        limits = self.profile.limits
        sizes = (limits.address_space_mb << 20, limits.file_size_mb << 20)
        counts = (self._processes, limits.cpu_s, limits.disk_mb << 20, limits.inodes, self._open_files())
        try:
            memory = Mappings(program, args, sections, layout, (self.profile.in_mb << 20, self.profile.out_mb << 20))
            exchange = Exchange(self._judge, self._accounting, limits, self._started.scratch, memory)
        except OSError as error:
            raise SandboxError(f"a request could not be made: {error}") from error
        self._exchange = exchange
        exchange.begin(wire.START.pack(b"STRT", flags, *sizes, *counts))

    def _open_files(self) -> int:
        """Descriptors of a process. Where nothing counts the kernel's own memory, full sockets must not hold more than the request may."""
        limits = self.profile.limits
        if self._accounting.look_s is None:
            return limits.open_files if os.geteuid() == 0 else min(limits.open_files, _MOST_FILES_OF_A_USER)
        affordable = (limits.memory_mb << 20) // (limits.processes * accounting.socket_bytes())
        return max(_FEWEST_FILES, min(limits.open_files, affordable, _MOST_FILES_OF_A_USER))

    def _under_way(self) -> Exchange:
        if self._exchange is None:
            raise SandboxError("no request is under way in this cage")
        return self._exchange

    def call(self, first: int = 0, count: int = 1, timeout_s: float | None = None) -> Reply:
        """Let the standing program run until it has answered for ``count`` slots from ``first``."""
        exchange = self._under_way()
        self._sequence += 1
        message = wire.CALL.pack(b"CALL", self._sequence, first, count)
        try:
            idle = self._accounting.clock_ns() - self._held_at
            began = time.perf_counter_ns()
            exchange.tell(message)
            reply = self._await_reply(began, timeout_s)
        except OSError as error:
            raise SandboxError(f"a call could not be made: {error}") from error
        late = reply.status == "ok" and idle > _IDLE_CPU_NS
        return replace(reply, idle_cpu_ns=idle, status="moving" if late else reply.status)

    def _await_reply(self, began: int, timeout_s: float | None) -> Reply:
        exchange = self._under_way()
        message, broke = exchange.receive(timeout_s or self.profile.limits.wall_s, self._eager_s)
        wall = time.perf_counter_ns() - began
        if len(message) == wire.REPLY.size:
            _, sequence, status, ns = wire.REPLY.unpack(message)
            after, broke = exchange.receive(_GONE_S, self._eager_s)
            if sequence == self._sequence and len(after) == wire.HELD.size:
                self._held_at = self._accounting.clock_ns()
                return Reply(_STATUS[status] if wire.HELD.unpack(after)[1] else "moving", wall, ns)
            message = after
        exchange.finish(message, broke)
        return Reply("timeout" if broke == "timeout" else "ended", wall)

    def put(self, sections: Mapping[str, bytes], length: int | None = None) -> None:
        """Give sections of the standing request other bytes, and poison the outputs, or their first ``length`` bytes, again."""
        memory = self._under_way().memory
        for section, data in sections.items():
            memory.put(section, data)
        memory.poison(length)

    def output(self, length: int | None = None) -> bytes:
        """The output slots and their guards as they are now, or their first ``length`` bytes."""
        return self._under_way().memory.output(length)

    @property
    def layout(self) -> Layout:
        """Where the outputs of the request under way lie."""
        return self._under_way().memory.layout

    def pin(self, cores: set[int]) -> None:
        """Let PID 1, and every request it starts from now on, run on these cores of the host only."""
        if self._started is not None and self._started.pid1 > 0:
            os.sched_setaffinity(self._started.pid1, cores)
            self._eager_s = 0.0 if cores & os.sched_getaffinity(0) else _EAGER_S

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
            self._files = exchange.take_files()
            result = exchange.outcome(message, broke, stopped=stopped)
            if result.ended not in ("ok", "stopped"):
                self._kill()
        except OSError as error:
            self._kill()
            raise SandboxError(f"a request's end could not be read: {error}") from error
        except BaseException:
            self._kill()
            raise
        finally:
            self._exchange = None
            if self._watcher:
                self._watcher.join()
                self._watcher = None
            exchange.close()
        if self._files is None and message and not broke:
            raise SandboxError(f"a request could not be set up: {last_line(result.text)}")
        return result

    def get(self, path: str, limit: int) -> bytes:
        """A file that the last request left, as ``ws/...``, ``tmp/...`` or ``shm/...``; until the next request starts."""
        if self._files is None:
            raise SandboxError("no request has left files in this cage")
        return self._files.read(path, limit)

    def connect(self, port: int, timeout_s: float) -> socket.socket:
        """A TCP connection to a port on the cage's own loopback: PID 1 makes the socket, whose network is the cage's."""
        if self.isolation != "full":
            raise SandboxError(f"isolation {self.isolation} has no network of its own")
        exchange = self._exchange
        made = exchange.ask_socket() if exchange else None
        if made is None:
            raise ServiceEndedError("the service has ended")
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
        exchange, self._exchange = self._exchange, None
        try:
            self._kill()
        finally:
            if self._watcher:
                self._watcher.join()
                self._watcher = None
            if exchange:
                exchange.close()
            self._forget_files()
            self._resources.close()
