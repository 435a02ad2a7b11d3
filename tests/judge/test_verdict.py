"""Statuses are never collapsed; missing is never a pass."""

import pytest

from infra_agent.judge import seeds
from infra_agent.judge.verdict import decide, first_failure
from infra_agent.session.observation import Status
from infra_agent.session.verdict import Check


def checks(*statuses: Status, excused: bool = False) -> tuple[Check, ...]:
    listed = [Check(name=f"c{n}", status=status, trust="judged", message="") for n, status in enumerate(statuses)]
    return tuple(c.model_copy(update={"excused": excused}) if c.status == "not_run" else c for c in listed)


@pytest.mark.parametrize(
    ("statuses", "decision"),
    [
        (("pass", "pass"), "pass"),
        (("pass", "not_run"), "inconclusive"),
        (("pass", "inconclusive"), "inconclusive"),
        (("pass", "inconclusive", "fail", "not_run"), "fail"),
        (("not_run",), "inconclusive"),
        ((), "inconclusive"),
    ],
)
def test_the_worst_required_check_decides(statuses: tuple[Status, ...], decision: str) -> None:
    assert decide(checks(*statuses)) == decision


def test_an_excused_check_may_stay_undecided_but_not_alone() -> None:
    assert decide(checks("pass", "not_run", excused=True)) == "pass"
    assert decide(checks("not_run", excused=True)) == "inconclusive"


def test_the_failure_comes_before_the_undecided() -> None:
    found = first_failure(checks("pass", "inconclusive", "fail"))
    assert found is not None and found.name == "c2"
    assert first_failure(checks("pass")) is None


def test_seeds_follow_from_the_secret_alone() -> None:
    one, other = seeds.new_secret(), seeds.new_secret()
    assert seeds.seed(one, "inputs", "a", 0) == seeds.seed(one, "inputs", "a", 0)
    drawn = {seeds.seed(s, p, c, i) for s in (one, other) for p in ("inputs", "x") for c in ("a", "b") for i in (0, 1)}
    assert len(drawn) == 16 and all(0 <= value < 2**63 for value in drawn)
    assert seeds.commitment(one) != seeds.commitment(other)
