"""Evidence from many calls of one entry: how long they take, whether each starts afresh, and whether equal inputs give equal outputs."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

import numpy as np

from infra_agent import canonical, instruments
from infra_agent.errors import UsageError
from infra_agent.frozen import one_line
from infra_agent.judge.collector import Collector, described, ended, tail
from infra_agent.judge.contents import Pool, Tally
from infra_agent.judge.crossover import Crossover, Plan, call_ns, slots_of
from infra_agent.judge.events import EventsRecord, assess, parse
from infra_agent.judge.records import DeterminismRecord, Difference, RepeatRecord
from infra_agent.judge.reference import Case
from infra_agent.judge.restart import Role
from infra_agent.judge.schedules import Delays, turned
from infra_agent.judge.tensors import CompareRecord, compare
from infra_agent.judge.timing import TimingRecord
from infra_agent.sandbox.mapping import GUARD, Layout
from infra_agent.sandbox.text import last_line
from infra_agent.task.tree import Tree, digest

_PROGRAM = "sandboxes.runtime.calls"
_REPEATS = 4
_LOG_BYTES, _SCHEDULE_BYTES = 32 << 20, 4096
_MOST_BYTES = 4 << 30


def timing(collector: Collector, tree: Tree, base: Tree, case: Case) -> TimingRecord:
    """Time one case. Raises UsageError where the task has no [timing], or its contents do not fit into memory."""
    asked = collector.task.spec.timing
    if asked is None:
        raise UsageError(f"{collector.task.folder}: no [timing] section: say what time is allowed before it is measured")
    of_base = collector.builds.packed(base)
    trees: dict[Role, bytes] = {"base": of_base, "candidate": collector.builds.packed(tree), "again": of_base}
    arguments = collector.arguments({})
    with ExitStack() as taken:
        cages = [taken.enter_context(collector.cages(instruments.load("microbench")).cage()) for _ in trees]
        first = collector.reference.draw(case, collector.seed("timing.first", case))
        plan = Plan.of(call_ns(cages[0], trees["base"], first, arguments))
        if plan.contents * first.nbytes > _MOST_BYTES:
            gigabytes = plan.contents * first.nbytes / 2**30
            raise UsageError(
                f"case {case.name}: timing it takes {plan.contents} sets of contents, {gigabytes:.1f} GiB; time a smaller case"
            )
        drawn = collector.reference.draws(case, [collector.seed("timing", case) for _ in range(plan.contents)])
        pool = Pool(case, drawn, collector.seed("timing.projection", case))
        known = TimingRecord(
            case=case.name, platform=collector.platform, tree=digest(tree), base_tree=digest(base), numbers=case.numbers,
            contents=pool.digests,
        )  # fmt: skip
        rng = random.Random(collector.seed("timing.order", case))
        return Crossover(cages, trees, pool, arguments, rng).run(known, plan, asked)


def events(collector: Collector, tree: Tree, schedules: int) -> EventsRecord:
    """The scenario under drawn schedules, then under turned ones, until one shows a fault. Raises UsageError without a [scenario]."""
    scenario = collector.task.spec.scenario
    if scenario is None:
        raise UsageError(f"{collector.task.folder}: no [scenario] section: events needs code that runs on its virtual clock")
    rng = random.Random(collector.seed("events", collector.smallest_case()))
    pending: list[tuple[int, Delays]] = [(rng.getrandbits(48), {}) for _ in range(max(1, schedules // 2))]
    record = EventsRecord(case="scenario", tree=digest(tree), ended="ok")
    with collector.cages(instruments.load("events")).cage() as cage:
        sections = {"tree": collector.builds.packed(tree), "schedule": _padded(*pending[0])}
        reply = cage.start("feedback.events", {"scenario": scenario.model_dump()}, sections, {"0/log": ("U8", (_LOG_BYTES,))})
        while reply.status == "ok" and pending and len(record.seeds) < schedules:
            seed, delays = pending.pop(0)
            cage.put({"schedule": _padded(seed, delays)}, 8 + 2 * GUARD)
            reply = cage.call()
            if reply.status != "ok":
                break
            try:
                log, error = parse(cage.output()[GUARD:])
            except ValueError as broken:
                record = record.model_copy(update={"ended": "bad_report", "ending": one_line(broken)})
                break
            seen = {"seeds": (*record.seeds, seed), "delays": delays, "log": log, "ending": error}
            record = record.model_copy(update=seen)
            if error or assess(record)[0] == "fail":
                break
            pending += [(rng.getrandbits(48), turn) for turn in turned(log, 4)]
        result = cage.stop()
    if reply.status != "ok":
        return record.model_copy(update={"ended": reply.status, "ending": tail(result)})
    return record


def _padded(seed: int, delays: Delays) -> bytes:
    """A schedule as the cage reads it: always as long."""
    return json.dumps({"seed": seed, "delays": delays}).encode().ljust(_SCHEDULE_BYTES)


def repeat(collector: Collector, tree: Tree, case: Case) -> RepeatRecord:
    """Several calls in one process, each on fresh contents. Interpreted programs are watched and run from last to first."""
    drawn = collector.reference.draws(case, [collector.seed("repeat", case) for _ in range(_REPEATS)])
    pool = Pool(case, drawn, collector.seed("repeat.projection", case))
    sections = {"tree": collector.builds.packed(tree), "inputs.0": drawn[0].inputs}
    args = collector.arguments({"watched": True, "own_work": collector.task.spec.libraries == "none"})
    calls: list[CompareRecord] = []
    replayed: list[int] = []
    with collector.cages(instruments.load("accuracy")).cage() as cage:
        reply = cage.start(_PROGRAM, args, sections, slots_of(drawn[0], 1))
        layout = cage.layout
        for number, content in enumerate(drawn):
            if reply.status != "ok":
                break
            cage.put({"inputs.0": content.inputs})
            reply = cage.call()
            output = cage.output()
            stages = compare(output, layout, content.truth, content.reference, "0/")
            calls.append(CompareRecord(ended="ok", stages=stages, output_digest=canonical.digest(output), **described(tree, case)))
            fault = pool.check(output, layout, 0, number, range(number), Tally())
            if fault is not None and fault.kind == "replayed":
                replayed.append(number)
        result = cage.stop()
    failed = reply.status if reply.status != "ok" else ("" if result.ended == "stopped" else ended(result))
    return RepeatRecord(
        case=case.name, tree=digest(tree), calls=tuple(calls), replayed=tuple(replayed), ended=failed, ending=tail(result) if failed else ""
    )


def determinism(collector: Collector, tree: Tree, case: Case, runs: int) -> DeterminismRecord:
    """The same bytes in, ``runs`` times, each in a process of its own."""
    program, stages = instruments.load("accuracy"), collector.task.spec.entry.stages
    drawn = collector.reference.draw(case, collector.seed("determinism", case))
    digests: list[str] = []
    first, differ = b"", tuple[Difference, ...]()
    for _ in range(runs):
        with collector.cages(program).cage() as cage:
            result = cage.run(
                program.program, collector.arguments({}), {"tree": collector.builds.packed(tree), "inputs": drawn.inputs}, drawn.shapes
            )
        digests.append(canonical.digest(result.output) if result.ok else f"{ended(result)}: {last_line(result.text)}")
        if not result.ok:
            continue
        differ = differ or tuple(_differences(first or result.output, result.output, result.layout, stages, drawn.reference))
        first = first or result.output
    return DeterminismRecord(case=case.name, tree=digest(tree), digests=tuple(digests), differences=differ)


def _differences(
    one: bytes, other: bytes, layout: Layout, stages: Sequence[str], reference: Mapping[str, np.ndarray]
) -> Iterator[Difference]:
    """Stage by stage, in the task's order, bit by bit: a NaN equals itself, and -0 is not 0."""
    for stage in stages:
        slot = layout.slots[stage]
        size = reference[stage].dtype.itemsize
        left, right = (np.frombuffer(data, np.uint8, slot.nbytes, slot.offset).reshape(-1, size) for data in (one, other))
        differs = (left != right).any(axis=1)
        if differs.any():
            index = tuple(int(n) for n in np.unravel_index(int(differs.argmax()), slot.shape))
            yield Difference(stage=stage, index=index, elements=int(differs.sum()), of=differs.size)
