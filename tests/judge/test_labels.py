"""Which side is which: a slower candidate is called slower wherever its name passes through. ``test_label_swap.py`` exchanges the names."""

from pathlib import Path

import numpy as np
import pytest

from infra_agent.gates import checks, own_work
from infra_agent.gates.own_work import Perturbations
from infra_agent.gates.proposal import ProposalGate
from infra_agent.judge import measure, seeds, standing, statistics, tensors
from infra_agent.judge.builds import BuildRecord
from infra_agent.judge.collector import Collector
from infra_agent.judge.restart import ROLES, Role, effect
from infra_agent.judge.statistics import Interval
from infra_agent.judge.timing import TimingRecord, assess
from infra_agent.sandbox.mapping import plan
from infra_agent.task.load import Task, load
from infra_agent.task.repository import for_task
from infra_agent.task.spec import Static, Timing
from infra_agent.task.tree import digest, read_folder
from tests.conftest import ROOT
from tests.gates.test_checks import compared
from tests.judge.test_static import kernel
from tests.judge.test_static import record as compiled
from tests.judge.test_timing import SHORT, TASK, line, record, restart

SLOW, FAST = line(4e6), line(2e6)


def slower() -> list[object]:
    return [restart(number, FAST, SLOW, FAST) for number in range(8)]


def test_an_effect_is_bases_time_over_the_candidates() -> None:
    assert effect(restart(0, FAST, SLOW, FAST), "base", "candidate") == pytest.approx(-np.log(2))


def test_a_claim_below_zero_is_slower() -> None:
    assert statistics.claim(Interval(effect=-0.5, low=-0.6, high=-0.4), 0.01) == "slower"


def test_a_slower_candidate_is_slower_in_the_verdict_and_in_seconds() -> None:
    verdict = assess(record(slower()), Timing(), TASK)
    assert (verdict.kind, verdict.claim) == ("slower", "slower") and verdict.candidate_s == pytest.approx(2 * verdict.base_s)
    assert checks.timing([record(slower())], TASK).kind == "slower"


def test_only_the_candidates_faults_refuse_it() -> None:
    fault = {"restart": 0, "round": 1, "stage": "y", "kind": "incorrect", "message": "wrong"}
    assert assess(record(faults=[{"role": "candidate", **fault}]), Timing(), TASK).status == "fail"
    assert assess(record(faults=[{"role": "base", **fault}]), Timing(), TASK).status == "inconclusive"
    assert assess(record(ended="crashed: x", ended_role="candidate"), Timing(), TASK).status == "fail"
    assert assess(record(ended="crashed: x", ended_role="base"), Timing(), TASK).status == "inconclusive"


def test_only_the_candidates_time_can_be_impossible() -> None:
    short, long = line(100), line(4e6)
    assert assess(record(restart(n, long, short, long) for n in range(8)), Timing(), TASK).kind == "implausible"
    assert assess(record(restart(n, short, long, short) for n in range(8)), Timing(), TASK).kind == "slower"


def test_only_bases_clock_says_that_its_core_is_shared() -> None:
    def late(*roles: Role) -> TimingRecord:
        made = [restart(n, line(4e5), line(4e5), line(4e5), SHORT) for n in range(8)]
        told = [{role: tuple(ns // (2 if role in roles else 1) for ns in one.ns[role]) for role in ROLES} for one in made]
        return record(one.model_copy(update={"child_ns": child}) for one, child in zip(made, told, strict=True))

    assert "core is shared" in assess(late("base", "again"), Timing(), TASK).message
    assert "core is shared" not in assess(late("candidate"), Timing(), TASK).message


def test_only_a_candidate_that_cannot_be_built_is_refused() -> None:
    well, badly = BuildRecord(tree="t", ended="ok"), BuildRecord(tree="t", ended="crashed")
    assert (checks.builds(badly, well, "build.py").status, checks.builds(well, badly, "build.py").status) == ("fail", "inconclusive")


def test_truth_is_what_errors_are_measured_from() -> None:
    truth, reference = {"y": np.full(4, 1.0)}, {"y": np.full(4, 1.5, np.float32)}
    layout = plan({"y": ("F32", (4,))}, 8)
    output = bytearray(b"\xff" * layout.report_offset)
    output[layout.slots["y"].offset : layout.slots["y"].offset + 16] = np.full(4, 1.0, np.float32).tobytes()
    stage = tensors.compare(bytes(output), layout, truth, reference)["y"]
    assert (stage.error, stage.reference_error) == (0.0, 0.5)


def test_a_product_lost_by_the_candidate_is_a_loss() -> None:
    kept, lost = compiled(kernel()), compiled(kernel(dots=(), tensor_core_instructions=0))
    assert checks.static(lost, kept, Static(case="c")).kind == "lost_tensor_cores"
    assert checks.static(kept, lost, Static(case="c")).status == "pass"


def test_what_base_makes_of_dots_is_asked_of_base() -> None:
    right, off = compared(1e-5), compared(1e-2)
    assert own_work.judge(Perturbations(off, products=right, base_products=off)).status == "fail"
    assert own_work.judge(Perturbations(off, products=off, base_products=right)).status == "pass"
    assert own_work.judge(Perturbations(off, products=right, base_products=off, base=off)).status == "pass"


@pytest.fixture(scope="module")
def loop() -> Task:
    return load(str(ROOT / "tests" / "aa" / "tasks" / "loop"))


@pytest.mark.slow
def test_a_slower_candidate_is_slower_all_the_way(loop: Task, home: Path) -> None:
    """Real cages, once through the gate and once through the instrument."""
    base = read_folder(loop.workspace)
    tree = {path: data.replace(b"STEPS = 5_000", b"STEPS = 20_000") for path, data in base.items()}
    repository, commit = for_task(loop, home)
    patch = repository.diff(commit, repository.write_tree(tree))
    with Collector(loop, seeds.new_secret()) as collector:
        judged = ProposalGate(collector, repository, commit, lambda data: "0" * 64).judge(patch)
        said, _ = measure.measure(collector, "microbench", tree, base, {"cases": ""}, ())
        written = standing.timing(collector, tree, base, collector.public_case("only"))
    kinds = {check.name: check.kind for check in judged.verdict.checks}
    assert kinds["timing"] == "slower" and said.kind == "slower"
    assert (written.tree, written.base_tree) == (digest(tree), digest(base))
