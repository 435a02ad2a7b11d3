"""At which isolation a verdict counts: the policy says, the gate asks, replay asks again."""

from pathlib import Path

import pytest

from infra_agent.gates import checks, policy
from infra_agent.gates.proposal import Judged, ProposalGate
from infra_agent.judge import seeds
from infra_agent.judge.collector import Collector
from infra_agent.sandbox.choose import BACKENDS
from infra_agent.task.repository import for_task
from tests.support import RIGHT, patch_of, rows_task


def judged(tmp_path: Path, home: Path, sandbox: str) -> Judged:
    task = rows_task(tmp_path)
    repository, base = for_task(task, home)
    with Collector(task, seeds.new_secret(), sandbox) as collector:
        return ProposalGate(collector, repository, base, lambda data: "0" * 64).judge(patch_of(task, home, rows__entry_py=RIGHT))


def test_without_isolation_a_verdict_is_inconclusive(tmp_path: Path, home: Path) -> None:
    verdict = judged(tmp_path, home, "open").verdict
    assert (verdict.decision, verdict.isolation) == ("inconclusive", "none")
    first = verdict.checks[0]
    assert first.name == "isolation" and first.status == "inconclusive" and "the policy asks for partial" in first.message
    assert all(check.status == "pass" for check in verdict.checks[1:] if not check.excused), "everything else was asked all the same"


def test_partial_isolation_passes_the_default_policy(tmp_path: Path, home: Path) -> None:
    refusal = BACKENDS["landlock"].refusal()
    if refusal:
        pytest.skip(f"NOT RUN: {refusal}")
    verdict = judged(tmp_path, home, "landlock").verdict
    assert (verdict.decision, verdict.isolation) == ("pass", "partial")


def test_a_stricter_policy_asks_for_more() -> None:
    assert policy.shipped().isolation == "partial"
    assert checks.isolation("full", "full").status == "pass"
    assert checks.isolation("partial", "full").status == "inconclusive"
    assert checks.isolation("none", "none").status == "pass"
