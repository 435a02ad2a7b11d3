"""Counts against floor and base; records built by hand, the instrument has tests of its own."""

from typing import Any

import pytest
from pydantic import ValidationError

from infra_agent.errors import UsageError
from infra_agent.judge.counts import CountsRecord, Kernel, Left, Line, assess, headline, metrics
from infra_agent.task.spec import Roofline

FLOOR = Roofline(bytes="8 * n", flops="2 * n", peaks={})


def line(number: int = 5, **changes: Any) -> Line:
    zeros = dict.fromkeys(("times", "loaded", "stored", "flops", "dot_flops", "special", "special_again", "dot_again"), 0)
    given = {"kernel": "k", "file": "a.py", "line": number, **zeros, **changes}
    return Line(**{"fresh": given["loaded"], "distinct": given.get("fresh", given["loaded"]), **given})


def record(*lines: Line, n: int = 1000, **changes: Any) -> CountsRecord:
    left = Left(lines=lines, kernels=(Kernel(name="k", launches=1, programs=4, touched=8000),), **changes)
    return CountsRecord(case="c", tree="t", numbers={"n": n}, ended="ok", left=left)


STORE = line(9, stored=4000)
BASE = record(line(loaded=4000), STORE, line(7, flops=2000))


def found(*lines: Line, floor: Roofline | None = None, **changes: Any) -> list[tuple[str, str]]:
    status, kind, findings = assess(record(*lines, **changes), BASE, floor)
    assert (status, kind) == ("pass", None)
    return [(f.kind, str(f.where)) for f in findings]


def test_what_needs_no_more_than_it_must_is_not_accused() -> None:
    assert found(line(loaded=4000), STORE, line(7, flops=2000), floor=FLOOR) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((line(loaded=8000, fresh=4000), STORE), [("redundant_load", "a.py:5")]),
        ((line(loaded=7900, fresh=4000), STORE), []),  # not twice
        ((line(loaded=8000, fresh=4000), line(9, stored=32_001)), []),  # not a tenth of what is moved
        ((line(loaded=8000, distinct=2000), STORE), [("low_reuse", "a.py:5")]),
        ((line(loaded=8000, distinct=2001), STORE), []),  # by fewer than four programs
        ((line(loaded=8000, distinct=2000), line(9, stored=10_000)), []),  # a third of what is moved, no more
        ((line(loaded=8000, distinct=2000), STORE, line(7, flops=120_000)), []),  # ten operations a byte: not starved
        ((line(loaded=32_000, fresh=16_000, distinct=2000), STORE), [("redundant_load", "a.py:5"), ("low_reuse", "a.py:5")]),
        ((line(loaded=8000, fresh=4000), STORE, line(7, flops=120_000)), [("redundant_load", "a.py:5")]),  # it is waste all the same
        ((STORE, line(7, special=1000, special_again=500)), [("recomputed", "a.py:7")]),
        ((STORE, line(7, special=1000, special_again=499)), []),
        ((STORE, line(7, special=1000, special_again=500), line(8, flops=80_000)), []),  # a tenth of the work
        ((STORE, line(7, flops=64_000, dot_flops=64_000, dot_again=32_000)), [("recomputed", "a.py:7")]),
        ((STORE, line(7, special=4000)), [("special", "a.py:7")]),
        ((STORE, line(7, special=3999)), []),  # fewer than bytes
        ((STORE, line(7, special=4000, flops=64_001)), []),  # other work takes longer
        ((STORE, line(7, special=4000, flops=128_000, dot_flops=128_000)), [("special", "a.py:7")]),  # tensor cores are eight times as fast
    ],
)
def test_each_threshold_on_both_sides(lines: tuple[Line, ...], expected: list[tuple[str, str]]) -> None:
    assert found(*lines) == expected


