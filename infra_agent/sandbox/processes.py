"""Processes of the host as /proc shows them: who descends from whom, and what each holds in memory."""

import os
import signal
import time
from pathlib import Path

_KILL_S = 5.0


def descendants(root: int) -> set[int]:
    """Live processes below ``root``, pid namespaces included."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        fields = _stat(name)
        if fields and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(name))
    found: set[int] = set()
    todo = [root]
    while todo:
        below = children.get(todo.pop(), [])
        found.update(below)
        todo += below
    return found


def _stat(name: str) -> list[str]:
    """Fields of /proc/<pid>/stat from the state on; empty when the process ended."""
    try:
        with open(f"/proc/{name}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def memory(pid: int) -> tuple[int, int]:
    """(private, shared) bytes of a process, what it shares with others divided among them; (0, 0) when it ended.

    Where the proportional figures may not be read, the resident ones stand in: they count shared pages once for each process.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            return _kilobytes(file.read(), "Pss_Anon:", "Pss_Shmem:")
    except PermissionError:
        pass  # a hidden process; its resident size is still public
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0
    try:
        with open(f"/proc/{pid}/status") as file:
            return _kilobytes(file.read(), "RssAnon:", "RssShmem:")
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0


def _kilobytes(text: str, private: str, shared: str) -> tuple[int, int]:
    fields = {line.split()[0]: line.split()[1] for line in text.splitlines() if line.count(" ") and len(line.split()) > 1}
    return int(fields.get(private, 0)) << 10, int(fields.get(shared, 0)) << 10


def threads_of(uid: int) -> int:
    """Threads that run as ``uid``: what the kernel holds against RLIMIT_NPROC."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path("/proc", name).stat().st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended between the two looks
    return count


def alive(pids: set[int]) -> set[int]:
    """Those that have not ended; one that nobody has waited for yet has."""
    return {pid for pid in pids if (fields := _stat(str(pid))) and fields[0] != "Z"}


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
        except ProcessLookupError:
            continue  # it ended by itself
