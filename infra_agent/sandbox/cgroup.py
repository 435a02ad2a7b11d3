"""One control group, version 2 or 1, made below this process's own. Both are files; each class knows the names of its version.

Sources: kernel documentation, admin-guide/cgroup-v2 and cgroup-v1/memory, cgroup-v1/pids.
"""

import os
import signal
import time
from pathlib import Path

_OWN_LEAF = "infra-agent-host"
_GONE_S = 2.0


def _number(path: Path, key: str = "") -> int:
    """A number in a file, alone or after a key at the start of a line; 0 when the kernel does not say."""
    try:
        return _found(path.read_bytes(), key.encode())
    except FileNotFoundError:
        return 0


def _found(text: bytes, key: bytes) -> int:
    for line in text.splitlines():
        words = line.split()
        if (not key and words) or words[:1] == [key]:
            return int(words[-1])
    return 0


class _Clock:
    """A number that is read twice for every timed call: the file stays open."""

    def __init__(self, path: Path, key: str = "") -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115  # closed with the group
        self._key = key.encode()

    def read(self) -> int:
        """The number now."""
        return _found(os.pread(self._file.fileno(), 4096, 0), self._key)

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


def _remove(folder: Path) -> None:
    """End what is in a group and remove it; a dying process keeps a group busy for a moment."""
    deadline = time.monotonic() + _GONE_S
    while folder.is_dir():
        try:
            for pid in map(int, (folder / "cgroup.procs").read_text().split()):
                _kill(pid)
            folder.rmdir()
        except FileNotFoundError:
            return  # another program of this kind was quicker
        except OSError:
            if time.monotonic() > deadline:
                return  # busy: the next start of this program removes it
            time.sleep(0.005)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended by itself


def _sweep(parent: Path) -> None:
    """Remove groups whose maker was killed before it could."""
    for folder in parent.glob("infra-agent-[0-9]*-*"):
        if not Path(f"/proc/{folder.name.split('-')[2]}").exists():
            _remove(folder)


