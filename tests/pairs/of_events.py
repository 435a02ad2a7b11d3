"""Serving protocols of a few dozen lines, each with one edge that the faulty twin lacks."""

import random
import textwrap
from collections.abc import Callable

from tests.pairs.pair import Pair

_HEAD = '"""A protocol."""\n\nfrom feedback.events.runtime import Runtime\n\n'
_NAMES = ("page", "slot", "ring", "cache", "batch", "table")
_THREADS = ("prefill", "decode", "loader", "router", "sampler", "writer")


def pair(seed: int) -> Pair:
    """One of six protocols; names, sizes and times are drawn."""
    rng = random.Random(seed)
    return _FAMILIES[seed % len(_FAMILIES)](rng)


def _pair(rng: random.Random, body: str, edges: dict[str, str], kinds: tuple[str, ...], marks: tuple[str, ...], about: str) -> Pair:
    """``body`` holds each line of ``edges`` once; the faulty twin has the other one. One of the lines of ``marks`` must be named."""
    padding = "".join(f"SETTING_{n} = {rng.randrange(100)}\n" for n in range(rng.randrange(12)))
    healthy = faulty = _HEAD + padding + textwrap.dedent(body)
    for right, wrong in edges.items():
        assert healthy.count(right) == 1, right
        faulty = faulty.replace(right, wrong)
    lines = [next(n for n, line in enumerate(faulty.splitlines(), 1) if mark in line) for mark in marks]
    places = "|".join(f"scenario.py:{line}\\b" for line in lines)
    trees = [{"work/__init__.py": b"", "work/scenario.py": text.encode()} for text in (faulty, healthy)]
    return Pair("plain", trees[0], trees[1], kinds, f"^[^\n]*?({places})", {"schedules": 30}, about)


def _unlocked_counter(rng: random.Random) -> Pair:
    name, workers = rng.choice(_NAMES), rng.randrange(2, 5)
    body = f"""
    async def work(runtime, lock, {name}):
        for step in range({rng.randrange(2, 5)}):
            await runtime.sleep({rng.uniform(1e-4, 1e-2):.5f})
            await lock.acquire()
            free = await {name}.read()  # reads
            await {name}.write((free or 0) + 1)  # writes
            lock.release()


    async def main(runtime: Runtime) -> None:
        lock, {name} = runtime.lock("{name}_lock"), runtime.buffer("{name}")
        threads = [runtime.spawn(f"{rng.choice(_THREADS)}{{n}}", work(runtime, lock, {name})) for n in range({workers})]
        for thread in threads:
            await runtime.join(thread)
        await {name}.read()
    """
    edges = {"await lock.acquire()": "await runtime.sleep(0.0)", "lock.release()": "pass"}
    return _pair(rng, body, edges, ("race",), ("# reads", "# writes"), "a counter without its lock")


def _missing_fence(rng: random.Random) -> Pair:
    name = rng.choice(_NAMES)
    body = f"""
    async def main(runtime: Runtime) -> None:
        copy, compute = runtime.stream("copy"), runtime.stream("compute")
        {name}, out, ready = runtime.buffer("{name}"), runtime.buffer("out"), runtime.event("ready")
        for layer in range({rng.randrange(1, 4)}):
            {name}_l, out_l = runtime.buffer(f"{name}{{layer}}"), runtime.buffer(f"out{{layer}}")
            copy.launch({rng.uniform(1e-4, 1e-2):.5f}, writes=({name}_l,))  # loads
            copy.record(ready)
            compute.wait(ready)
            compute.launch({rng.uniform(1e-4, 1e-2):.5f}, reads=({name}_l,), writes=(out_l,))  # uses
        await compute.synchronize()
        await copy.synchronize()
    """
    edges = {"compute.wait(ready)": "compute.record(ready)"}
    return _pair(rng, body, edges, ("race",), ("# loads", "# uses"), "a copy that nobody waits for")


