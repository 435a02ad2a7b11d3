"""A service in a sandbox: a process tree that the judge starts, waits for, talks to over its own loopback, and ends whole."""

import http.client
import socket
import time
from dataclasses import dataclass, field

from infra_agent.errors import SandboxError
from infra_agent.sandbox.base import Result, Sandbox

_PROGRAM = "sandboxes.runtime.shell"
_POLL_S = 0.02
_CONNECT_S = 2.0


@dataclass(frozen=True)
class ServiceSpec:
    """What to start and when it is ready."""

    command: str
    """A shell command in the workspace. It may start as many processes as the profile allows."""
    port: int
    """Where it listens on the sandbox's loopback; every sandbox has all 65535 of its own."""
    ready_path: str | None = None
    """An HTTP path that answers below 400 once it is ready; None: ready when the port accepts."""
    ready_s: float = 60.0
    files: bytes = field(default=b"", repr=False)
    """The workspace as tar bytes."""


class Service:
    """A running service. ``connection`` and ``connect`` are the judge's client's way in: sockets of the sandbox's network.

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
        self._sandbox.serve(_PROGRAM, {"command": self._spec.command}, {"tree": self._spec.files} if self._spec.files else {})
        while not self._ready():
            if time.monotonic() - began > self._spec.ready_s:
                raise SandboxError(f"the service was not ready after {self._spec.ready_s:.0f} s: {self._last_words()}")
            time.sleep(_POLL_S)
        self.ready_after_s = time.monotonic() - began

    def _ready(self) -> bool:
        try:
            if self._spec.ready_path is None:
                self.connect().close()
                return True
            with_http = self.connection()
            with_http.request("GET", self._spec.ready_path)
            status = with_http.getresponse().status
            with_http.close()
            return status < 400
        except ConnectionRefusedError:
            return False
        except ConnectionError as error:
            raise SandboxError(f"the service ended before it was ready: {self._last_words()}") from error
        except (OSError, http.client.HTTPException):
            return False

    def _last_words(self) -> str:
        result = self._sandbox.stop()
        lines = result.text.decode(errors="replace").strip().splitlines()
        return f"{result.why}; {lines[-1][:300] if lines else 'it printed nothing'}"

    def connect(self, timeout_s: float = _CONNECT_S) -> socket.socket:
        """A TCP connection to the service. Raises ConnectionError when it is gone, OSError when it does not accept."""
        return self._sandbox.connect(self._spec.port, timeout_s)

    def connection(self, timeout_s: float = _CONNECT_S) -> http.client.HTTPConnection:
        """An HTTP connection to the service, over :meth:`connect`."""
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
