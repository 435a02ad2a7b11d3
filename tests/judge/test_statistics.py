"""From units to a claim: against scipy where it knows the answer, by symmetry where it does not, by simulation for the whole."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats

from infra_agent.judge.statistics import (
    LARGEST,
    LOOKS,
    Claim,
    Interval,
    Look,
    claim,
    clipped,
    clopper_pearson,
    fit,
    fitness,
    mean_interval,
    paired,
    smallest_visible,
    trimmed_interval,
    within,
)

SAME_EVERYWHERE = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=150)
"""A red test is the change's, not the dice's; how long an example takes is not asserted."""
DELTA = 0.01
EDGE = math.log1p(DELTA)
EFFECTS = st.floats(-LARGEST, LARGEST)
UNITS = st.lists(EFFECTS, min_size=2, max_size=20)
ALPHAS = st.sampled_from([look.alpha for look in LOOKS] + [0.05, 0.5])
SWAPPED: dict[Claim, Claim] = {"faster": "slower", "slower": "faster", "equivalent": "equivalent", "undecided": "undecided"}
SIMULATIONS = 2000


def between(low: float, high: float) -> Interval:
    return Interval(effect=(low + high) / 2, low=low, high=high)


@SAME_EVERYWHERE
@given(UNITS, ALPHAS)
def test_the_interval_is_student_t(units: list[float], alpha: float) -> None:
    assume(np.std(units) > 1e-6)
    low, high = stats.t.interval(1 - alpha, len(units) - 1, np.mean(units), stats.sem(units))
    found = mean_interval(units, alpha)
    assert (found.low, found.effect, found.high) == pytest.approx((low, np.mean(units), high), rel=1e-9, abs=1e-9)
    assert found.half_width == pytest.approx((high - low) / 2, rel=1e-9, abs=1e-9)


@SAME_EVERYWHERE
@given(st.sampled_from([5, 10, 15, 40]).flatmap(lambda n: st.lists(EFFECTS, min_size=n, max_size=n)), ALPHAS)
def test_the_trimmed_interval_is_tukeys_and_mclaughlins(units: list[float], alpha: float) -> None:
    low, high = stats.mstats.trimmed_mean_ci(np.array(units), limits=(0.2, 0.2), alpha=alpha)
    found = trimmed_interval(units, alpha)
    assert (found.low, found.high) == (pytest.approx(float(low), abs=1e-9), pytest.approx(float(high), abs=1e-9))


def test_a_spoilt_unit_hides_a_large_effect_from_the_mean_and_not_from_the_trimmed_mean() -> None:
    units = [-0.40, -0.41, -0.39, -0.42, -0.38, -0.40, 0.9, -0.41, -0.39, -0.40]
    assert claim(mean_interval(units, 0.02), 0.05) == "undecided" and claim(trimmed_interval(units, 0.02), 0.05) == "slower"


def test_the_trimmed_interval_holds_the_truth_as_often_as_it_says_even_when_units_are_spoilt() -> None:
    rng = np.random.default_rng(5)
    spoilt = rng.random((4000, 10)) < 0.1
    draws = rng.normal(0, np.where(spoilt, 10.0, 1.0))
    missed = sum(not found.low <= 0 <= found.high for found in (trimmed_interval(list(units), 0.05) for units in draws))
    assert clopper_pearson(missed, len(draws), 0.001)[0] <= 0.05


def test_the_looks_spend_five_per_cent_and_each_has_whole_pairs() -> None:
    assert math.fsum(look.alpha for look in LOOKS) == pytest.approx(0.05, abs=1e-15)
    assert [look.restarts for look in LOOKS] == [8, 16, 32]
    assert all(look.restarts % 2 == 0 for look in LOOKS)


@SAME_EVERYWHERE
@given(UNITS, ALPHAS)
def test_exchanging_the_sides_mirrors_the_interval_and_the_claim(units: list[float], alpha: float) -> None:
    found, mirrored = mean_interval(units, alpha), mean_interval([-unit for unit in units], alpha)
    assert (mirrored.effect, mirrored.low, mirrored.high) == (-found.effect, -found.high, -found.low)
    assert claim(mirrored, DELTA) == SWAPPED[claim(found, DELTA)]


@SAME_EVERYWHERE
@given(UNITS, st.floats(0.01, 100), EFFECTS)
def test_scaling_and_shifting_units_scales_and_shifts_the_interval(units: list[float], factor: float, shift: float) -> None:
    found, moved = mean_interval(units, 0.05), mean_interval([factor * unit + shift for unit in units], 0.05)
    expected = [factor * end + shift for end in (found.low, found.effect, found.high)]
    assert [moved.low, moved.effect, moved.high] == pytest.approx(expected, rel=1e-9, abs=1e-9)


@SAME_EVERYWHERE
@given(UNITS)
def test_less_error_to_spend_makes_it_wider(units: list[float]) -> None:
    assume(np.std(units) > 1e-6)
    widths = [mean_interval(units, look.alpha).half_width for look in LOOKS]
    assert widths[0] > widths[1] > widths[2] > mean_interval(units, 0.05).half_width


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", range(3))
def test_nothing_is_claimed_from_what_is_no_number(bad: float, place: int) -> None:
    units = [0.1, 0.1, 0.1]
    units[place] = bad
    with pytest.raises(ValueError, match=r"finite|fsum"):
        mean_interval(units, 0.05)
    with pytest.raises(ValueError, match=r"finite|fsum"):
        fitness([0.0, *units, 0.1])
    with pytest.raises(ValueError, match=r"finite|fsum"):
        smallest_visible(units, DELTA)


@pytest.mark.parametrize("units", [[], [0.5]])
def test_one_unit_is_no_interval(units: list[float]) -> None:
    with pytest.raises(ValueError, match="needs two"):
        mean_interval(units, 0.05)


def test_an_effect_is_bounded_and_is_a_number() -> None:
    assert clipped(math.inf) == clipped(10.0) == LARGEST == math.log(64)
    assert clipped(-math.inf) == clipped(-10.0) == -LARGEST
    assert clipped(0.25) == 0.25
    with pytest.raises(ValueError, match="not a number"):
        clipped(math.nan)


LITTLE = 1e-9


@pytest.mark.parametrize(
    ("low", "high", "claimed"),
    [
        (EDGE + LITTLE, 0.5, "faster"),
        (EDGE, 0.5, "undecided"),
        (-0.5, -EDGE - LITTLE, "slower"),
        (-0.5, -EDGE, "undecided"),
        (-EDGE + LITTLE, EDGE - LITTLE, "equivalent"),
        (-EDGE, 0.0, "undecided"),
        (0.0, EDGE, "undecided"),
        (-0.5, 0.5, "undecided"),
        (0.001, EDGE - LITTLE, "equivalent"),
    ],
)
def test_a_claim_clears_the_edge(low: float, high: float, claimed: Claim) -> None:
    assert claim(between(low, high), DELTA) == claimed


@SAME_EVERYWHERE
@given(EFFECTS, EFFECTS, st.floats(0.001, 0.49))
def test_a_claim_holds_for_every_effect_of_its_interval(one: float, other: float, delta: float) -> None:
    interval = between(min(one, other), max(one, other))
    found = claim(interval, delta)
    truths = [abs(end) <= math.log1p(delta) for end in (interval.low, interval.high)]
    assert found != "faster" or (interval.low > 0 and not any(truths))
    assert found != "slower" or (interval.high < 0 and not any(truths))
    assert found != "equivalent" or all(truths)


@pytest.mark.parametrize(
    ("low", "high", "limit", "proven"),
    [
        (-math.log(1.02) + LITTLE, 0.5, 1.02, True),
        (-math.log(1.02) - LITTLE, 0.5, 1.02, None),
        (-0.5, -math.log(1.02) - LITTLE, 1.02, False),
        (-0.5, -math.log(1.02) + LITTLE, 1.02, None),
        (0.0, 0.5, 1.0, None),
        (-0.5, 0.0, 1.0, None),
        (LITTLE, 0.5, 1.0, True),
    ],
)
def test_a_limit_is_proven_by_the_far_end(low: float, high: float, limit: float, proven: bool | None) -> None:
    assert within(between(low, high), limit) is proven


HALF = math.log(1.01) / 2


@pytest.mark.parametrize(
    ("low", "high", "proven", "believed"),
    [
        (-0.02, 0.02, 0.0, True),
        (-0.02 - LITTLE, 0.02 + LITTLE, 0.0, False),
        (HALF - LITTLE, 0.03, 0.0, True),
        (-0.03, LITTLE - HALF, 0.0, True),
        (HALF + LITTLE, 0.008, 0.0, False),
        (-0.008, -HALF - LITTLE, 0.0, False),
        (-0.03, 0.03, 0.29, False),
        (-0.03, 0.03, 0.31, True),
        (-0.03, 0.03, -0.31, True),
        (HALF + LITTLE, 0.008, 3.0, False),
    ],
)
def test_a_machine_is_believed_when_base_is_not_proven_to_differ_from_base(low: float, high: float, proven: float, believed: bool) -> None:
    assert fit(between(low, high), proven, 0.01) is believed


def test_a_coarse_question_asks_less_of_the_machine() -> None:
    wide = between(-0.04, 0.04)
    assert fit(wide, 0.0, 0.05) and not fit(wide, 0.0, 0.03)


@SAME_EVERYWHERE
@given(st.lists(EFFECTS, max_size=33), st.sampled_from([0, 1]))
@example([1.0, 2.0, 3.0], 0)
def test_units_are_means_of_neighbours_and_a_last_one_alone_is_left_out(effects: list[float], first: int) -> None:
    units, rest = paired(effects, first), effects[first:]
    assert len(units) == len(rest) // 2
    assert [2 * unit for unit in units] == pytest.approx([a + b for a, b in zip(rest[::2], rest[1::2], strict=False)])


@SAME_EVERYWHERE
@given(EFFECTS, EFFECTS)
def test_what_belongs_to_a_place_cancels_in_a_unit(effect: float, bias: float) -> None:
    swapping = [effect + bias * (-1) ** n for n in range(9)]
    assert paired(swapping) == pytest.approx([effect] * 4, abs=1e-12) == paired(swapping, 1)


def test_fitness_takes_the_partners_that_exchanged_base_and_base() -> None:
    effects = [9.0, 0.3, -0.1, 0.2, 0.4, -0.5, 0.1, 9.0]
    assert fitness(effects) == mean_interval([0.1, 0.3, -0.2], 0.05)


@SAME_EVERYWHERE
@given(st.integers(1, 400), st.data(), st.sampled_from([0.05, 0.01, 0.3]))
def test_a_proportion_agrees_with_scipy(trials: int, data: st.DataObject, alpha: float) -> None:
    hits = data.draw(st.integers(0, trials))
    exact = stats.binomtest(hits, trials).proportion_ci(confidence_level=1 - alpha, method="exact")
    assert clopper_pearson(hits, trials, alpha) == pytest.approx((exact.low, exact.high), rel=1e-9, abs=1e-12)


def test_a_proportion_at_its_ends() -> None:
    assert clopper_pearson(0, 10)[0] == 0.0 and clopper_pearson(10, 10)[1] == 1.0
    assert clopper_pearson(0, 1000)[1] == pytest.approx(1 - 0.025 ** (1 / 1000))  # 0.4 %: none seen is not none there
    for hits, trials in ((-1, 10), (11, 10), (0, 0), (1, 0), (0, -1)):
        with pytest.raises(ValueError, match="no proportion"):
            clopper_pearson(hits, trials)


@SAME_EVERYWHERE
@given(st.lists(st.floats(-0.2, 0.2), min_size=4, max_size=16), st.floats(0.05, 0.95))
def test_a_calmer_machine_sees_smaller_effects(units: list[float], calm: float) -> None:
    assume(np.std(units) > 1e-6)
    assert smallest_visible([calm * unit for unit in units], DELTA) < smallest_visible(units, DELTA)
    assert smallest_visible(units, DELTA) > smallest_visible([0.5] * len(units), DELTA) == pytest.approx(DELTA)
    assert smallest_visible([unit + 1 for unit in units], DELTA) == pytest.approx(smallest_visible(units, DELTA))


def test_the_last_look_sees_the_smallest_visible_effect_four_times_of_five() -> None:
    spread, last = 0.02, LOOKS[-1]
    seen_so_far = [spread * math.sqrt(3) / 2 * sign for sign in (1, -1, 1, -1)]  # its standard deviation is the spread
    truth = math.log1p(smallest_visible(seen_so_far, DELTA))
    draws = np.random.default_rng(1).normal(truth, spread, (SIMULATIONS, last.restarts // 2))
    found = sum(claim(mean_interval(list(units), last.alpha), DELTA) == "faster" for units in draws)
    assert 0.77 < found / SIMULATIONS < 0.83


def decided(effects: Sequence[float], same: Sequence[float], delta: float, looks: Sequence[Look] = LOOKS) -> Claim:
    """The whole procedure on restarts drawn in advance: look, and stop at the first claim on a machine that can be believed."""
    for look in looks:
        interval = mean_interval(paired(effects[: look.restarts]), look.alpha)
        proven = 0.0 if interval.low <= 0 <= interval.high else min(abs(interval.low), abs(interval.high))
        if claim(interval, delta) != "undecided" and fit(fitness(same[: look.restarts]), proven, delta):
            return claim(interval, delta)
    return "undecided"


def simulated(effect: float, spread: float, delta: float, same_spread: float, seed: int) -> list[Claim]:
    """``spread`` of units; a restart's own is larger by the root of two."""
    rng = np.random.default_rng(seed)
    shape = (SIMULATIONS, LOOKS[-1].restarts)
    drawn, same = rng.normal(effect, spread * math.sqrt(2), shape), rng.normal(0, same_spread * math.sqrt(2), shape)
    return [decided(list(own), list(equal), delta) for own, equal in zip(drawn, same, strict=True)]