def test_the_floor_names_the_line_that_loads_again_or_else_moves_most() -> None:
    assert found(line(loaded=9000, distinct=5000), STORE, floor=FLOOR) == [("excess_bytes", "a.py:5")]
    assert found(line(loaded=4000), line(6, loaded=1000, distinct=900), line(9, stored=7000), floor=FLOOR) == [("excess_bytes", "a.py:9")]
    assert found(line(loaded=9000, distinct=5000), STORE) == []
    assert found(STORE, line(7, flops=2000, special=999), floor=FLOOR) == []
    assert found(STORE, line(7, flops=2000, special=1000), line(8, flops=100), floor=FLOOR) == [("excess_flops", "a.py:7")]


def test_findings_come_worst_first_with_their_factor() -> None:
    heavy, light = line(3, loaded=40_000, fresh=4000), line(4, loaded=16_000, fresh=4000)
    _, _, findings = assess(record(light, heavy, STORE), BASE, None)
    assert [str(f.where) for f in findings] == ["a.py:3", "a.py:4"]
    assert "10.0 times" in findings[0].message and "40 kB" in findings[0].message


def test_metrics_have_the_floor_as_target_and_base_where_it_differs() -> None:
    listed = {m.name: m for m in metrics(record(line(loaded=6000), STORE, line(7, flops=2000)), BASE, FLOOR)}
    assert (listed["bytes"].value, listed["bytes"].target, listed["bytes"].base) == (10_000, 8000, 8000)
    assert (listed["operations"].target, listed["operations"].base) == (2000, None)
    assert listed["bytes_stored"].base is None and listed["bytes_loaded"].base == 4000
    assert all(m.target is None for m in metrics(BASE, BASE, None))


def test_base_and_candidate_exchanged_is_noticed() -> None:
    wasteful = record(line(loaded=9000, distinct=5000), STORE)
    assert assess(wasteful, BASE, FLOOR)[2] and not assess(BASE, wasteful, FLOOR)[2]
    assert "1.62 times base's" in assess(wasteful, BASE, FLOOR)[2][0].message


@pytest.mark.parametrize(
    "changes",
    [
        {"loaded": -1}, {"loaded": 2**61},
        {"loaded": 4, "fresh": 8}, {"loaded": 8, "fresh": 4, "distinct": 5}, {"flops": 1, "dot_flops": 2},
        {"special": 1, "special_again": 2}, {"dot_again": 1}, {"file": "x" * 301}, {"extra": 1}, {"flops": 1.5},
    ],
)  # fmt: skip
def test_impossible_counts_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        line(**changes)


@pytest.mark.parametrize(("ended", "kind"), [("crashed", "crashed"), ("timeout", "timeout"), ("bad_report", "tampered")])
def test_a_run_that_did_not_end_well_counts_nothing(ended: str, kind: str) -> None:
    broken = CountsRecord(case="c", tree="t", ended=ended, ending="why")
    assert assess(broken, BASE, FLOOR)[:2] == ("fail", kind)
    assert metrics(broken, BASE, FLOOR) == ()
    assert all(m.base is None for m in metrics(BASE, broken, FLOOR))


def test_no_kernel_is_not_run_and_never_zero_bytes() -> None:
    empty = CountsRecord(case="c", tree="t", ended="ok")
    assert assess(empty, BASE, FLOOR) == ("not_run", None, ())
    assert metrics(empty, BASE, FLOOR) == () and "nothing to count" in headline(empty, FLOOR)


def test_the_headline_says_what_was_not_counted_and_a_wrong_floor_is_the_task_s_error() -> None:
    said = headline(record(line(loaded=4000), STORE, not_covered=("atomic_cas on line 3",), notes=("k is autotuned",)), FLOOR)
    assert "8 kB moved" in said and "1.00 times the floor" in said and "not counted: atomic_cas on line 3, k is autotuned" in said
    with pytest.raises(UsageError, match="no number of the case"):
        assess(BASE, BASE, Roofline(bytes="8 * m", peaks={}))
