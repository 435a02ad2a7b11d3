"""The virtual clock; what the instrument makes of it in a real cage is tested by pairs."""

from typing import Any

import pytest

from feedback.events import runtime as virtual
from feedback.events.runtime import Runtime, TooLongError
from infra_agent.judge.events import Event, violations


def log(runtime: Runtime) -> tuple[Event, ...]:
    return tuple(Event(*row) for row in runtime.log)  # type: ignore[arg-type]


async def counting(runtime: Runtime, lock: Any, total: Any, guarded: bool) -> None:
    for _ in range(3):
        await runtime.sleep(1e-6)
        if guarded:
            await lock.acquire()
        value = await total.read() or 0
        await total.write(value + 1)
        if guarded:
            lock.release()


async def two_counters(runtime: Runtime, guarded: bool) -> int:
    lock, total = runtime.lock("lock"), runtime.buffer("total")
    threads = [runtime.spawn(name, counting(runtime, lock, total, guarded)) for name in ("left", "right")]
    for thread in threads:
        await runtime.join(thread)
    return int(await total.read())


def run(seed: int, main: Any, *args: Any, **delays: Any) -> Runtime:
    runtime = Runtime(seed, **delays)
    runtime.run(main(runtime, *args))
    return runtime


def test_one_seed_is_one_interleaving_and_another_is_another() -> None:
    assert run(1, two_counters, False).log == run(1, two_counters, False).log
    assert len({tuple(row[1] for row in run(seed, two_counters, False).log) for seed in range(20)}) > 5


def test_a_race_is_seen_in_every_schedule_and_a_lock_in_none() -> None:
    for seed in range(20):
        assert {v.kind for v in violations(log(run(seed, two_counters, False)))} == {"race"}
        assert violations(log(run(seed, two_counters, True))) == []


def test_a_lost_update_happens_in_some_schedules_only() -> None:
    unguarded, guarded = ({total(seed, held) for seed in range(60)} for held in (False, True))
    assert 6 in unguarded and min(unguarded) < 6
    assert guarded == {6}


def total(seed: int, guarded: bool) -> int:
    runtime = Runtime(seed)
    return int(runtime.run(two_counters(runtime, guarded)))


def test_virtual_time_passes_without_waiting_and_queues_keep_their_order() -> None:
    async def main(runtime: Runtime) -> list[int]:
        jobs = runtime.queue("jobs", capacity=2)

        async def produce() -> None:
            for number in range(10):
                await jobs.put(number)

        producer = runtime.spawn("producer", produce())
        await runtime.sleep(3600)
        seen = [await jobs.get() for _ in range(10)]
        await runtime.join(producer)
        return seen

    runtime = Runtime(5)
    assert runtime.run(main(runtime)) == list(range(10))
    assert runtime.now > 1000
    assert violations(log(runtime)) == []


def test_streams_run_in_order_and_beside_each_other() -> None:
    async def main(runtime: Runtime) -> None:
        copy, compute, page, ready = runtime.stream("copy"), runtime.stream("compute"), runtime.buffer("page"), runtime.event("ready")
        copy.launch(1.0, writes=(page,))
        copy.record(ready)
        compute.wait(ready)
        compute.launch(1.0, reads=(page,))
        await compute.synchronize()
        await ready.synchronize()

    made = log(run(2, main))
    assert violations(made) == []
    without = tuple(event for event in made if not (event.op == "wait" and event.who == "compute"))
    assert {v.kind for v in violations(without)} == {"race"}


def test_a_delay_turns_an_order_round() -> None:
    async def main(runtime: Runtime) -> list[str]:
        mail = runtime.queue("mail")

        async def post(name: str) -> None:
            await mail.put(name)

        for name in ("a", "b"):
            runtime.spawn(name, post(name))
        return [await mail.get(), await mail.get()]

    for seed in range(10):
        runtime = Runtime(seed)
        first = runtime.run(main(runtime))[0]
        place = next(row[5] for row in runtime.log if row[2] == "send" and row[1] == first)
        turned = Runtime(seed, {f"{first}@{place}": 1.0})
        assert turned.run(main(turned))[0] != first


def test_errors_reach_whoever_joins_and_the_main_thread_s_is_raised() -> None:
    async def broken() -> None:
        raise ValueError("lost page")

    async def main(runtime: Runtime) -> None:
        await runtime.join(runtime.spawn("worker", broken()))

    with pytest.raises(ValueError, match="lost page"):
        run(0, main)


def test_releasing_what_one_does_not_hold_is_an_error_and_is_seen() -> None:
    async def main(runtime: Runtime) -> None:
        runtime.lock("lock").release()

    runtime = Runtime(0)
    with pytest.raises(RuntimeError, match="main does not hold lock"):
        runtime.run(main(runtime))
    assert [v.kind for v in violations(log(runtime))] == ["not_held"]


def test_a_schedule_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(runtime: Runtime) -> None:
        while True:
            await runtime.sleep(1)

    monkeypatch.setattr(virtual, "MOST_STEPS", 1000)
    with pytest.raises(TooLongError):
        run(0, main)
