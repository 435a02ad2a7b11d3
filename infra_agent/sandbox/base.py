"""What a sandbox is: the protocol that every backend's cages follow, and what comes back from them."""

import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from infra_agent.sandbox.mapping import Layout
from infra_agent.session.observation import Isolation

Shapes = dict[str, tuple[str, tuple[int, ...]]]
"""Output name -> (dtype as safetensors names it, shape)."""
REPORT_MB = 16

Ended = Literal["ok", "failed", "signal", "timeout", "oom", "output_limit", "disk_limit", "bad_report", "stopped", "broken"]


@dataclass(frozen=True)
class Result:
    """How a request ended and what it used."""

    ended: Ended
    code: int
    text: bytes
    """Standard output and error, up to the profile's cap."""
    report: bytes = field(repr=False)
    output: bytes = field(repr=False)
    layout: Layout = field(repr=False)
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    """Highest memory while it ran, MiB, beyond what the idle cage held; files in its scratch space included."""
    read_bytes: int = 0
    written_bytes: int = 0

    @property
    def ok(self) -> bool:
        """True when the program ended by itself with status 0."""
        return self.ended == "ok"

    @property
    def why(self) -> str:
        """How it ended, in words: 'killed by SIGSEGV', 'exit status 3', 'out of memory'."""
        if self.ended == "signal":
            return f"killed by {_signal_name(self.code - 128)}"
        return {"failed": f"exit status {self.code}", "ok": "exit status 0"}.get(self.ended, _WORDS.get(self.ended, self.ended))


_WORDS = {
    "timeout": "out of time", "oom": "out of memory", "output_limit": "too much output", "disk_limit": "too much written",
    "bad_report": "impossible report", "stopped": "stopped", "broken": "the cage broke",
}  # fmt: skip


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


@dataclass(frozen=True)
class Reply:
    """What came back from one call to a standing request. ``wall_ns`` is the judge's clock, ``child_ns`` the child's: advice.

    ``early``: something was sent before it was asked for. ``lost``: what came was not a reply. ``moving``: a reply came, but the request
    could not be stopped after it, or took CPU time before it while it was to be stopped. ``ended``: the request is over.
    """

    status: Literal["ok", "error", "early", "lost", "moving", "ended", "timeout"]
    wall_ns: int
    child_ns: int = 0
    idle_cpu_ns: int = 0
    """CPU time of the whole sandbox between the last reply and this call, while all of it was to be stopped: more than PID 1's own
    fraction of a millisecond is contention."""


class ServiceEndedError(ConnectionError):
    """The service that a connection was asked for has ended."""


class Sandbox(Protocol):
    """A started sandbox. It runs one request at a time; one that did not end well costs the sandbox, and callers take a new one.

    A *request* runs from start to end (``run``) or stays and answers calls (``start``, ``put``, ``call``, ``stop``), stopped whenever
    no call is under way. A *service* stays and runs freely; the judge's client reaches it with ``connect``.
    """

    isolation: Isolation
    notes: tuple[str, ...]
    """What this sandbox does not hold, or holds another way, as short clauses."""
    alive: bool

    def run(
        self,
        program: str,
        args: dict[str, Any],
        sections: dict[str, bytes] | None = None,
        shapes: Shapes | None = None,
        timeout_s: float | None = None,
        report_mb: int = REPORT_MB,
    ) -> Result:
        """Run a program to its end."""

    def start(
        self,
        program: str,
        args: dict[str, Any],
        sections: dict[str, bytes] | None = None,
        shapes: Shapes | None = None,
        timeout_s: float | None = None,
    ) -> Reply:
        """Start a program that stays; it is stopped as soon as it is ready."""

    def serve(self, program: str, args: dict[str, Any], sections: dict[str, bytes] | None = None) -> None:
        """Start a program that stays and runs freely; :class:`~infra_agent.sandbox.service.Service` knows when it is ready."""

    def call(self, first: int = 0, count: int = 1, timeout_s: float | None = None) -> Reply:
        """Let the standing program run until it has answered for ``count`` slots from ``first``."""

    def put(self, sections: Mapping[str, bytes], length: int | None = None) -> None:
        """Give sections of the standing request other bytes, of the same lengths, and poison the first ``length`` bytes of its outputs."""

    def output(self, length: int | None = None) -> bytes:
        """The output slots and their guards as they are now, or their first ``length`` bytes."""

    @property
    def layout(self) -> Layout:
        """Where the outputs of the request under way lie."""

    def pin(self, cores: set[int]) -> None:
        """Let the sandbox, and every request it starts from now on, run on these cores of the host only."""

    def stop(self) -> Result:
        """End the standing request, whole; the sandbox stays warm."""

    def get(self, path: str, limit: int) -> bytes:
        """A file that the last request left, as ``ws/...``, ``tmp/...`` or ``shm/...``; until the next request starts."""

    def connect(self, port: int, timeout_s: float) -> socket.socket:
        """A TCP connection to a port on the loopback of the request under way. Raises ServiceEndedError, or OSError as connecting does."""

    def place(self, target: str) -> str:
        """Where the sandbox shows what was mounted as ``target``."""

    def kill(self) -> None:
        """Kill everything in it, from any thread; a request under way ends as ``broken``."""

    def close(self) -> None:
        """End it and release its memory. Safe to call twice."""
