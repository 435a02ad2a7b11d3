"""Outcomes beside base's: what is read of a report that may have been forged, and what follows from it. Pure; no cage."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra_agent.judge.suite import Broken, Outcome, Started, SuiteRecord, SuiteRun, assess, doubtful, read


def outcome(name: str, result: str = "passed", seconds: float = 0.1) -> Outcome:
    return Outcome(id=f"t.py::{name}", path="t.py", line=ord(name), outcome=result, seconds=seconds)  # type: ignore[arg-type]


def run(*tests: Outcome, code: int | None = None, **more: object) -> SuiteRun:
    failed = int(any(test.bad for test in tests))
    return SuiteRun(tree="t", ended="ok", code=failed if code is None else code, tests=tests, **more)  # type: ignore[arg-type]


BASE = run(outcome("a"), outcome("b", "failed"), outcome("c"))


def said(candidate: SuiteRun, *again: SuiteRun, **more: object) -> tuple[str, str | None, list[tuple[str, str]]]:
    status, kind, findings = assess(SuiteRecord(base=BASE, candidate=candidate, again=again, **more))  # type: ignore[arg-type]
    return status, kind, [(f.kind, str(f.where)) for f in findings]


def test_what_failed_at_base_may_fail_and_what_did_not_may_not() -> None:
    assert said(BASE) == ("pass", None, [])
    broken = run(outcome("a", "failed"), outcome("b", "failed"), outcome("c"))
    assert said(broken, broken) == ("fail", "broken_test", [("broken_test", "t.py:97")])
    assert said(run(outcome("a"), outcome("b"), outcome("c"))) == ("pass", None, [("now_passes", "t.py:98")])
    assert said(run(outcome("a", "skipped"), outcome("b", "failed"), outcome("c")))[1] == "skipped_test"
    new = run(*BASE.tests, outcome("d", "error"))
    assert said(new)[:2] == ("fail", "new_test_fails")


def test_a_failure_that_does_not_come_back_is_flaky_whichever_run_showed_it() -> None:
    failed, passed = run(outcome("a", "failed"), *BASE.tests[1:]), BASE
    for runs in ((failed, passed), (passed, failed)):
        assert said(*runs) == ("inconclusive", "flaky", [("flaky", "t.py:97")])
    assert doubtful(SuiteRecord(base=BASE, candidate=passed, again=(failed,)))[0] == ["t.py::a"]


def test_slow_is_twice_and_half_a_second_more_in_the_best_of_all_runs() -> None:
    def slow(seconds: float) -> SuiteRun:
        return run(outcome("a", seconds=seconds), *BASE.tests[1:])

    assert said(slow(0.61)) == ("pass", None, [("slow_test", "t.py:97")])
    assert said(slow(0.59)) == ("pass", None, [])  # not half a second more
    assert said(slow(5.0), slow(0.2)) == ("pass", None, [])  # one of the runs was quick
    assert said(slow(5.0), base_again=(slow(4.0),))[2] == [("slow_test", "t.py:97")]
    assert doubtful(SuiteRecord(base=BASE, candidate=slow(5.0)))[1] == ["t.py::a"]


@pytest.mark.parametrize(("candidate", "kind", "where"), [
    (run(outcome("a"), code=0), "tampered", "t.py:98"),
    (run(outcome("a"), code=1), "tampered", "t.py:98"),
    (run(*BASE.tests, code=0), "tampered", "workspace"),
    (run(outcome("a"), code=-6, running=(Started(id="t.py::b", path="t.py", line=98),)), "crashed", "t.py:98"),
    (run(code=2, broken=(Broken(id="t.py", message="ImportError"),)), "broken_test", "t.py:97"),
    (SuiteRun(tree="t", ended="timeout"), "timeout", "workspace"),
    (SuiteRun(tree="t", ended="tampered"), "tampered", "workspace"),
    (SuiteRun(tree="t", ended="out_of_memory"), "crashed", "workspace"),
])  # fmt: skip
def test_an_outcome_that_is_missing_is_never_a_pass(candidate: SuiteRun, kind: str, where: str) -> None:
    status, found, findings = said(candidate)
    assert (status, found) == ("fail", kind)
    assert (kind, where) in findings


@pytest.mark.parametrize("base", [run(), run(outcome("a"), code=3), SuiteRun(tree="t", ended="timeout")])
def test_without_a_run_of_base_nothing_is_concluded(base: SuiteRun) -> None:
    assert assess(SuiteRecord(base=base, candidate=BASE))[:2] == ("inconclusive", "no_yardstick")


def report(**more: object) -> bytes:
    good = {"nonce": "n", "code": 0, "collected": ["x"], "broken": [], "tests": [outcome("a").model_dump()], "running": []}
    return json.dumps(good | more).encode()


def test_a_report_counts_with_the_nonce_and_names_a_test_once() -> None:
    assert read(report(), "n", "t", "").ended == "ok"
    assert read(report(nonce="other"), "n", "t", "").ended == "tampered"
    assert read(report(tests=[outcome("a").model_dump()] * 2), "n", "t", "").ended == "tampered"
    assert read(report(code=1000), "n", "t", "").ended == "tampered"


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text() | st.floats(), lambda s: st.lists(s) | st.dictionaries(
    st.sampled_from(["nonce", "code", "collected", "broken", "tests", "running"]), s)).map(lambda v: json.dumps(v).encode()))  # fmt: skip
def test_whatever_was_left_is_read_or_called_tampered(data: bytes) -> None:
    assert read(data, "n", "t", "").ended == "tampered"
