"""Floors from a task's expressions: Python's value, or one line that says what is not allowed."""

import math
import operator
import string

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from infra_agent.errors import UsageError
from infra_agent.judge.roofline import evaluate, floor_s
from infra_agent.task.spec import Peak, Roofline

SAME_EVERYWHERE = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=300)
NUMBERS = {"n": 7.0, "size": 4096, "_x1": 0.25, "zero": 0}
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv}
Valued = tuple[str, float]
"""An expression and what Python makes of it; NaN where Python refuses."""


def joined(parts: tuple[Valued, str, Valued, bool]) -> Valued:
    (left, a), symbol, (right, b), spaced = parts
    try:
        value = OPERATORS[symbol](a, b)
    except ZeroDivisionError:
        value = math.nan
    gap = " " * spaced
    return f"({left}){gap}{symbol}{gap}({right})", value


LEAVES = st.one_of(
    st.sampled_from([(name, float(value)) for name, value in NUMBERS.items()]),
    st.integers(0, 10**9).map(lambda number: (str(number), float(number))),
    st.floats(0, 1e30).map(lambda number: (repr(number), number)),
)
EXPRESSIONS = st.recursive(LEAVES, lambda inner: st.tuples(inner, st.sampled_from(list(OPERATORS)), inner, st.booleans()).map(joined))


def refused(expression: str, numbers: dict[str, float] = NUMBERS) -> str:
    """The error's text; anything but a UsageError goes through and fails the test."""
    with pytest.raises(UsageError) as caught:
        evaluate(expression, numbers)
    return str(caught.value)


@SAME_EVERYWHERE
@given(EXPRESSIONS)
@example(("(4) * (n)", 28.0))
def test_an_expression_has_pythons_value_or_is_refused(valued: Valued) -> None:
    expression, value = valued
    if math.isfinite(value) and value >= 0:
        assert evaluate(expression, NUMBERS) == value
    else:
        assert refused(expression).startswith("[roofline] ")


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("2 - 1 - 1", 0.0),
        ("7 // 2 / 2", 1.5),
        ("12 / 2 / 3", 2.0),
        ("0", 0.0),
        ("4 * size * n + size", 118_784.0),
        ("1_000.5e0", 1000.5),
    ],
)
def test_operators_bind_as_in_python(expression: str, value: float) -> None:
    assert evaluate(expression, NUMBERS) == value


@pytest.mark.parametrize("expression", [
    "m", "N", "n n", "n.real", "n[0]", "n()", "max(n, 1)", "__import__('os')", "n ** 2", "n % 2", "n @ n", "n << 1", "n | 1", "n & 1", "-n",
    "+n", "~n", "not n", "n < 2", "n == n", "n and n", "'n'", "f'{n}'", "b'n'", "1j", "True", "None", "...", "[n]", "(n, n)", "n,", "{n}",
    "{n: n}", "[n for n in n]", "(n for n in n)", "lambda: n", "n if n else n", "(n := 1)", "*n", "n; n", "n = 1", "import os", "(yield)",
    "await n", "1 +", "(1", "1)", "", "# only words",
])  # fmt: skip
def test_whatever_else_python_knows_is_refused(expression: str) -> None:
    assert refused(expression).startswith("[roofline] ")


@pytest.mark.parametrize(
    "expression",
    ["1 / 0", "n // zero", "n / (n - 7)", "1e999", "1e999 - 1e999", "1e200 * 1e200", "1e308 + 1e308", "0 - 1", "1 - n", "n // (0 - 2)"],
)
def test_what_is_no_finite_number_of_at_least_0_is_refused(expression: str) -> None:
    assert refused(expression).startswith("[roofline] ")


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 10**400])
def test_a_number_of_the_case_that_is_none_is_refused(value: float) -> None:
    refused("n", {"n": value})


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    assert refused("3 * m").endswith("'m' is no number of the case; there are: _x1, n, size, zero")


HUGE = 20_000
NESTED = {
    "brackets": "(" * HUGE + "1" + ")" * HUGE, "sums": "+".join(["1"] * HUGE), "signs": "-" * HUGE + "1", "not": "not " * HUGE + "1",
    "lambdas": "lambda:" * HUGE + "1", "places": "n" + "[0]" * HUGE, "attributes": "n" + ".n" * HUGE, "products": "1" + "+1*1" * HUGE,
    "digits": "9" * HUGE, "hex": "0x" + "f" * HUGE, "calls": "n" + "()" * HUGE, "powers": "2" + "**2" * HUGE, "lists": "[" * HUGE,
    "comparisons": "<".join(["1"] * HUGE), "choices": "1 if 1 else " * HUGE + "1", "strings": "'n'" * HUGE, "name": "n" * HUGE,
}  # fmt: skip


@pytest.mark.parametrize("expression", NESTED.values(), ids=NESTED.keys())
def test_nothing_is_too_deep_or_too_long_to_be_refused(expression: str) -> None:
    assert refused(expression).startswith("[roofline] ")


def test_what_a_person_may_write_is_not_too_deep() -> None:
    assert evaluate("(" * 90 + "n" + ")" * 90, NUMBERS) == 7.0
    assert evaluate(" + ".join(["n"] * 300), NUMBERS) == 2100.0


def survives(expression: str) -> None:
    try:
        value = evaluate(expression, NUMBERS)
    except UsageError:
        return
    assert type(value) is float and math.isfinite(value) and value >= 0


@SAME_EVERYWHERE
@given(st.text(max_size=60))
@example("\ud800")
@example("1\0")
@example("\t1")
@example("\uff4e")
@example("'\\d'")
@example("1if 1else 2")
def test_any_text_is_a_number_or_refused(expression: str) -> None:
    survives(expression)


@SAME_EVERYWHERE
@given(st.text(string.digits + "n+-*/()._e ,[]'\"{}:=<>#\\\n", max_size=40), EXPRESSIONS, st.integers(0, 10**6))
def test_an_expression_with_something_in_it_is_a_number_or_refused(noise: str, valued: Valued, place: int) -> None:
    expression, _ = valued
    assume(len(expression) < 2000)
    cut = place % (len(expression) + 1)
    survives(expression[:cut] + noise + expression[cut:])
    survives(noise)


@pytest.mark.parametrize("expression", ["1 +\n n +", "(m\n* n)", "n -\\\n size"])
def test_an_error_is_one_line_though_the_expression_is_not(expression: str) -> None:
    assert len(refused(expression).splitlines()) == 1


def test_the_floor_is_the_slower_of_moving_and_computing() -> None:
    peak = Peak(bytes_per_s=100.0, flops_per_s=1000.0, source="test")
    for moved, done, least in (("n", "n", 0.07), ("n", "100 * n", 0.7), ("n", "0", 0.07), ("0", "n", 0.007)):
        assert floor_s(Roofline(bytes=moved, flops=done, peaks={"cpu": peak}), "cpu", NUMBERS) == pytest.approx(least)
    assert floor_s(Roofline(bytes="n", peaks={"cpu": peak}), "cpu-emulated", NUMBERS) is None
    with pytest.raises(UsageError, match="'m' is no number"):
        floor_s(Roofline(bytes="n", flops="m", peaks={"cpu": peak}), "cpu", NUMBERS)
