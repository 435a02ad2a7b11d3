"""What a device has: streams, events, and memory that is allocated and freed."""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from feedback.events.clock import Thread, caller, give_way

if TYPE_CHECKING:
    from feedback.events.runtime import Runtime


class Stream:
    """Work that a host thread launches and a device does in order, some time later."""

    def __init__(self, runtime: "Runtime", name: str) -> None:
        self._runtime, self.name = runtime, name
        self._work: deque[tuple[int, str, Any]] = deque()
        self._launched = 0
        self._idle: list[Thread] = []
        self._busy = False

    def launch(
        self,
        seconds: float,
        reads: "tuple[Buffer, ...]" = (),
        writes: "tuple[Buffer, ...]" = (),
        compute: Callable[..., Any] | None = None,
    ) -> None:
        """A kernel or a copy: what it reads and writes, and how long it takes.

        ``compute`` is given the values of ``reads`` as they are when it begins; what it returns, a tuple with a value for each of
        ``writes`` when there are several, lies in them when it ends.
        """
        self._add("kernel", (seconds, reads, writes, compute))

    def record(self, event: "DeviceEvent") -> None:
        """The event is reached when all that was launched before is done."""
        self._add("record", event)

    def wait(self, event: "DeviceEvent") -> None:
        """What is launched from now on runs after the event was reached."""
        self._add("wait", (event, event.recorded))

    async def synchronize(self) -> None:
        """Wait until everything launched so far is done."""
        place = caller()
        while self._busy or self._work:
            self._runtime.note("blocked", self.name, place=place)
            await self._runtime.sleep_on(self._idle)
        self._runtime.note("synchronize", self.name, place=place)

    def _add(self, kind: str, about: Any) -> None:
        self._launched += 1
        place = caller()
        if kind == "record":
            about.recorded += 1
            about = (about, about.recorded)
        self._runtime.note("launch", self.name, self._launched, place=place)
        self._work.append((self._launched, place, (kind, about)))
        if not self._busy:
            self._busy = True
            self._runtime.wake(Thread(self.name, self._drain()), self._runtime.now + self._runtime.random.random() * 1e-6)

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
                    await runtime.sleep_on(event.waiters)
                runtime.note("wait", event.name, ref, who=self.name, place=place)
            else:
                await self._kernel(place, *about)
        self._busy = False
        runtime.wake_all(self._idle)

    async def _kernel(
        self, place: str, seconds: float, reads: "tuple[Buffer, ...]", writes: "tuple[Buffer, ...]", compute: Callable[..., Any] | None
    ) -> None:
        runtime = self._runtime
        for buffer in reads:
            runtime.note("read", buffer.name, buffer.lifetime, who=self.name, place=place)
        made: Any = compute(*(buffer.value for buffer in reads)) if compute else None
        held_back = runtime.delays.get(f"{self.name}@{place}", 0.0)
        await give_way(runtime.now + held_back + seconds * (0.5 + runtime.random.random()))
        for n, buffer in enumerate(writes):
            runtime.note("write", buffer.name, buffer.lifetime, who=self.name, place=place)
            if compute:
                buffer.value = made if len(writes) == 1 else made[n]


class DeviceEvent:
    """See Stream.record and Stream.wait; a host thread waits with ``synchronize``."""

    def __init__(self, runtime: "Runtime", name: str) -> None:
        self._runtime, self.name = runtime, name
        self.recorded = self.reached = 0
        self.waiters: list[Thread] = []

    async def synchronize(self) -> None:
        """Wait on the host until it was reached."""
        place, ref = caller(), self.recorded
        while self.reached < ref:
            self._runtime.note("blocked", self.name, place=place)
            await self._runtime.sleep_on(self.waiters)
        self._runtime.note("wait", self.name, ref, place=place)


class Buffer:
    """Memory by name. ``value`` is what was written last: by a host thread, or by a kernel that computes."""

    def __init__(self, runtime: "Runtime", name: str) -> None:
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
