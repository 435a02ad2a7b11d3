"""What a backend does: start PID 1 of a cage behind its own kind of wall. Cages drive all of them the same way."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from infra_agent.sandbox.profile import Profile
from infra_agent.session.observation import Isolation


@dataclass(frozen=True)
class Launch:
    """What to start. ``judge_fd`` is the socket that PID 1 inherits."""

    profile: Profile
    mounts: dict[str, Path]
    """Place in the cage -> host folder, read-only."""
    hidden: tuple[Path, ...]
    """Host folders that must not show."""
    judge_fd: int
    text_fd: int
    """Where PID 1 prints."""


class Started(Protocol):
    """A started PID 1 and everything below it."""

    pid1: int
    """Its pid on the host; -1 when it did not get that far."""
    scratch: Path | None
    """The host folder behind the writable places, when the host must empty it between requests."""

    def kill(self) -> None:
        """Kill it and everything it started, from any thread; harmless when it is gone."""

    def wait(self, timeout_s: float) -> None:
        """Return when the last process is gone; raises subprocess.TimeoutExpired."""

    def refresh(self) -> None:
        """Empty the scratch folder, where it is the host's."""

    def release(self) -> None:
        """Give back what the host holds for it."""


class Backend(Protocol):
    """One way to wall code off."""

    name: str
    isolation: Isolation

    @property
    def not_held(self) -> tuple[str, ...]:
        """What this level does not hold, as short clauses a verdict can carry."""

    @property
    def not_claimed(self) -> dict[str, str]:
        """Attacks of the self-check that this level does not claim to hold -> why."""

    def refusal(self) -> str | None:
        """Why it cannot be had here, with the line that mends it; None when it can."""

    def filter(self, profile: Profile, mounts: dict[str, Path], counted: bool) -> bytes:
        """The seccomp program of its requests; empty for none. ``counted``: what the kernel holds for them is held against a limit."""

    def launch(self, launch: Launch) -> Started:
        """Start PID 1."""

    def advice(self, text: str) -> str:
        """What usually helps when starting ended with ``text``, as a clause; empty when nothing is known."""

    def process_limit(self, wanted: int, mounts: dict[str, Path]) -> int:
        """The RLIMIT_NPROC with which a request may start ``wanted`` processes: the kernel counts all of a uid."""

    def place(self, target: str, mounts: dict[str, Path]) -> str:
        """Where code inside finds what was mounted as ``target``."""


@dataclass
class Plain:
    """A process with nothing but a pid: what all backends start from."""

    process: subprocess.Popen[bytes]
    pid1: int
    scratch: Path | None = field(default=None)

    def wait(self, timeout_s: float) -> None:
        """Return when the process is gone."""
        self.process.wait(timeout_s)


def environment(profile: Profile, home: str, path: str, python_path: str, judge_fd: int) -> dict[str, str]:
    """The whole environment of a cage: nothing of the host's but what the profile lets pass."""
    passed = {name: os.environ[name] for name in profile.pass_environment if name in os.environ}
    fixed = {
        "PATH": f"{path}:/usr/local/bin:/usr/bin:/bin", "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8",
        "TERM": "dumb", "PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1",
        "PYTHONPATH": python_path, "PYTHONDONTWRITEBYTECODE": "1",
        "CAGE_JUDGE_FD": str(judge_fd), "CAGE_PRELOAD": ",".join(profile.preload),
    }  # fmt: skip
    own = {name: value.replace("{tmp}", home) for name, value in profile.environment.items()}
    return passed | fixed | ({"CAGE_PTRACE": "1"} if profile.ptrace else {}) | own


def worker_argv(python: str) -> list[str]:
    """The command line of PID 1."""
    return [python, "-P", "-s", "-B", "-m", "sandboxes.worker"]


def python_prefixes() -> tuple[Path, Path]:
    """Folders of the base interpreter and of this environment."""
    return Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve()
