"""Processes as /proc shows them to PID 1: who descends from it, and who is stopped."""

import os
from collections.abc import Iterable


def stopped(pids: Iterable[int]) -> bool:
    """Are all threads of all these processes stopped, dead, or in a wait of the kernel's after which they stop?

    A leader that ended says nothing of its threads. A thread that starts a program waits in the kernel for one that is stopped.
    """
    for pid in pids:
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue  # it ended between the two looks
        if not all(_state(f"/proc/{pid}/task/{thread}/stat") in b"TtZXD" for thread in threads):
            return False
    return True


def _state(path: str) -> bytes:
    """The letter of a thread's state; X when it is gone."""
    try:
        with open(path, "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0]
    except (OSError, IndexError):
        return b"X"


def all_but_me_stopped() -> bool:
    """Is everything that PID 1 can see, but itself, stopped or dead?"""
    return stopped(int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid())


def descendants(root: int) -> set[int]:
    """Processes below ``root``, from /proc: an orphan is adopted by ``root``, so none is missed. Ended ones count."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rsplit(b")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue  # it ended between the two looks
        children.setdefault(parent, []).append(int(name))
    found, todo = set(), [root]
    while todo:
        below = children.get(todo.pop(), [])
        found.update(below)
        todo += below
    return found