@pytest.mark.parametrize("spread", [0.003, 0.01, 0.03, 0.1])
def test_equal_programs_are_called_different_no_more_often_than_was_spent(spread: float) -> None:
    claims = simulated(0.0, spread, DELTA, same_spread=0.0, seed=2)
    assert claims.count("faster") + claims.count("slower") <= 0.05 * SIMULATIONS


@pytest.mark.parametrize("effect", [EDGE, -EDGE])
def test_an_effect_that_does_not_count_is_claimed_no_more_often_than_was_spent(effect: float) -> None:
    """The worst case, where every claim is false by a hair; half of the error lies on this side."""
    claims = simulated(effect, 0.02, DELTA, same_spread=0.0, seed=3)
    false = claims.count("faster" if effect > 0 else "slower")
    assert false / SIMULATIONS > 0.01 and clopper_pearson(false, SIMULATIONS)[0] <= 0.025


def test_without_an_edge_the_error_is_all_spent_and_not_more() -> None:
    claims = simulated(0.0, 0.02, 0.0, same_spread=0.0, seed=4)
    false = len(claims) - claims.count("undecided")
    assert false / SIMULATIONS > 0.03 and clopper_pearson(false, SIMULATIONS)[0] <= 0.05


def test_a_true_effect_of_three_per_cent_is_found() -> None:
    for sign, word in ((1, "faster"), (-1, "slower")):
        claims = simulated(sign * math.log(1.03), 0.01, DELTA, same_spread=0.01, seed=5)
        assert claims.count(word) >= 0.95 * SIMULATIONS
        assert claims.count(SWAPPED[word]) == 0