class V2:
    """The unified hierarchy, where an ancestor of this process is delegated with memory and pids."""

    about = "cgroup v2: memory, processes and CPU counted and held by the kernel; files and shared memory included"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clock = _Clock(folder / "cpu.stat", "usage_usec")
        peak = folder / "memory.peak"
        self._peak = os.open(peak, os.O_RDWR if os.access(peak, os.W_OK) else os.O_RDONLY) if peak.exists() else -1
        swap = folder / "memory.swap.max"
        if swap.exists():
            swap.write_text("0")

    @classmethod
    def make(cls, name: str, own: Path) -> "V2 | None":
        """A group below the nearest ancestor that lets us; None when none does."""
        for parent in cls._ancestors(own):
            try:
                if not {"memory", "pids"} <= set((parent / "cgroup.subtree_control").read_text().split()):
                    cls._enable(parent)
                _sweep(parent)
                (parent / name).mkdir()
            except OSError:
                continue  # not delegated; a higher one may be
            try:
                return cls(parent / name)
            except OSError:
                _remove(parent / name)
        return None

    @staticmethod
    def _ancestors(own: Path) -> list[Path]:
        mounts = [line.split() for line in (own / "mountinfo").read_text().splitlines() if " - cgroup2 " in line]
        groups = [line[3:] for line in (own / "cgroup").read_text().splitlines() if line.startswith("0::")]
        if not mounts or not groups:
            return []
        root = Path(mounts[0][4])
        path = root / groups[0].lstrip("/")
        path = path.parent if path.name == _OWN_LEAF else path  # where an earlier cage moved this process to
        return [folder for folder in [path, *path.parents] if folder.is_relative_to(root)]

    @staticmethod
    def _enable(parent: Path) -> None:
        """Give children the controllers. The kernel refuses while the group itself has processes: ours alone we may move."""
        if (parent / "cgroup.procs").read_text().split() == [str(os.getpid())]:
            leaf = parent / _OWN_LEAF
            leaf.mkdir(exist_ok=True)
            (leaf / "cgroup.procs").write_text(str(os.getpid()))
        (parent / "cgroup.subtree_control").write_text("+memory +pids")

    def add(self, pid: int) -> None:
        """Move a process in."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def limit(self, memory: int, pids: int) -> None:
        """Set both limits."""
        (self._folder / "memory.max").write_text(str(memory))
        (self._folder / "pids.max").write_text(str(pids))

    def usage(self) -> int:
        """Bytes now."""
        return _number(self._folder / "memory.current")

    def peak(self) -> int:
        """Most bytes since the reset; kernels before 6.12 cannot reset and say the most since the group was made."""
        if self._peak < 0:
            return self.usage()
        return int(os.pread(self._peak, 32, 0))

    def reset_peak(self) -> None:
        """Start the high-water mark anew."""
        try:
            os.pwrite(self._peak, b"reset", 0)
        except OSError:
            return  # before 6.12; peak() says what it then means

    def kills(self) -> int:
        """Processes killed for memory so far."""
        return _number(self._folder / "memory.events", "oom_kill")

    def cpu_ns(self) -> int:
        """CPU time so far."""
        return self._clock.read() * 1000

    def processes(self) -> int:
        """Tasks now."""
        return _number(self._folder / "pids.current")

    def close(self) -> None:
        """End and remove the group."""
        if self._peak >= 0:
            os.close(self._peak)
            self._peak = -1
        self._clock.close()
        _remove(self._folder)


class V1:
    """Three hierarchies, where this user (as a rule root) may make groups in all of them."""

    about = "cgroup v1: memory, processes and CPU counted and held by the kernel; files and shared memory included"
    _CONTROLLERS = ("memory", "pids", "cpuacct")

    def __init__(self, folders: dict[str, Path]) -> None:
        self._memory, self._pids, cpu = (folders[name] for name in self._CONTROLLERS)
        self._clock = _Clock(cpu / "cpuacct.usage")
        self._folders = list(folders.values())

    @classmethod
    def make(cls, name: str, own: Path) -> "V1 | None":
        """Groups below this process's own; None when one of the hierarchies is not there or not ours to write."""
        parents = cls._parents(own)
        made: dict[str, Path] = {}
        try:
            for controller in cls._CONTROLLERS:
                folder = parents[controller]
                _sweep(folder)
                (folder / name).mkdir()
                made[controller] = folder / name
        except (OSError, KeyError):
            for folder in made.values():
                _remove(folder)
            return None
        return cls(made)

    @classmethod
    def _parents(cls, own: Path) -> dict[str, Path]:
        """Controller -> folder of this process's group in its hierarchy."""
        groups = {}
        for line in (own / "cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            groups.update(dict.fromkeys(names.split(","), path))
        found = {}
        for line in (own / "mountinfo").read_text().splitlines():
            fields, _, rest = line.partition(" - ")
            if rest.startswith("cgroup "):
                root, where = fields.split()[3:5]
                for controller in set(rest.split()[2].split(",")) & set(cls._CONTROLLERS) & set(groups):
                    inside = groups[controller].removeprefix(root) if root != "/" else groups[controller]
                    found[controller] = Path(where) / inside.lstrip("/")
        return found

    def add(self, pid: int) -> None:
        """Move a process in, hierarchy by hierarchy."""
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def limit(self, memory: int, pids: int) -> None:
        """Set both limits; memory and swap together are held to the same."""
        (self._memory / "memory.limit_in_bytes").write_text(str(memory))
        swap = self._memory / "memory.memsw.limit_in_bytes"
        if swap.exists():
            swap.write_text(str(memory))
        (self._pids / "pids.max").write_text(str(pids))

    def usage(self) -> int:
        """Bytes now."""
        return _number(self._memory / "memory.usage_in_bytes")

    def peak(self) -> int:
        """Most bytes since the reset."""
        return _number(self._memory / "memory.max_usage_in_bytes")

    def reset_peak(self) -> None:
        """Start the high-water mark anew."""
        (self._memory / "memory.max_usage_in_bytes").write_text("0")

    def kills(self) -> int:
        """Processes killed for memory so far."""
        return _number(self._memory / "memory.oom_control", "oom_kill")

    def cpu_ns(self) -> int:
        """CPU time so far."""
        return self._clock.read()

    def processes(self) -> int:
        """Tasks now."""
        return _number(self._pids / "pids.current")

    def close(self) -> None:
        """End and remove the groups."""
        self._clock.close()
        for folder in self._folders:
            _remove(folder)
