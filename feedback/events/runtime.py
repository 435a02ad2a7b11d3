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
from itertools import count
from typing import Any

from feedback.events.clock import Task, Thread, caller, give_way
from feedback.events.device import Buffer, DeviceEvent, Stream
from feedback.events.primitives import Lock, Queue

Event = tuple[float, str, str, str, int, str]
"""Time in virtual seconds, who, operation, object, number, ``path:line``."""
MOST_STEPS = 200_000


class TooLongError(RuntimeError):
    """A schedule that never ends."""


class Runtime:
    """The clock, the threads and the log. ``delays``: threads that are held back at a place, to turn an order round."""

    def __init__(self, seed: int, delays: dict[str, float] | None = None) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.log: list[Event] = []
        self.current: Thread | None = None
        self.threads: list[Thread] = []
        self._ready: list[tuple[float, float, int, Thread]] = []
        self.delays = delays or {}
        self._numbers = count()

    def spawn(self, name: str, task: Task) -> Thread:
        """Start a thread, or a process: what it shares is what it was given."""
        thread = Thread(name, task)
        self.threads.append(thread)
        if self.current is not None:
            self.note("start", name)
        self.wake(thread, self.now)
        return thread

    async def join(self, thread: Thread) -> Any:
        """Wait for its end; its result, or the error that it ended with."""
        while not thread.done:
            self.note("blocked", thread.name)
            await self.sleep_on(thread.waiters)
        self.note("join", thread.name)
        if thread.error is not None:
            raise thread.error
        return thread.result

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass, a little more or less than asked, as everywhere."""
        await give_way(self.now + seconds * (0.5 + self.random.random()))

    def note(self, op: str, thing: str, ref: int = 0, who: str = "", place: str | None = None) -> None:
        """Write an event down; it is the caller's line that counts."""
        self.log.append((self.now, who or self.me(), op, thing, ref, caller() if place is None else place))

    async def access(self, op: str, thing: str, ref: int) -> None:
        """Note an access, after others had a chance to come before it."""
        place = caller()
        await self.pause(place)
        self.note(op, thing, ref, place=place)

    async def pause(self, place: str) -> None:
        """Let others come first: for a moment, or, where an order is to be turned round, for as long as that takes."""
        held_back = self.delays.get(f"{self.me()}@{place}", 0.0)
        await give_way(self.now + held_back + self.random.random() * 1e-6)

    def lock(self, name: str) -> Lock:
        """A mutex."""
        return Lock(self, name)

    def queue(self, name: str, capacity: int = 0) -> Queue:
        """A queue, or a pipe between processes; ``capacity`` 0 for no limit."""
        return Queue(self, name, capacity)

    def stream(self, name: str) -> Stream:
        """A device's stream: what is launched on it runs in order, later."""
        return Stream(self, name)

    def event(self, name: str) -> DeviceEvent:
        """A device event, recorded on a stream and waited for."""
        return DeviceEvent(self, name)

    def buffer(self, name: str) -> Buffer:
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

    def me(self) -> str:
        """Name of the thread that runs now."""
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
                self.wake(thread, until)
            return
        finally:
            self.current = None
        self.note("end", thread.name, who=thread.name, place="")
        self.wake_all(thread.waiters)

    def wake(self, thread: Thread, when: float) -> None:
        """Ready at a time; which of those ready at the same time comes first is drawn."""
        heapq.heappush(self._ready, (when, self.random.random(), next(self._numbers), thread))

    def wake_all(self, waiters: list[Thread]) -> None:
        """Whoever waits there may look again."""
        for thread in waiters:
            self.wake(thread, self.now)
        waiters.clear()

    async def sleep_on(self, waiters: list[Thread]) -> None:
        """Wait, among others, until somebody wakes them."""
        assert self.current is not None, "only a thread can wait"
        waiters.append(self.current)
        await give_way(None)
