"""Where attacks are tried: a sandbox of any backend, and the naive control."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from infra_agent.sandbox.attacks.base import Outcome
from infra_agent.sandbox.attacks.scene import Scene
from infra_agent.sandbox.backend import Backend
from infra_agent.sandbox.base import Sandbox
from infra_agent.sandbox.bubblewrap import executable
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.direct import empty
from infra_agent.sandbox.profile import Limits, Profile
from infra_agent.task.tree import pack

LIMITS = Limits(
    memory_mb=512, address_space_mb=4096, processes=48, cpu_s=20, disk_mb=64, inodes=4000, file_size_mb=48, output_mb=1, wall_s=15.0
)
"""Small enough that a bomb is cheap to set off."""
_HOST = """
import sys
from infra_agent.sandbox import choose
from infra_agent.sandbox.cage import Cage
from infra_agent.sandbox.direct import empty
from infra_agent.sandbox.profile import Profile
cage = Cage(Profile(name="host", about=""), backend=choose.pick(sys.argv[1]))
cage.run("sandboxes.runtime.shell", {"command": sys.argv[2]}, timeout_s=600)
"""


class SandboxArena:
    """A sandbox of a backend. A cage that an attack cost is replaced, as a pool would."""

    def __init__(self, scene: Scene, backend: Backend, profile: Profile | None = None) -> None:
        self.scene = scene
        self._backend = backend
        self._profile = profile or Profile(name="attacks", about="Attacks", limits=LIMITS)
        self.sandbox: Sandbox | None = None

    def live(self) -> Sandbox:
        """A sandbox that is alive."""
        if self.sandbox is None or not self.sandbox.alive:
            self.close()
            self.sandbox = Cage(self._profile, backend=self._backend)
        return self.sandbox

    def run(self, code: str, timeout_s: float) -> Outcome:
        """Run a program as a request."""
        tree = pack({"attack.py": code.encode(), "scene.json": self.scene.told_json().encode()})
        result = self.live().run("attack", {}, {"tree": tree}, timeout_s=timeout_s)
        return Outcome(result.ended, result.text, result.wall_s)

    def host_program(self, command: str) -> list[str]:
        """A host of its own, with a cage of the same backend."""
        return [sys.executable, "-c", _HOST, self._backend.name, command]

    def get(self, path: str, limit: int) -> bytes:
        """Through the sandbox's reader."""
        assert self.sandbox
        return self.sandbox.get(path, limit)

    def close(self) -> None:
        """End the sandbox."""
        if self.sandbox:
            self.sandbox.close()


class NaiveArena:
    """What many do: bubblewrap with the whole disk read-only, a pid namespace, a working folder, subprocess and its time-out.

    It is the control of the suite: attacks that it holds as well prove nothing about the rest.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.sandbox: Sandbox | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="infra-agent-naive-"))

    def _bubblewrap(self) -> list[str]:
        mounts = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind", str(self._folder), str(self._folder)]
        return [executable(), *mounts, "--unshare-pid", "--chdir", str(self._folder)]

    def run(self, code: str, timeout_s: float) -> Outcome:
        """Run a program the naive way."""
        (self._folder / "attack.py").write_text(code)
        (self._folder / "scene.json").write_text(json.dumps(self.scene.told()))
        argv = [*self._bubblewrap(), sys.executable, "attack.py"]
        began = time.monotonic()
        try:
            done = subprocess.run(argv, capture_output=True, timeout=timeout_s, check=False, env={**os.environ, "PYTHONSAFEPATH": ""})
            ended, text = ("ok" if done.returncode == 0 else "failed"), done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            ended, text = "timeout", (late.stdout or b"") + (late.stderr or b"")
        return Outcome(ended, text, time.monotonic() - began)

    def host_program(self, command: str) -> list[str]:
        """subprocess.run, waiting."""
        argv = [*self._bubblewrap(), "sh", "-c", command]
        return [sys.executable, "-c", f"import subprocess; subprocess.run({argv!r})"]

    def get(self, path: str, limit: int) -> bytes:
        """By name, as one would."""
        with open(self._folder / path.removeprefix("ws/"), "rb") as file:
            return file.read(limit)

    def close(self) -> None:
        """Remove the folder."""
        empty(self._folder)
        self._folder.rmdir()
