"""Inside the hanging process: what each thread waits for, as plain data. Runs in a thread of its own, when it is asked."""

import concurrent.futures
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from feedback.hang import locks
from sandboxes.runtime.entry import innermost
from sandboxes.runtime.observed import frames_of_threads, native_id
from sandboxes.runtime.request import WORKSPACE

NAME = "hang-witness"
_OWNER = re.compile(r"owner=(\d+)")
_CPU = 6
Told = dict[str, Any]


def start(say: Callable[[Any], None], orders: int) -> None:
    """Answer one order with a message of what every thread does."""

    def wait() -> None:
        while os.read(orders, 1):
            say({"threads": snapshot()})

    threading.Thread(target=wait, name=NAME, daemon=True).start()


def snapshot() -> list[Told]:
    """Every thread but this one."""
    frames, now = frames_of_threads(), time.monotonic()
    threads = {thread.ident: thread for thread in threading.enumerate()}
    names = _Names(list(frames.values()))
    told = []
    for ident, frame in frames.items():
        if ident == threading.get_ident():
            continue
        thread = threads.get(ident)
        wait = locks.waiting.get(ident)
        about: Told = {"ident": ident, "name": thread.name if thread else f"thread {ident:#x}", "place": innermost(frame)}
        about["native_id"] = native_id(thread) if thread else None
        about["daemon"], about["main"] = thread is None or thread.daemon, thread is threading.main_thread()
        about["cpu_s"] = _cpu(about["native_id"])
        about["function"] = frame.f_code.co_qualname
        about["waits"] = _waits(frame, wait, names)
        about["order"], about["waited_s"] = (wait.order, now - wait.since) if wait else (0, 0.0)
        told.append(about)
    return told


def _cpu(number: int | None) -> float:
    """CPU time of a thread so far, in s."""
    if number is None:
        return 0.0
    try:
        return time.clock_gettime((~number << 3) | _CPU)
    except OSError:
        return 0.0  # it has just ended


def _waits(frame: FrameType, wait: locks.Wait | None, names: "_Names") -> Told | None:
    """What the thread is blocked in: the outermost of the library's calls, as Queue.get and not the condition inside it."""
    found: Told | None = None
    at: FrameType | None = frame
    while at and not at.f_code.co_filename.startswith(WORKSPACE + "/"):
        make = _BLOCKING.get(at.f_code)
        if make and (make is not _worker or at is frame):
            found = make(at.f_locals, names)
        at = at.f_back
    if found is None and wait is not None:
        found = _of_lock(wait.what, names) if isinstance(wait.what, locks.Watched) else _of_thread(wait.what)
    elif found is not None and found["kind"] != "join" and wait is not None and isinstance(wait.what, locks.Watched) and wait.what.owner:
        found = _of_lock(wait.what, names)  # inside a queue or a condition it is the mutex, held by another, that keeps it
    return found


def _of_workspace(kind: type) -> bool:
    return str(getattr(sys.modules.get(kind.__module__), "__file__", "")).startswith(WORKSPACE + "/")


class _Names:
    """What a program calls its objects: names of the frames' variables, of their objects' attributes and of the module."""

    def __init__(self, frames: list[FrameType]) -> None:
        """Read them all; what several names lead to keeps the first."""
        self._known: dict[int, str] = {}
        for top in frames:
            at: FrameType | None = top
            while at:
                if at.f_code.co_filename.startswith(WORKSPACE + "/"):
                    self._read(at.f_globals, "")
                    self._read(at.f_locals, "")
                    for name, value in list(at.f_locals.items()):
                        if _of_workspace(type(value)) and hasattr(value, "__dict__"):
                            self._read(vars(value), f"{name}.")
                at = at.f_back

    def _read(self, variables: dict[str, Any], before: str) -> None:
        for name, value in list(variables.items()):
            self._known.setdefault(id(value), before + name)
            if isinstance(value, (list, tuple)) and len(value) <= 64:
                for number, item in enumerate(value):
                    self._known.setdefault(id(item), f"{before}{name}[{number}]")
            elif isinstance(value, dict) and len(value) <= 64 and not name.startswith("__"):
                for key, item in value.items():
                    self._known.setdefault(id(item), f"{before}{name}[{key!r}]")

    def of(self, thing: Any) -> str:
        """Its name in quotes, or ""."""
        name = self._known.get(id(thing))
        return f" '{name}'" if name else ""


