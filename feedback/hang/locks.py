"""Locks that know who holds them and where they were taken: threading's, replaced before the workspace is imported."""

import itertools
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sandboxes.runtime.entry import innermost

Place = tuple[str, int] | None

_Lock, _RLock, _join, _put = threading.Lock, threading.RLock, threading.Thread.join, queue.Queue.put


class Wait(NamedTuple):
    """What a thread began to wait for. ``order`` counts up over all threads: the greatest began last."""

    what: Any
    order: int
    since: float


class Put(NamedTuple):
    """The last item given to a queue."""

    number: int
    thread: str
    place: Place


waiting: dict[int, Wait] = {}
"""Thread's ident -> the lock or thread that it waits for."""
puts: "WeakKeyDictionary[Any, Put]" = WeakKeyDictionary()
_order = itertools.count(1)


def begin(what: Any) -> None:
    """The calling thread waits for ``what`` from now on."""
    waiting[threading.get_ident()] = Wait(what, next(_order), time.monotonic())


def end() -> None:
    """It does so no longer."""
    waiting.pop(threading.get_ident(), None)


class Watched:
    """A lock, plain or reentrant, that remembers its holder. Whatever it does not do itself the lock inside does."""

    owner: int
    """Ident of the thread that took it; 0 when it is free. A plain lock may be released by another."""
    taken: Place

    def __init__(self, inner: Any, kind: str) -> None:
        """Around ``inner``; the caller's line is where it was made."""
        self.inner, self.kind = inner, kind
        self.made = innermost(sys._getframe(1))
        self.owner, self.taken = 0, None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As threading's."""
        if not self.inner.acquire(False):
            if not blocking:
                return False
            begin(self)
            try:
                if not self.inner.acquire(True, timeout):
                    return False
            finally:
                end()
        self._took()
        return True

    __enter__ = acquire

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """As threading's. The holder is forgotten before the lock is free: afterwards it is another's."""
        kept = (self.owner, self.taken, self._depth)
        self._depth -= 1
        if self._depth <= 0:
            self.owner, self.taken, self._depth = 0, None, 0
        try:
            self.inner.release()
        except RuntimeError:
            self.owner, self.taken, self._depth = kept
            raise

    def _took(self) -> None:
        self._depth += 1
        if self._depth == 1:
            self.owner, self.taken = threading.get_ident(), innermost(sys._getframe(2))

    def __getattr__(self, name: str) -> Any:
        """What a condition asks of a reentrant lock; a plain one has none of it, and must not seem to."""
        found = getattr(self.inner, name)
        if name == "_release_save":
            return lambda: self._give_up(found)
        if name == "_acquire_restore":
            return lambda state: self._take_back(found, state)
        return found

    def _give_up(self, save: Callable[[], Any]) -> Any:
        depth, self._depth, self.owner, self.taken = self._depth, 0, 0, None
        return save(), depth

    def _take_back(self, restore: Callable[[Any], None], state: Any) -> None:
        begin(self)
        try:
            restore(state[0])
        finally:
            end()
        self._took()
        self._depth = state[1]

    def __repr__(self) -> str:
        return f"<watched {self.inner!r}>"


def install() -> None:
    """Replace threading's locks, ``Thread.join`` and ``Queue.put`` in this process, which ends with the observation."""

    def lock() -> Watched:
        return Watched(_Lock(), "lock")

    def rlock() -> Watched:
        return Watched(_RLock(), "reentrant lock")

    def join(self: threading.Thread, timeout: float | None = None) -> None:
        begin(self)
        try:
            _join(self, timeout)
        finally:
            end()

    def put(self: Any, item: Any, block: bool = True, timeout: float | None = None) -> None:
        _put(self, item, block, timeout)
        number = puts[self].number if self in puts else 0
        puts[self] = Put(number + 1, threading.current_thread().name, innermost(sys._getframe(1)))

    threading.Lock, threading.RLock = lock, rlock  # type: ignore[assignment]
    threading.Thread.join = join  # type: ignore[method-assign]
    queue.Queue.put = put  # type: ignore[method-assign]
