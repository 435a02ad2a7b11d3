"""The project's own tests as a check of the gate: in a real cage, on a task that has a suite."""

from pathlib import Path

from infra_agent.gates.proposal import ProposalGate, expected_checks
from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.session.observation import LineWhere
from infra_agent.session.verdict import Verdict
from infra_agent.task.load import Task
from infra_agent.task.repository import for_task
from tests.support import RIGHT, patch_of, rows_task, suite_task

REFUSES_EMPTY = RIGHT.replace("    product =", "    assert a.numel()\n    product =")
"""Right in every case of the judge, and wrong for what only the project's own test asks."""


def judged(task: Task, home: Path, entry: str) -> Verdict:
    repository, base = for_task(task, home)
    with Collector(task, seeds.new_secret()) as collector:
        return ProposalGate(collector, repository, base, lambda data: "0" * 64).judge(patch_of(task, home, rows__entry_py=entry)).verdict


def test_a_test_that_passed_at_base_must_pass(tmp_path: Path, home: Path) -> None:
    verdict = judged(suite_task(tmp_path), home, REFUSES_EMPTY)
    failed = [check for check in verdict.checks if check.status == "fail"]
    assert [(check.name, check.kind) for check in failed] == [("tests", "broken_test")]
    assert failed[0].where == LineWhere(path="tests/test_rows.py", line=6)
    assert "AssertionError" in failed[0].message and verdict.decision == "fail"


def test_an_honest_patch_passes_them(tmp_path: Path, home: Path) -> None:
    verdict = judged(suite_task(tmp_path), home, RIGHT)
    found = {check.name: check for check in verdict.checks}
    assert (found["tests"].status, found["tests"].trust) == ("pass", "in-process")
    assert found["tests"].figure.startswith("1 of 1 tests pass, 1 of 1 at base")


def test_only_a_task_with_a_suite_is_asked_for_it(tmp_path: Path) -> None:
    for make, asked in ((rows_task, False), (suite_task, True)):
        task = make(tmp_path / make.__name__)
        assert ("tests" in expected_checks(task.spec, [])) is asked