def _of_lock(lock: Any, names: _Names) -> Told:
    """A lock and its holder; one that was made before it could be watched tells only when it is reentrant."""
    if isinstance(lock, locks.Watched):
        held = {"thread": lock.owner or None, "at": lock.taken}
        return {"kind": "lock", "what": f"{lock.kind}{names.of(lock)}", "id": id(lock), "made": lock.made, "held": held}
    owner = _OWNER.search(repr(lock))
    return {
        "kind": "lock",
        "what": f"lock{names.of(lock)}",
        "id": id(lock),
        "held": {"thread": int(owner[1]) if owner else None, "at": None},
    }


def _of_thread(thread: threading.Thread) -> Told:
    return {"kind": "join", "what": f"the end of thread {thread.name}", "held": {"thread": thread.ident, "at": None}}


def _join(variables: dict[str, Any], names: _Names) -> Told:
    return _of_thread(variables["self"])


def _get(variables: dict[str, Any], names: _Names) -> Told:
    mine = variables["self"]
    return {"kind": "queue", "what": f"an item of queue{names.of(mine)}", "id": id(mine), "note": _fed(mine), "made": _made(mine)}


def _put(variables: dict[str, Any], names: _Names) -> Told:
    mine = variables["self"]
    note = f"full: {len(mine.queue)} of {mine.maxsize} items"
    return {"kind": "queue", "what": f"room in queue{names.of(mine)}", "id": id(mine), "note": note, "made": _made(mine)}


def _drained(variables: dict[str, Any], names: _Names) -> Told:
    mine = variables["self"]
    note = f"{mine.unfinished_tasks} items without task_done, {len(mine.queue)} of them not taken"
    return {"kind": "queue", "what": f"task_done of queue{names.of(mine)}", "id": id(mine), "note": note, "made": _made(mine)}


def _made(mine: Any) -> locks.Place:
    return getattr(getattr(mine, "mutex", None), "made", None)


def _fed(mine: Any) -> str:
    put = locks.puts.get(mine)
    if put is None:
        return "empty, and nothing was ever put into it"
    at = f" at {put.place[0]}:{put.place[1]}" if put.place else ""
    return f"empty; {put.number} items were put into it, the last by thread {put.thread}{at}"


def _other(kind: str, what: str) -> Callable[[dict[str, Any], _Names], Told]:
    def make(variables: dict[str, Any], names: _Names) -> Told:
        mine = variables["self"]
        return {"kind": kind, "what": what.format(names.of(mine)), "id": id(mine)}

    return make


def _worker(variables: dict[str, Any], names: _Names) -> Told:
    return {"kind": "idle", "what": "work of its pool"}


def _code(function: Any) -> CodeType:
    code: CodeType = function.__code__
    return code


_BLOCKING: dict[CodeType, Callable[[dict[str, Any], _Names], Told]] = {
    _code(locks._join): _join,
    _code(queue.Queue.get): _get,
    _code(locks._put): _put,
    _code(queue.Queue.join): _drained,
    _code(threading.Condition.wait): _other("condition", "notify of condition{0}"),
    _code(threading.Event.wait): _other("event", "set of event{0}"),
    _code(threading.Semaphore.acquire): _other("semaphore", "release of semaphore{0}"),
    _code(threading.Barrier.wait): _other("barrier", "the other threads at barrier{0}"),
    _code(concurrent.futures.Future.result): _other("future", "the result of future{0}"),
    _code(concurrent.futures.thread._worker): _worker,
}
"""Code of a blocking call of the standard library -> what a thread in it waits for, from its local variables."""
