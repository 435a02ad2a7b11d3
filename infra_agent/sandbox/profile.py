"""Sandbox profiles: ``sandboxes/*.toml``, data that says what a kind of cage preloads, mounts and may use."""

import tomllib
from functools import cache

from pydantic import Field

from infra_agent import share
from infra_agent.errors import UsageError
from infra_agent.frozen import Frozen, one_line


class Limits(Frozen):
    """Limits of one request."""

    address_space_mb: int = 8192
    """Virtual memory of each process, MiB."""
    file_size_mb: int = 256
    processes: int = 64
    cpu_s: int = 600
    tmpfs_mb: int = 512
    """Size of each writable tmpfs (/tmp, /ws, /dev/shm), MiB."""
    wall_s: float = 120.0
    output_mb: int = 4
    """Standard output and error, MiB; more ends the request."""


class Profile(Frozen):
    """One kind of cage."""

    name: str
    about: str
    preload: tuple[str, ...] = ()
    """Modules PID 1 imports before it forks. They must run no op: a fork after threads may hang."""
    environment: dict[str, str] = Field(default_factory=dict)
    in_mb: int = 512
    """Capacity of the input mapping, MiB (sparse)."""
    out_mb: int = 512
    limits: Limits = Limits()


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
