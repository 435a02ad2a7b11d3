"""A runtime that a task's code can run on: threads, locks, queues, streams and processes on a virtual clock, one seed one interleaving.

Threads are coroutines (``async def``). Every primitive notes what it does, so that a log of one run is evidence of every order that its
edges allow. Nothing here waits: a second of virtual time costs nothing.

    async def main(runtime):
        lock, jobs = runtime.lock("slots"), runtime.queue("jobs")
        worker = runtime.spawn("worker", serve(runtime, jobs))
        await jobs.put(1)
        await runtime.join(worker)
"""

import heapq
import random
import sys
from collections import deque
from collections.abc import Coroutine, Generator
from itertools import count
from types import coroutine
from typing import Any

Task = Coroutine[Any, Any, Any]
Event = tuple[float, str, str, str, int, str]
_OWN = __file__
MOST_STEPS = 200_000


class TooLongError(RuntimeError):
    """A schedule that never ends."""


class Thread:
    """A coroutine with a name. ``result`` is what it returned."""

    def __init__(self, name: str, task: Task) -> None:
        self.name = name
        self.task = task
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = False
        self.waiters: list[Thread] = []


@coroutine
def _give_way(until: float | None) -> Generator[float | None, None, None]:
    """Let others run: until a time, or, for None, until somebody wakes this thread."""
    yield until


class Runtime:
    """The clock, the threads and the log. ``delays``: threads that are held back at a place, to turn an order round."""

    def __init__(self, seed: int, delays: dict[str, float] | None = None) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.log: list[Event] = []
        self.current: Thread | None = None
        self.threads: list[Thread] = []
        self._ready: list[tuple[float, float, int, Thread]] = []
        self._delays = delays or {}
        self._numbers = count()

    def spawn(self, name: str, task: Task) -> Thread:
        """Start a thread, or a process: what it shares is what it was given."""
        thread = Thread(name, task)
        self.threads.append(thread)
        if self.current is not None:
            self.note("start", name)
        self._wake(thread, self.now)
        return thread

    async def join(self, thread: Thread) -> Any:
        """Wait for its end; its result, or the error that it ended with."""
        while not thread.done:
            self.note("blocked", thread.name)
            await self._sleep_on(thread.waiters)
        self.note("join", thread.name)
        if thread.error is not None:
            raise thread.error
        return thread.result

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass, a little more or less than asked, as everywhere."""
        await _give_way(self.now + seconds * (0.5 + self.random.random()))

    def note(self, op: str, thing: str, ref: int = 0, who: str = "", place: str | None = None) -> None:
        """Write an event down; it is the caller's line that counts."""
        self.log.append((self.now, who or self._me(), op, thing, ref, _caller() if place is None else place))

    async def access(self, op: str, thing: str, ref: int) -> None:
        """Note an access, after others had a chance to come before it."""
        place = _caller()
        await self.pause(place)
        self.note(op, thing, ref, place=place)

    async def pause(self, place: str) -> None:
        """Let others come first: for a moment, or, where an order is to be turned round, for as long as that takes."""
        held_back = self._delays.get(f"{self._me()}@{place}", 0.0)
        await _give_way(self.now + held_back + self.random.random() * 1e-6)

    def lock(self, name: str) -> "Lock":
        """A mutex."""
        return Lock(self, name)

    def queue(self, name: str, capacity: int = 0) -> "Queue":
        """A queue, or a pipe between processes; ``capacity`` 0 for no limit."""
        return Queue(self, name, capacity)

    def stream(self, name: str) -> "Stream":
        """A device's stream: what is launched on it runs in order, later."""
        return Stream(self, name)

    def event(self, name: str) -> "DeviceEvent":
        """A device event, recorded on a stream and waited for."""
        return DeviceEvent(self, name)

    def buffer(self, name: str) -> "Buffer":
        """Memory, a slot or a page that threads and streams share."""
        return Buffer(self, name)

    def run(self, main: Task) -> Any:
        """Run until nothing can go on; the main thread's result. Raises what it raised, and TooLongError."""
        first = self.spawn("main", main)
        for step in count():
            if not self._ready:
                break
            if step > MOST_STEPS:
                raise TooLongError(f"more than {MOST_STEPS} steps: a schedule that never ends")
            when, _, _, thread = heapq.heappop(self._ready)
            self.now = max(self.now, when)
            self._step(thread)
        if first.error is not None:
            raise first.error
        return first.result

    def _me(self) -> str:
        return self.current.name if self.current else "?"

    def _step(self, thread: Thread) -> None:
        self.current = thread
        try:
            until = thread.task.send(None)
        except StopIteration as end:
            thread.done, thread.result = True, end.value
        except Exception as error:  # the thread's own: whoever joins it gets it, and the main thread's is raised by run()
            thread.done, thread.error = True, error
        else:
            if until is not None:
                self._wake(thread, until)
            return
        finally:
            self.current = None
        self.note("end", thread.name, who=thread.name, place="")
        self.wake_all(thread.waiters)

    def _wake(self, thread: Thread, when: float) -> None:
        """Ready at a time; which of those ready at the same time comes first is drawn."""
        heapq.heappush(self._ready, (when, self.random.random(), next(self._numbers), thread))

    def wake_all(self, waiters: list[Thread]) -> None:
        """Whoever waits there may look again."""
        for thread in waiters:
            self._wake(thread, self.now)
        waiters.clear()

    async def _sleep_on(self, waiters: list[Thread]) -> None:
        assert self.current is not None, "only a thread can wait"
        waiters.append(self.current)
        await _give_way(None)


