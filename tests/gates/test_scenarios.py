"""A task on the virtual clock at the gate: the order of events, the data, and what the model of time says, each by a check of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra_agent.errors import UsageError
from infra_agent.gates.proposal import ProposalGate, expected_checks
from infra_agent.gates.recompute import again
from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.session.log import Blobs
from infra_agent.session.observation import EventPairWhere
from infra_agent.session.verdict import Check
from infra_agent.task.load import Task, load
from infra_agent.task.repository import for_task
from tests.support import patch_of

TASK = """
id = "copies"
title = "Copies and kernels"
goal = "Double what was copied, while the next is being copied."
platform = "cpu"

[entry]
module = "copies.entry"
callable = "run"
stages = ["doubled", "makespan"]
modelled = ["makespan"]
seeds = ["seed"]

[edit]
allow = ["copies/**"]

[metric]
stage = "doubled"
case = "rows"

[scenario]
module = "copies.entry"
callable = "scenario"
schedules = 12

[platforms.cpu.may_not_run]
timing = "the clock is virtual"
"""
ENTRY = '''"""Rows are copied on one stream and doubled on another."""

import torch

from feedback.events.runtime import Runtime

COPY_S = KERNEL_S = 1e-3


async def pipeline(runtime: Runtime, rows: list[torch.Tensor]) -> list[torch.Tensor]:
    load, work = runtime.stream("load"), runtime.stream("work")
    sources, ends = [], []
    for n, row in enumerate(rows):
        source, end, loaded = runtime.buffer(f"row{n}"), runtime.buffer(f"double{n}"), runtime.event(f"loaded{n}")
        source.value = torch.zeros_like(row)
        load.launch(COPY_S, writes=(source,), compute=lambda row=row: row.clone())
        load.record(loaded)
        #wait
        work.launch(KERNEL_S, reads=(source,), writes=(end,), compute=lambda row: 2 * row)
        #after
        sources.append(source)
        ends.append(end)
    await work.synchronize()
    return [end.value for end in ends]


async def scenario(runtime: Runtime) -> None:
    await pipeline(runtime, [torch.ones(2), torch.ones(2), torch.ones(2)])


def run(rows: torch.Tensor, seed: torch.Tensor) -> dict[str, torch.Tensor]:
    runtime = Runtime(int(seed))
    doubled = runtime.run(pipeline(runtime, list(rows)))
    return {"doubled": torch.stack(doubled), "makespan": torch.tensor([runtime.now])}
'''
FENCED = ENTRY.replace("#wait", "work.wait(loaded)").replace("        #after\n", "")
SERIAL = ENTRY.replace("#wait", "await load.synchronize()").replace("#after", "await work.synchronize()")
BOASTFUL = FENCED.replace("[runtime.now]", "[1e-6]")
JUDGE = '''"""Truth of the copies task."""

import numpy as np


def cases(split):
    return [{"name": "rows" if split == "public" else "other", "size": 24, "when": "always"}]


def inputs(case, seed):
    rng = np.random.default_rng(seed)
    return {"rows": rng.standard_normal((24, 4)).astype(np.float32), "seed": rng.integers(1 << 40, size=1)}


def truth(inputs):
    return {"doubled": 2 * inputs["rows"].astype(np.float64), "makespan": np.array([1e-3 * (len(inputs["rows"]) + 1)])}


def reference(inputs):
    return {name: value.astype(np.float32) for name, value in truth(inputs).items()}


def bounds(case):
    return {"doubled": {"error": 1e-6, "ratio": 100.0}, "makespan": {"error": 0.4, "ratio": 1e9}}
'''


def make(folder: Path, text: str = TASK) -> Task:
    files = {"task.toml": text, "judge/task.py": JUDGE, "workspace/copies/__init__.py": "", "workspace/copies/entry.py": ENTRY}
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    return load(str(folder))


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return make(tmp_path / "copies")


@pytest.fixture
def gate(task: Task, home: Path) -> Iterator[ProposalGate]:
    repository, base = for_task(task, home)
    with Collector(task, seeds.new_secret()) as collector:
        yield ProposalGate(collector, repository, base, lambda data: "0" * 64)


@pytest.mark.parametrize("entry", [SERIAL, ENTRY + "\n", FENCED], ids=["over limit", "race", "right"])
def test_both_checks_follow_from_their_records(task: Task, home: Path, tmp_path: Path, entry: str) -> None:
    repository, base = for_task(task, home)
    blobs = Blobs(tmp_path / "blobs")
    with Collector(task, seeds.new_secret()) as collector:
        judged = ProposalGate(collector, repository, base, blobs.put).judge(patch_of(task, home, copies__entry_py=entry))
    asked = [check for check in judged.verdict.checks if check.name in ("modelled", "events", "repeat", "held_out")]
    assert len(asked) == 4
    for check in asked:
        assert again(check, blobs, task.spec) == check.model_copy(update={"records": {}})


def failures(gate: ProposalGate, task: Task, home: Path, entry: str) -> dict[str, Check]:
    found = gate.judge(patch_of(task, home, copies__entry_py=entry)).verdict.checks
    return {check.name: check for check in found if check.status != "pass" and not check.excused}


def test_a_missing_fence_shows_in_the_data_and_in_the_order(gate: ProposalGate, task: Task, home: Path) -> None:
    found = failures(gate, task, home, ENTRY + "\n")
    assert (found["accuracy"].kind, found["events"].kind) == ("incorrect", "race")
    line = ENTRY[: ENTRY.index("work.launch")].count("\n") + 1
    where = found["events"].where
    assert isinstance(where, EventPairWhere) and f"copies/entry.py:{line}" in where.first + where.second
    assert found["events"].trust == "in-process" and found["accuracy"].trust == "judged"


def test_the_fence_alone_is_accepted(gate: ProposalGate, task: Task, home: Path) -> None:
    assert failures(gate, task, home, FENCED) == {}


@pytest.mark.parametrize("entry", [SERIAL, BOASTFUL], ids=["no overlap", "too good"])
def test_what_the_model_of_time_says_has_a_check_of_its_own(gate: ProposalGate, task: Task, home: Path, entry: str) -> None:
    found = failures(gate, task, home, entry)
    assert {name: check.kind for name, check in found.items() if check.status == "fail"} == {
        "modelled": "over_limit",
        "held_out": "incorrect",
    }
    assert found["modelled"].trust == found["held_out"].trust == "in-process"


def test_a_task_is_asked_for_what_it_has(task: Task, tmp_path: Path) -> None:
    assert {"modelled", "events"} <= set(expected_checks(task.spec, []))
    plain = make(tmp_path / "plain", TASK.replace("schedules = 12", "").replace('modelled = ["makespan"]', ""))
    assert not {"modelled", "events"} & set(expected_checks(plain.spec, []))


@pytest.mark.parametrize(("named", "problem"), [('["makespam"]', "makespam"), ('["makespan", "doubled"]', "every stage")])
def test_modelled_names_some_of_the_stages(tmp_path: Path, named: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        make(tmp_path, TASK.replace('modelled = ["makespan"]', f"modelled = {named}"))
