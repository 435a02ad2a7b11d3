"""The text of a benchmark as untrusted input, and what pairs of runs prove. Pure; no cage."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from infra_agent.judge.figures import BenchRun, FiguresRecord, assess, metrics, parse, read
from infra_agent.task.spec import Figures

REGEX = Figures(format="regex", pattern=r"^(?P<name>\S+): (?P<value>\S+) us$")
JSON = Figures(format="json", path="results.us")
PYTEST = Figures(format="pytest-benchmark", file="bench.json", statistic="min")
ALL = (REGEX, JSON, PYTEST)


def test_each_format_is_read() -> None:
    assert parse("sort: 1.5 us\nnoise\njoin: 2e3 us\n", REGEX) == {"sort": 1.5, "join": 2000.0}
    assert parse('{"results": {"us": {"a": 1, "b": 2.5}}}', JSON) == {"a": 1.0, "b": 2.5}
    text = json.dumps({"benchmarks": [{"fullname": "t.py::test_a", "stats": {"min": 0.25, "median": 1.0}}]})
    assert parse(text, PYTEST) == {"t.py::test_a": 0.25}


@pytest.mark.parametrize("text", [
    "", "sort: nan us", "sort: inf us", "sort: -1 us", "sort: 0 us", "sort: 1e400 us", "sort: x us", "a: 1 us\na: 2 us",
    "x" * (4 << 20) + "x", "\n" * 30_000, "".join(f"n{n}: 1 us\n" for n in range(400)), "a" * 300 + ": 1 us", "a\x1b[31m: 1 us",
])  # fmt: skip
def test_odd_lines_are_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text, REGEX)


@pytest.mark.parametrize("text", [
    "", "[" * 100_000, "[]", "1", '{"results": 1}', '{"results": {"us": []}}', '{"results": {"us": {}}}',
    '{"results": {"us": {"a": true}}}',
    '{"results": {"us": {"a": 1, "a": 2}}}', '{"results": {"us": {"a": NaN}}}', '{"results": {"us": {"a": -Infinity}}}',
    '{"results": {"us": {"": 1}}}', '{"results": {"us": {"a": [1]}}}', '{"results": {"us": {"a": ' + "9" * 400 + "}}}",
    '{"results": {"us": {"a": ' + "9" * 5000 + "}}}", '{"benchmarks": [{}]}', '{"benchmarks": [{"fullname": 1, "stats": {"min": 1}}]}',
])  # fmt: skip
@pytest.mark.parametrize("asked", [JSON, PYTEST])
def test_odd_json_is_an_error(text: str, asked: Figures) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text, asked)


_ODD = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["results", "us", "benchmarks", "stats", "min", "fullname", "a"]), inner)
    ),
)


@given(st.text() | _ODD.map(json.dumps), st.sampled_from(ALL))
def test_any_text_gives_positive_numbers_or_a_value_error(text: str, asked: Figures) -> None:
    try:
        found = parse(text, asked)
    except ValueError:
        return
    assert found
    assert all(math.isfinite(value) and value > 0 for value in found.values())


@given(st.binary() | _ODD.map(lambda value: json.dumps(value).encode()))
def test_any_report_is_read_or_called_tampered(data: bytes) -> None:
    assert read(data, "n", 1.0, REGEX).ended == "tampered"


@given(st.dictionaries(st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.floats(1e-9, 1e9), min_size=1, max_size=20))
def test_what_was_written_is_read(values: dict[str, float]) -> None:
    assert parse("".join(f"{name}: {value!r} us\n" for name, value in values.items()), REGEX) == values
    assert parse(json.dumps({"results": {"us": values}}), JSON) == values


def test_a_report_needs_nonce_status_and_file() -> None:
    good = {"nonce": "n", "code": 0, "printed": "a: 1 us", "file": None}
    assert read(json.dumps(good).encode(), "n", 1.0, REGEX).values == {"a": 1.0}
    assert read(json.dumps(good).encode(), "m", 1.0, REGEX).ended == "tampered"
    assert read(json.dumps(good | {"code": 2}).encode(), "n", 1.0, REGEX).ended == "crashed"
    assert read(json.dumps(good).encode(), "n", 1.0, PYTEST).ended == "bad_figures"


def record(base: list[float], candidate: list[float], wall: float = 1.0) -> FiguresRecord:
    sides = [tuple(BenchRun(ended="ok", wall_s=w, values={"a": v, "b": 1.0}) for v in s) for s, w in ((base, 1.0), (candidate, wall))]
    return FiguresRecord(tree="t", base_tree="b", base=sides[0], candidate=sides[1], program="measure.py")


NOISE = [1.0, 1.02, 0.99, 1.01, 0.98, 1.0]


def test_slower_beyond_delta_is_named_and_noise_is_not() -> None:
    status, kind, findings = assess(record(NOISE, [1.3 * v for v in reversed(NOISE)]), REGEX)
    assert (status, kind, len(findings)) == ("fail", "slower_figure", 1)
    assert str(findings[0].where) == "measure.py"
    assert findings[0].message.startswith("a: 1.3 times")
    assert assess(record(NOISE, NOISE[::-1]), REGEX) == ("pass", None, ())
    assert assess(record(NOISE, [v / 2 for v in NOISE]), REGEX)[0] == "pass"
    assert assess(record([1.0, 3.0], [1.3, 3.9]), REGEX)[0] == "fail"  # each pair agrees, whatever its size


def test_higher_may_be_better_and_the_wall_time_is_judged_besides() -> None:
    rates = Figures(format="json", better="higher")
    assert assess(record(NOISE, [0.7 * v for v in NOISE]), rates)[1] == "slower_figure"
    assert assess(record(NOISE, [1.3 * v for v in NOISE]), rates)[0] == "pass"
    assert assess(record(NOISE, NOISE, wall=1.5), REGEX)[1] == "slower_wall"
    assert {m.name: m.unit for m in metrics(record(NOISE, NOISE), REGEX)} == {"wall time": "ratio", "a": "ratio", "b": "ratio"}


def test_a_figure_that_is_gone_or_a_run_that_failed_is_no_pass() -> None:
    whole = record(NOISE, NOISE)
    lost = tuple(run.model_copy(update={"values": {"a": 1.0}}) for run in whole.candidate)
    assert assess(whole.model_copy(update={"candidate": lost}), REGEX)[:2] == ("fail", "missing_figure")
    crashed = BenchRun(ended="crashed", ending="Traceback")
    assert assess(whole.model_copy(update={"candidate": (crashed,)}), REGEX)[:2] == ("fail", "crashed")
    assert assess(whole.model_copy(update={"base": (crashed,)}), REGEX)[:2] == ("inconclusive", "no_yardstick")
    assert assess(record([1.0], [1.0]), REGEX)[0] == "inconclusive"


@pytest.mark.parametrize("given", [
    {"format": "regex", "pattern": "("}, {"format": "regex", "pattern": "(?P<name>a)"}, {"format": "pytest-benchmark"},
])  # fmt: skip
def test_a_task_that_cannot_be_read_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        Figures.model_validate(given)