def _caller() -> str:
    """``path:line`` of the code outside this module that called."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == _OWN:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Lock:
    """``async with lock:``; not reentrant."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        self._runtime, self.name = runtime, name
        self._holder: Thread | None = None
        self._waiters: list[Thread] = []

    async def acquire(self) -> None:
        """Wait until it is free."""
        place = _caller()
        await self._runtime.pause(place)
        while self._holder is not None:
            self._runtime.note("blocked", self.name, place=place)
            await self._runtime._sleep_on(self._waiters)
        self._holder = self._runtime.current
        self._runtime.note("acquire", self.name, place=place)

    def release(self) -> None:
        """Let the next one in. Raises RuntimeError when another holds it."""
        self._runtime.note("release", self.name)
        if self._holder is not self._runtime.current:
            raise RuntimeError(f"{self._runtime._me()} does not hold {self.name}")
        self._holder = None
        self._runtime.wake_all(self._waiters)

    async def __aenter__(self) -> "Lock":
        await self.acquire()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.release()


class Queue:
    """First in, first out; a message is an edge from who sent it to who received it."""

    def __init__(self, runtime: Runtime, name: str, capacity: int) -> None:
        self._runtime, self.name, self._capacity = runtime, name, capacity
        self._items: deque[tuple[int, Any]] = deque()
        self._sent = 0
        self._getters: list[Thread] = []
        self._putters: list[Thread] = []

    def __len__(self) -> int:
        return len(self._items)

    async def put(self, item: Any) -> None:
        """Send; waits while the queue is full."""
        place = _caller()
        await self._runtime.pause(place)
        while self._capacity and len(self._items) >= self._capacity:
            self._runtime.note("blocked", self.name, place=place)
            await self._runtime._sleep_on(self._putters)
        self._sent += 1
        self._items.append((self._sent, item))
        self._runtime.note("send", self.name, self._sent, place=place)
        self._runtime.wake_all(self._getters)

    async def get(self) -> Any:
        """Receive; waits while there is nothing."""
        place = _caller()
        await _give_way(self._runtime.now)
        while not self._items:
            self._runtime.note("blocked", self.name, place=place)
            await self._runtime._sleep_on(self._getters)
        number, item = self._items.popleft()
        self._runtime.note("receive", self.name, number, place=place)
        self._runtime.wake_all(self._putters)
        return item


