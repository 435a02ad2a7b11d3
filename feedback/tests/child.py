"""Run a project's command as a child that has nothing of the runner's memory."""

import os
import subprocess
import sys
import tempfile
from typing import NamedTuple

from sandboxes.runtime.request import WORKSPACE

_TEXT = 256 << 10


class Ended(NamedTuple):
    """Exit status, negative for a signal, and the last 256 KiB of what was printed."""

    code: int
    text: str


def run(argv: list[str], variables: dict[str, str]) -> Ended:
    """Run ``argv`` in the workspace to its end. A command that is not there ends with status 127."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("CAGE_")}
    search = f"{own['PYTHONPATH']}:{WORKSPACE}" if own.get("PYTHONPATH") else WORKSPACE
    command = [sys.executable, *argv[1:]] if argv[0] in ("python", "python3") else argv
    with tempfile.TemporaryFile() as printed:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, check=False, cwd=WORKSPACE,
                env=own | {"PYTHONPATH": search} | variables,
            )  # fmt: skip
        except OSError as error:
            return Ended(127, f"{command[0]}: {error.strerror}")
        size = printed.seek(0, os.SEEK_END)
        printed.seek(max(0, size - _TEXT))
        return Ended(done.returncode, printed.read().decode(errors="replace"))
