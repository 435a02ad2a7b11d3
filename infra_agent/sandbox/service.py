"""A service in a sandbox: a process tree that the judge starts, waits for, talks to over its own loopback, and ends whole."""

import http.client
import socket
import time
from dataclasses import dataclass, field

from infra_agent.errors import SandboxError
from infra_agent.sandbox.base import Result, Sandbox, ServiceEndedError
from infra_agent.sandbox.text import last_line

_PROGRAM = "sandboxes.runtime.shell"
_POLL_S = 0.02
_CONNECT_S = 2.0
_MOST_OF_A_HEAD = 4096


@dataclass(frozen=True)
class ServiceSpec:
    """What to start and when it is ready."""

    command: str
    """A shell command in the workspace. It may start as many processes as the profile allows."""
    port: int
    """Where it listens on its loopback; every request has all 65535 of its own."""
    ready_path: str | None = None
    """An HTTP path that answers 2xx or 3xx once it is ready; None: ready when the port accepts."""
    ready_s: float = 60.0
    files: bytes = field(default=b"", repr=False)
    """The workspace as tar bytes."""


class Service:
    """A running service. ``connection`` and ``connect`` are the judge's client's way in: sockets of the service's network.

    No process relays the bytes: PID 1 makes the socket, hands it over unconnected, and has no part in what follows.
    """

    def __init__(self, sandbox: Sandbox, spec: ServiceSpec) -> None:
        """Start it and wait until it is ready. Raises SandboxError with the end of what it printed when it is not."""
        self._sandbox = sandbox
        self._spec = spec
        self.ready_after_s = 0.0
        self._start()

    def _start(self) -> None:
        began = time.monotonic()
        deadline = began + self._spec.ready_s
        self._sandbox.serve(_PROGRAM, {"command": self._spec.command}, {"tree": self._spec.files} if self._spec.files else {})
        while not self._ready(deadline):
            if time.monotonic() > deadline:
                raise SandboxError(f"the service was not ready after {self._spec.ready_s:g} s: {self._last_words()}")
            time.sleep(_POLL_S)
        self.ready_after_s = time.monotonic() - began

    def _ready(self, deadline: float) -> bool:
        left = min(_CONNECT_S, deadline - time.monotonic())
        try:
            with self.connect(max(left, _POLL_S)) as made:
                return self._spec.ready_path is None or _answers(made, self._spec.ready_path, time.monotonic() + max(left, _POLL_S))
        except ServiceEndedError as error:
            raise SandboxError(f"the service ended before it was ready: {self._last_words()}") from error
        except OSError:
            return False

    def _last_words(self) -> str:
        result = self._sandbox.stop()
        return f"{result.why}; {last_line(result.text)}"

    def connect(self, timeout_s: float = _CONNECT_S) -> socket.socket:
        """A TCP connection to the service. Raises ServiceEndedError when it has ended, OSError when it does not accept."""
        return self._sandbox.connect(self._spec.port, timeout_s)

    def connection(self, timeout_s: float = _CONNECT_S) -> http.client.HTTPConnection:
        """An HTTP connection to the service, over :meth:`connect`. The time-out is for each wait: a client must bound the whole."""
        made = http.client.HTTPConnection("service", self._spec.port, timeout=timeout_s)
        made.sock = self.connect(timeout_s)
        return made

    def reset(self) -> Result:
        """End it whole and start it anew with empty scratch space: nothing cached on one side of a comparison helps the other."""
        result = self._sandbox.stop()
        self._start()
        return result

    def stop(self) -> Result:
        """End every process of the service; what they printed and used comes back."""
        return self._sandbox.stop()


def _answers(made: socket.socket, path: str, deadline: float) -> bool:
    """Does a GET come back with 2xx or 3xx? Bounded in time and bytes as a whole, whatever the service sends, and however slowly."""
    made.sendall(f"GET {path} HTTP/1.1\r\nHost: service\r\nConnection: close\r\n\r\n".encode())
    head = b""
    while b"\n" not in head and len(head) < _MOST_OF_A_HEAD:
        made.settimeout(max(deadline - time.monotonic(), 0.001))
        part = made.recv(_MOST_OF_A_HEAD)
        if not part:
            return False
        head += part
        if time.monotonic() > deadline:
            return False
    words = head.split(b"\n", 1)[0].split()
    return len(words) >= 2 and words[0].startswith(b"HTTP/1.") and words[1][:1] in (b"2", b"3")
