"""Sandbox profiles: ``sandboxes/*.toml``, data that says what a kind of cage preloads, mounts and may use."""

import tomllib
from functools import cache
from pathlib import Path

from pydantic import Field, model_validator

from infra_agent import share
from infra_agent.errors import UsageError
from infra_agent.frozen import Frozen, one_line

_MOST_MB = 1 << 24
"""16 TiB: more is a slip of the pen."""


class Limits(Frozen):
    """Limits of one request. Sizes in MiB, times in seconds."""

    memory_mb: int = Field(default=8192, gt=0, le=_MOST_MB)
    """All of a request together, files in its scratch space and shared memory included."""
    address_space_mb: int = Field(default=8192, ge=0, le=_MOST_MB)
    """Virtual memory of each process; 0 for none, which a GPU's driver needs."""
    processes: int = Field(default=64, gt=0, le=100_000)
    cpu_s: int = Field(default=600, gt=0, le=10_000_000)
    """CPU time of each process."""
    disk_mb: int = Field(default=512, gt=0, le=_MOST_MB)
    """The scratch space (/ws, /tmp and /dev/shm together), in memory."""
    inodes: int = Field(default=20_000, ge=16, le=100_000_000)
    open_files: int = Field(default=1024, ge=32, le=1_000_000)
    """Descriptors of each process; fewer where no control group counts what sockets hold."""
    file_size_mb: int = Field(default=256, gt=0, le=_MOST_MB)
    output_mb: int = Field(default=4, gt=0, le=1024)
    """Standard output and error; more ends the request."""
    wall_s: float = Field(default=120.0, gt=0, le=1_000_000)


class Profile(Frozen):
    """One kind of cage."""

    name: str
    about: str
    preload: tuple[str, ...] = ()
    """Modules PID 1 imports before it forks. They must run no op: a fork after threads may hang."""
    environment: dict[str, str] = Field(default_factory=dict)
    """Variables set in the cage; ``{tmp}`` in a value is the temporary folder, which is not /tmp in every sandbox."""
    pass_environment: tuple[str, ...] = ()
    """Names of the host's variables that the cage may see. Everything else is cleared."""
    mounts: dict[str, Path] = Field(default_factory=dict)
    """Place in the cage -> host folder or file, read-only. /usr and the Python installation are always there."""
    devices: tuple[str, ...] = ()
    """Patterns of device files that the cage may open, as /dev/nvidia*."""
    ptrace: bool = False
    """Requests may trace their own processes: for profilers. Judged evidence is never made in such a cage."""
    in_mb: int = Field(default=512, gt=0, le=_MOST_MB)
    """Capacity of the input mapping (sparse)."""
    out_mb: int = Field(default=512, gt=0, le=_MOST_MB)
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _sound(self) -> "Profile":
        for place in self.mounts:
            if not place.startswith("/") or ".." in place.split("/"):
                raise ValueError(f"mounts: '{place}' is not an absolute place in the cage")
        for pattern in self.devices:
            if not pattern.startswith("/dev/") or ".." in pattern.split("/"):
                raise ValueError(f"devices: '{pattern}' does not lie under /dev/")
        for name, value in self.environment.items():
            if "\0" in name + value or "=" in name:
                raise ValueError(f"environment: '{name}' or its value cannot be in an environment")
        return self


@cache
def load(name: str) -> Profile:
    """Read a profile; raises UsageError naming the file, the key, and the profiles there are."""
    folder = share.root() / "sandboxes"
    path = folder / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.toml")))
        raise UsageError(f"unknown sandbox profile '{name}'; there are: {known}")
    try:
        return Profile(name=name, **tomllib.loads(path.read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{path}: {one_line(error)}") from error
