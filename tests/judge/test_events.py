"""What nothing orders, on logs made by hand; torch's own detector of races between streams as a second opinion."""

import json
import random
import struct
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra_agent.judge.events import Event, EventsRecord, assess, parse, violations
from infra_agent.judge.schedules import turned


def log(*rows: tuple[str, str, str] | tuple[str, str, str, int]) -> tuple[Event, ...]:
    return tuple(Event(float(n), row[0], row[1], row[2], row[3] if len(row) > 3 else 0, f"w.py:{n + 1}") for n, row in enumerate(rows))  # type: ignore[arg-type]


def kinds(*rows: tuple[str, str, str] | tuple[str, str, str, int]) -> set[str]:
    return {violation.kind for violation in violations(log(*rows))}


@pytest.mark.parametrize("edge", [
    [("a", "end", "a"), ("b", "join", "a")],
    [("a", "release", "lock"), ("b", "acquire", "lock")],
    [("a", "send", "queue", 1), ("b", "receive", "queue", 1)],
    [("a", "record", "event", 1), ("b", "wait", "event", 1)],
    [("a", "start", "b")],
    [("a", "launch", "b", 7), ("b", "run", "b", 7)],
    [("b", "synchronize", "a")],
])  # fmt: skip
def test_each_edge_orders_what_comes_before_it(edge: list[tuple[str, str, str]]) -> None:
    held = [("a", "acquire", "lock")] if edge[0][1] == "release" else []
    assert kinds(*held, ("a", "write", "x"), *edge, ("b", "read", "x")) == set()
    assert "race" in kinds(*held, *edge, ("a", "write", "x"), ("b", "read", "x"))
    assert "race" in kinds(*held, ("a", "write", "x"), ("b", "read", "x"), *edge)


def test_reads_do_not_race_and_another_lock_orders_nothing() -> None:
    assert kinds(("a", "read", "x"), ("b", "read", "x")) == set()
    apart = [("a", "acquire", "m"), ("a", "write", "x"), ("a", "release", "m"), ("b", "acquire", "n"), ("b", "write", "x")]
    assert kinds(*apart, ("b", "release", "n")) == {"race"}


@pytest.mark.parametrize(("rows", "kind"), [
    ([("a", "alloc", "x", 1), ("a", "free", "x", 1), ("a", "read", "x", 1)], "use_after_free"),
    ([("a", "alloc", "x", 1), ("a", "free", "x", 1), ("a", "free", "x", 1)], "double_free"),
    ([("a", "alloc", "x", 1), ("a", "free", "x", 1), ("a", "alloc", "x", 2), ("a", "write", "x", 1)], "stale_use"),
    ([("a", "alloc", "x", 1), ("a", "free", "x", 1), ("a", "alloc", "x", 2), ("a", "free", "x", 1)], "stale_free"),
    ([("a", "alloc", "x", 1), ("a", "alloc", "x", 2)], "double_alloc"),
    ([("a", "alloc", "x", 1), ("a", "start", "b"), ("b", "read", "x", 1), ("a", "free", "x", 1)], "freed_in_use"),
    ([("a", "release", "lock")], "not_held"),
    ([("a", "acquire", "m"), ("b", "blocked", "m")], "deadlock"),
    ([("a", "blocked", "queue")], "never_woken"),
])  # fmt: skip
def test_lifetimes_and_locks(rows: list[tuple[str, str, str]], kind: str) -> None:
    assert kinds(*rows) == {kind}


def test_a_healthy_lifetime_says_nothing() -> None:
    rows = [("a", "alloc", "x", 1), ("a", "write", "x", 1), ("a", "send", "q", 1), ("b", "receive", "q", 1), ("b", "read", "x", 1)]
    back = [("b", "send", "r", 1), ("a", "blocked", "r"), ("a", "receive", "r", 1), ("a", "free", "x", 1), ("a", "alloc", "x", 2)]
    assert kinds(*rows, *back, ("a", "write", "x", 2)) == set()


def test_a_finding_names_both_events_their_lines_and_a_short_schedule() -> None:
    noise = [("a", "read", f"y{n}") for n in range(50)]
    found = violations(log(*noise, ("a", "write", "x"), *noise, ("b", "read", "x")))
    assert len(found) == 1 and len(found[0].schedule) <= 20
    status, kind, findings = assess(EventsRecord(case="c", tree="t", ended="ok", log=log(("a", "write", "x"), ("b", "read", "x"))))
    assert (status, kind) == ("fail", "race")
    assert str(findings[0].where) == "a write x#0 at w.py:1 / b read x#0 at w.py:2"
    assert "until a is done with x" in findings[0].message and "Schedule: 0 a write" in findings[0].message