def _freed_in_flight(rng: random.Random) -> Pair:
    name = rng.choice(_NAMES)
    body = f"""
    async def transfer(runtime, {name}, owner, done):
        for chunk in range({rng.randrange(2, 5)}):
            await runtime.sleep({rng.uniform(1e-3, 1e-2):.5f})
            await {name}.write(chunk, owner)  # transfers
        await done.put(owner)


    async def main(runtime: Runtime) -> None:
        {name}, done = runtime.buffer("{name}"), runtime.queue("done")
        owner = {name}.alloc()
        sender = runtime.spawn("sender", transfer(runtime, {name}, owner, done))
        await runtime.sleep({rng.uniform(1e-3, 1e-2):.5f})
        await done.get()  # waits
        {name}.free(owner)  # frees
        other = {name}.alloc()  # gives away
        await {name}.write("other", other)
        {name}.free(other)
        await runtime.join(sender)
    """
    kinds = ("stale_use", "use_after_free", "freed_in_use", "reused_in_use", "race")
    marks = ("# transfers", "# frees", "# gives away")
    return _pair(rng, body, {"await done.get()  # waits": "await runtime.sleep(0.0)  # aborts"}, kinds, marks, "an abort")


def _lock_order(rng: random.Random) -> Pair:
    first, second = rng.sample(_NAMES, 2)
    body = f"""
    async def admit(runtime, {first}, {second}):
        for step in range({rng.randrange(3, 6)}):
            async with {first}:
                await runtime.sleep({rng.uniform(1e-4, 1e-3):.5f})
                async with {second}:  # admits
                    await runtime.sleep(0.0001)


    async def evict(runtime, {first}, {second}):
        for step in range({rng.randrange(3, 6)}):
            async with {first}:  # outer
                await runtime.sleep({rng.uniform(1e-4, 1e-3):.5f})
                async with {second}:  # evicts
                    await runtime.sleep(0.0001)


    async def main(runtime: Runtime) -> None:
        {first}, {second} = runtime.lock("{first}"), runtime.lock("{second}")
        threads = [runtime.spawn(f.__name__, f(runtime, {first}, {second})) for f in (admit, evict)]
        for thread in threads:
            await runtime.join(thread)
    """
    edges = {
        f"async with {first}:  # outer": f"async with {second}:  # outer",
        f"async with {second}:  # evicts": f"async with {first}:  # evicts",
    }
    return _pair(rng, body, edges, ("deadlock",), ("# admits", "# evicts"), "two locks in opposite orders")


def _lost_wake(rng: random.Random) -> Pair:
    name = rng.choice(_NAMES)
    body = f"""
    async def serve(runtime, jobs, done):
        while True:
            job = await jobs.get()  # serves
            await runtime.sleep({rng.uniform(1e-4, 1e-2):.5f})
            await done.put(job)
            if job is None:
                return


    async def main(runtime: Runtime) -> None:
        jobs, done = runtime.queue("{name}_jobs"), runtime.queue("{name}_done")
        worker = runtime.spawn("{rng.choice(_THREADS)}", serve(runtime, jobs, done))
        for job in range({rng.randrange(1, 5)}):
            await jobs.put(job)
            await done.get()
        await jobs.put(None)  # ends
        await runtime.join(worker)
    """
    edges = {"await jobs.put(None)  # ends": "await runtime.sleep(0.01)  # ends"}
    return _pair(rng, body, edges, ("never_woken",), ("# serves",), "a worker that is never told to end")


def _handed_over_early(rng: random.Random) -> Pair:
    name = rng.choice(_NAMES)
    body = f"""
    async def reader(runtime, {name}, mail):
        await mail.get()
        await runtime.sleep({rng.uniform(1e-4, 1e-2):.5f})
        await {name}.read()  # reads


    async def main(runtime: Runtime) -> None:
        {name}, mail = runtime.buffer("{name}"), runtime.queue("mail")
        other = runtime.spawn("{rng.choice(_THREADS)}", reader(runtime, {name}, mail))
        await {name}.write("early")  # early
        await mail.put("ready")
        await runtime.sleep({rng.uniform(1e-4, 1e-2):.5f})  # late
        await runtime.join(other)
    """
    edges = {f'await {name}.write("early")  # early': "await runtime.sleep(0.0)", "# late": f'; await {name}.write("late")  # writes'}
    return _pair(rng, body, edges, ("race",), ("# reads", "# writes"), "a message sent before what it announces")


_FAMILIES: tuple[Callable[[random.Random], Pair], ...] = (
    _unlocked_counter, _missing_fence, _freed_in_flight, _lock_order, _lost_wake, _handed_over_early,
)  # fmt: skip
