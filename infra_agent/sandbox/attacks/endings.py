"""What is left when the host itself is killed, or gives up on a request."""

import os
import signal
import subprocess
import time
from pathlib import Path

from infra_agent.sandbox.attacks.base import Arena, Attack, Trial

_APPEARS_S, _GONE_S = 20.0, 5.0


def _alive(marker: str) -> list[int]:
    """Processes of the host whose first argument but one is ``marker``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().split(b"\0")[1:2] == [marker.encode()]:
                found.append(int(path.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended between the two looks
    return found


def _wait(marker: str, alive: bool, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if bool(_alive(marker)) == alive:
            return True
        time.sleep(0.02)
    return False


def _host_killed(arena: Arena) -> Trial:
    marker = f"86400.{int.from_bytes(os.urandom(3), 'little')}"
    with subprocess.Popen(arena.host_program(f"setsid sleep {marker} & sleep {marker}"), stderr=subprocess.DEVNULL) as host:
        appeared = _wait(marker, True, _APPEARS_S)
        host.kill()
    if not appeared:
        return Trial("escaped", "the attack did not do its work: nothing was started")
    gone = _wait(marker, False, _GONE_S)
    for pid in _alive(marker):
        os.kill(pid, signal.SIGKILL)
    return Trial("held") if gone else Trial("escaped", f"alive {_GONE_S:.0f} s after the host was killed")


FAMILY: tuple[Attack, ...] = (
    Attack("host-killed", "processes", "outlive a host that was ended with SIGKILL and could clean nothing up", _host_killed),
)  # fmt: skip