class Stream:
    """Work that a host thread launches and a device does in order, some time later."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        self._runtime, self.name = runtime, name
        self._work: deque[tuple[int, str, Any]] = deque()
        self._launched = 0
        self._idle: list[Thread] = []
        self._busy = False

    def launch(self, seconds: float, reads: "tuple[Buffer, ...]" = (), writes: "tuple[Buffer, ...]" = ()) -> None:
        """A kernel or a copy: what it reads and writes, and how long it takes."""
        self._add("kernel", (seconds, reads, writes))

    def record(self, event: "DeviceEvent") -> None:
        """The event is reached when all that was launched before is done."""
        self._add("record", event)

    def wait(self, event: "DeviceEvent") -> None:
        """What is launched from now on runs after the event was reached."""
        self._add("wait", (event, event.recorded))

    async def synchronize(self) -> None:
        """Wait until everything launched so far is done."""
        place = _caller()
        while self._busy or self._work:
            self._runtime.note("blocked", self.name, place=place)
            await self._runtime._sleep_on(self._idle)
        self._runtime.note("synchronize", self.name, place=place)

    def _add(self, kind: str, about: Any) -> None:
        self._launched += 1
        place = _caller()
        if kind == "record":
            about.recorded += 1
            about = (about, about.recorded)
        self._runtime.note("launch", self.name, self._launched, place=place)
        self._work.append((self._launched, place, (kind, about)))
        if not self._busy:
            self._busy = True
            self._runtime._wake(Thread(self.name, self._drain()), self._runtime.now + self._runtime.random.random() * 1e-6)

    async def _drain(self) -> None:
        runtime = self._runtime
        while self._work:
            number, place, (kind, about) = self._work.popleft()
            runtime.note("run", self.name, number, who=self.name, place=place)
            if kind == "record":
                event, ref = about
                runtime.note("record", event.name, ref, who=self.name, place=place)
                event.reached = max(event.reached, ref)
                runtime.wake_all(event.waiters)
            elif kind == "wait":
                event, ref = about
                while event.reached < ref:
                    await runtime._sleep_on(event.waiters)
                runtime.note("wait", event.name, ref, who=self.name, place=place)
            else:
                seconds, reads, writes = about
                for buffer in reads:
                    runtime.note("read", buffer.name, buffer.lifetime, who=self.name, place=place)
                held_back = runtime._delays.get(f"{self.name}@{place}", 0.0)
                await _give_way(runtime.now + held_back + seconds * (0.5 + runtime.random.random()))
                for buffer in writes:
                    runtime.note("write", buffer.name, buffer.lifetime, who=self.name, place=place)
        self._busy = False
        runtime.wake_all(self._idle)


class DeviceEvent:
    """See Stream.record and Stream.wait; a host thread waits with ``synchronize``."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        self._runtime, self.name = runtime, name
        self.recorded = self.reached = 0
        self.waiters: list[Thread] = []

    async def synchronize(self) -> None:
        """Wait on the host until it was reached."""
        place, ref = _caller(), self.recorded
        while self.reached < ref:
            self._runtime.note("blocked", self.name, place=place)
            await self._runtime._sleep_on(self.waiters)
        self._runtime.note("wait", self.name, ref, place=place)


class Buffer:
    """Memory by name. ``value`` is what a host thread wrote last; a device's contents are not modelled."""

    def __init__(self, runtime: Runtime, name: str) -> None:
        self._runtime, self.name = runtime, name
        self.value: Any = None
        self.lifetime = 0

    async def read(self, lifetime: int = 0) -> Any:
        """Its value; ``lifetime`` says whose buffer the reader believes it to be."""
        await self._runtime.access("read", self.name, lifetime or self.lifetime)
        return self.value

    async def write(self, value: Any = None, lifetime: int = 0) -> None:
        """Set it."""
        await self._runtime.access("write", self.name, lifetime or self.lifetime)
        self.value = value

    def alloc(self) -> int:
        """Give it to somebody: a new lifetime begins, and its number is returned."""
        self.lifetime += 1
        self._runtime.note("alloc", self.name, self.lifetime)
        return self.lifetime

    def free(self, lifetime: int = 0) -> None:
        """Take it back."""
        self._runtime.note("free", self.name, lifetime or self.lifetime)
