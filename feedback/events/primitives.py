"""What threads and processes share: locks and queues."""

from collections import deque
from typing import TYPE_CHECKING, Any

from feedback.events.clock import Thread, caller, give_way

if TYPE_CHECKING:
    from feedback.events.runtime import Runtime


class Lock:
    """``async with lock:``; not reentrant."""

    def __init__(self, runtime: "Runtime", name: str) -> None:
        self._runtime, self.name = runtime, name
        self._holder: Thread | None = None
        self._waiters: list[Thread] = []

    async def acquire(self) -> None:
        """Wait until it is free."""
        place = caller()
        await self._runtime.pause(place)
        while self._holder is not None:
            self._runtime.note("blocked", self.name, place=place)
            await self._runtime.sleep_on(self._waiters)
        self._holder = self._runtime.current
        self._runtime.note("acquire", self.name, place=place)

    def release(self) -> None:
        """Let the next one in. Raises RuntimeError when another holds it."""
        self._runtime.note("release", self.name)
        if self._holder is not self._runtime.current:
            raise RuntimeError(f"{self._runtime.me()} does not hold {self.name}")
        self._holder = None
        self._runtime.wake_all(self._waiters)

    async def __aenter__(self) -> "Lock":
        await self.acquire()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.release()


class Queue:
    """First in, first out; a message is an edge from who sent it to who received it."""

    def __init__(self, runtime: "Runtime", name: str, capacity: int) -> None:
        self._runtime, self.name, self._capacity = runtime, name, capacity
        self._items: deque[tuple[int, Any]] = deque()
        self._sent = 0
        self._getters: list[Thread] = []
        self._putters: list[Thread] = []

    def __len__(self) -> int:
        return len(self._items)

    async def put(self, item: Any) -> None:
        """Send; waits while the queue is full."""
        place = caller()
        await self._runtime.pause(place)
        while self._capacity and len(self._items) >= self._capacity:
            self._runtime.note("blocked", self.name, place=place)
            await self._runtime.sleep_on(self._putters)
        self._sent += 1
        self._items.append((self._sent, item))
        self._runtime.note("send", self.name, self._sent, place=place)
        self._runtime.wake_all(self._getters)

    async def get(self) -> Any:
        """Receive; waits while there is nothing."""
        place = caller()
        await give_way(self._runtime.now)
        while not self._items:
            self._runtime.note("blocked", self.name, place=place)
            await self._runtime.sleep_on(self._getters)
        number, item = self._items.popleft()
        self._runtime.note("receive", self.name, number, place=place)
        self._runtime.wake_all(self._putters)
        return item
