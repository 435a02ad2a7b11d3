"""Processes of the host as /proc shows them: who descends from whom, and what each holds in memory."""

import os
import signal
import time
from pathlib import Path

_KILL_S = 5.0


def descendants(root: int) -> set[int]:
    """Processes below ``root``, pid namespaces included. One whose first thread ended counts: the others may live."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = _stat(f"/proc/{name}/stat")
        if fields:
            children.setdefault(int(fields[1]), []).append(int(name))
    found: set[int] = set()
    todo = [root]
    while todo:
        below = children.get(todo.pop(), [])
        found.update(below)
        todo += below
    return found


def _stat(path: str) -> list[bytes]:
    """Fields of a stat file from the state on, whatever bytes the name before them has; empty when there is none any more."""
    try:
        with open(path, "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()
    except (OSError, IndexError):
        return []


def _threads(pid: int) -> list[str]:
    """Folders of the threads of a process that have not ended."""
    try:
        folders = [f"/proc/{pid}/task/{name}" for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []
    return [folder for folder in folders if (fields := _stat(f"{folder}/stat")) and fields[0] not in (b"Z", b"X")]


def memory(pid: int) -> int:
    """Bytes of a process, what it shares with others divided among them; 0 when it ended. Costs a walk over all it has mapped.

    Where the proportional figures may not be read, the resident ones stand in.
    """
    for folder in _threads(pid)[:1]:  # of a thread that lives: when the first has ended, the process's own files are empty
        found = _kilobytes(f"{folder}/smaps_rollup", b"Pss_Anon:", b"Pss_Shmem:")
        return found or resident(pid)
    return 0


def resident(pid: int) -> int:
    """At least the bytes of a process, page tables included: shared pages count once for each. Costs nothing to speak of."""
    for folder in _threads(pid)[:1]:
        return _kilobytes(f"{folder}/status", b"RssAnon:", b"RssShmem:", b"VmPTE:")
    return 0


def _kilobytes(path: str, *names: bytes) -> int:
    """Bytes that the lines of these names add up to; 0 when the file cannot be read. A process chooses its own name, so bytes it is."""
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(names))


def cpu_ns(pids: set[int]) -> int:
    """CPU time that the live threads of these processes have had, nanoseconds."""
    total = 0
    for folder in (folder for pid in pids for folder in _threads(pid)):
        try:
            with open(f"{folder}/schedstat", "rb") as file:
                total += int(file.read().split()[0])
        except (OSError, IndexError):
            continue  # it ended between the two looks
    return total


def threads_of(uid: int) -> int:
    """Threads that run as ``uid``: what the kernel holds against RLIMIT_NPROC."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path("/proc", name).stat().st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue  # it ended between the two looks
    return count


def alive(pids: set[int]) -> set[int]:
    """Those with a thread that has not ended; one that nobody has waited for yet has."""
    return {pid for pid in pids if _threads(pid)}


def kill_tree(root: int) -> set[int]:
    """Kill ``root`` and all below it, and say which: stopped first, so that nothing forks between a look and the kill."""
    deadline = time.monotonic() + _KILL_S
    stopped: set[int] = set()
    while (found := (descendants(root) | {root}) - stopped) and time.monotonic() < deadline:
        _signal(found, signal.SIGSTOP)
        stopped |= found
    _signal(stopped, signal.SIGKILL)
    return stopped


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # it ended, or gained another uid, which only an open sandbox lets it
