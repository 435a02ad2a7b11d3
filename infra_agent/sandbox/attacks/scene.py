"""What there is to steal, break and reach on the host while attacks run; and what the host saw of it afterwards."""

import json
import os
import secrets
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

_VARIABLE = "INFRA_AGENT_ATTACK_KEY"


class Scene:
    """A host with a key file, a key in the environment, listeners, and a process of the same user. Use as a context manager."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="infra-agent-attacks-")
        self.home = Path(self._folder.name)
        self.secret = secrets.token_hex(16)
        self.key_file = self.home / "id_ed25519"
        self.key_file.write_text(self.secret)
        self._before = os.environ.get(_VARIABLE)
        os.environ[_VARIABLE] = self.secret
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._abstract = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._abstract.bind(f"\0{self.secret}")
        self._path = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._path.bind(str(self.home / "agent.sock"))
        self._listeners = {"TCP": self._tcp, "UDP": self._udp, "abstract socket": self._abstract, "socket file": self._path}
        for listener in self._listeners.values():
            listener.setblocking(False)
        self.victim = subprocess.Popen(["sleep", "3600"])

    def __enter__(self) -> "Scene":
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            listener.close()
        self.victim.kill()
        self.victim.wait()
        if self._before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = self._before
        self._folder.cleanup()

    def told(self) -> dict[str, Any]:
        """What an attacker is told: everything but the secret. It knows where each thing is, so that only the wall is between them."""
        return {
            "home": str(self.home), "key_file": str(self.key_file), "variable": _VARIABLE,
            "tcp_port": self._tcp.getsockname()[1], "udp_port": self._udp.getsockname()[1],
            "abstract_name_bytes": list(self._abstract.getsockname()), "socket_file": str(self.home / "agent.sock"),
            "victim_pid": self.victim.pid, "host_pid": os.getpid(),
        }  # fmt: skip

    def told_json(self) -> str:
        """The same as JSON."""
        return json.dumps(self.told())

    def damage(self, text: bytes) -> str | None:
        """What the host sees that must not be, in words; None when nothing happened to it. ``text`` is what the attack printed."""
        if self.secret.encode() in text:
            return "the secret was read"
        if sorted(path.name for path in self.home.iterdir()) != ["agent.sock", "id_ed25519"]:
            return f"files appeared in {self.home}: {sorted(path.name for path in self.home.iterdir())}"
        if self.key_file.read_text() != self.secret:
            return "the key file was changed"
        if self.victim.poll() is not None:
            return f"the host's process ended with {self.victim.returncode}"
        reached = [name for name, listener in self._listeners.items() if _was_reached(listener)]
        return f"reached from inside: {', '.join(reached)}" if reached else None


def _was_reached(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(64)
    except BlockingIOError:
        return False
    return True