def test_a_log_that_is_none_is_no_pass() -> None:
    assert assess(EventsRecord(case="c", tree="t", ended="ok"))[0] == "not_run"
    for ended, kind in (("timeout", "timeout"), ("bad_report", "tampered"), ("error", "crashed")):
        assert assess(EventsRecord(case="c", tree="t", ended=ended))[:2] == ("fail", kind)


@pytest.mark.parametrize("text", [
    b"", b"[]", b"{}", b'{"log": [[0, "a", "explode", "x", 0, ""]], "error": ""}', b'{"log": [[0]], "error": ""}', b'{"log": NaN}',
    b'{"log": [[0, "a", "read", "x", -1, ""]], "error": ""}', b"\xff\xfe",
])  # fmt: skip
def test_anything_but_a_log_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"(?s).+"):
        parse(struct.pack("<Q", len(text)) + text)
    with pytest.raises(ValueError, match=r"(?s).+"):
        parse(struct.pack("<Q", len(text) + 1) + text)


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"(?s).+"):
        parse(data)


def test_a_log_round_trips() -> None:
    made = log(("a", "write", "x"), ("b", "read", "x", 3))
    text = json.dumps({"log": made, "error": "no"}).encode()
    assert parse(struct.pack("<Q", len(text)) + text + b"rest") == (made, "no")


def test_turned_schedules_hold_back_whoever_came_first_by_chance() -> None:
    made = log(("a", "send", "q"), ("b", "send", "q"), ("b", "send", "q"), ("a", "read", "x"))
    assert turned(made, 5) == [{"a@w.py:1": pytest.approx(2.00001)}]
    assert turned(made, 0) == []


_TORCH = """
import json, sys
from torch.cuda import _sanitizer as csan
handler, found = csan.EventHandler(), []
for kind, *about in json.load(sys.stdin):
    if kind == "launch":
        stream, reads, writes = about
        errors = handler._handle_kernel_launch(stream, set(reads), set(writes), set(), "op", dict.fromkeys(reads + writes, []))
        found.append(bool(errors))
    else:
        getattr(handler, kind)(*about)
json.dump(found, sys.stdout)
"""


@pytest.mark.parametrize("seed", range(12))
def test_torchs_own_sanitizer_agrees_on_streams(seed: int) -> None:
    rng = random.Random(seed)
    calls, rows, recorded = [], [], {}
    for number in range(40):
        stream, event, buffer = rng.randrange(1, 4), rng.randrange(1, 4), rng.randrange(1, 4)
        choice = rng.choice(["launch", "launch", "record", "wait"])
        if choice == "launch":
            writes = rng.random() < 0.5
            calls.append(["launch", stream, [] if writes else [buffer], [buffer] if writes else []])
            rows.append((f"s{stream}", "write" if writes else "read", f"b{buffer}"))
        elif choice == "record":
            recorded[event] = number + 1
            calls.append(["_handle_event_record", event, stream])
            rows.append((f"s{stream}", "record", f"e{event}", recorded[event]))
        elif event in recorded:
            calls.append(["_handle_event_wait", event, stream])
            rows.append((f"s{stream}", "wait", f"e{event}", recorded[event]))
    made = log(*rows)
    racing = {violation.second for violation in violations(made)}
    ours = [made[n] in racing for n, row in enumerate(rows) if row[1] in ("read", "write")]
    ran = subprocess.run([sys.executable, "-c", _TORCH], input=json.dumps(calls), capture_output=True, text=True, check=True)
    theirs = json.loads(ran.stdout)
    assert (True in ours) == (True in theirs)
    assert True not in ours or ours.index(True) == theirs.index(True), "the first race is the same"
    assert all(mine for mine, other in zip(ours, theirs, strict=True) if other), "torch asks about the latest reads only"


def test_what_is_true_of_many_objects_at_the_same_places_is_one_finding() -> None:
    log = tuple(
        Event(float(n), who, op, f"page[{page}]", 0, place)
        for n, (page, who, op, place) in enumerate(
            (page, who, op, place) for page in range(6) for who, op, place in (("copy", "write", "a.py:1"), ("read", "read", "b.py:2"))
        )
    )
    (found,) = assess(EventsRecord(case="s", tree="t", ended="ok", seeds=(1,), log=log))[2]
    assert "the same of page[1], page[2], page[3] and 2 more" in found.message
