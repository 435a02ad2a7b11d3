"""From effects to a claim: a crossover's interval, looks with their share of the error, and what it cannot see. Pure.

An *effect* is the logarithm of base's time over the candidate's: above 0 is faster. A *unit* is the mean of two restarts between which
the two sides changed places, so that what belongs to a place cancels. Units are independent; single calls are not.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from infra_agent.frozen import Frozen

Claim = Literal["faster", "slower", "equivalent", "undecided"]
LARGEST = math.log(64)
"""No effect counts for more than this: a shape driven to nothing must not outweigh the others."""
_FIT_HALF_WIDTH = 0.02
_FIT_SHARE = 0.1
_FIT_ALPHA = 0.05


class Look(NamedTuple):
    """A point where a decision is allowed: after how many restarts, and how much of the error it may spend."""

    restarts: int
    alpha: float


LOOKS = (Look(8, 0.005), Look(16, 0.015), Look(32, 0.03))
"""Together 5 %, two-sided: looking three times is paid for."""
PAIRS = 40
"""Timed rounds of a restart."""


class Interval(Frozen):
    """An effect with its two-sided interval."""

    effect: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of low to high."""
        return (self.high - self.low) / 2


def clipped(effect: float) -> float:
    """An effect within the largest that counts. Raises ValueError for NaN: no number must come from nothing."""
    if math.isnan(effect):
        raise ValueError("an effect is not a number")
    return max(-LARGEST, min(LARGEST, effect))


def mean_interval(units: Sequence[float], alpha: float) -> Interval:
    """Student's t over units, two-sided ``1 - alpha``. Raises ValueError below two units."""
    from scipy.special import stdtrit

    n = len(units)
    if n < 2:
        raise ValueError(f"{n} units: an interval needs two")
    mean = math.fsum(units) / n
    spread = math.sqrt(math.fsum((unit - mean) ** 2 for unit in units) / (n - 1))
    half = float(stdtrit(n - 1, 1 - alpha / 2)) * spread / math.sqrt(n)
    return Interval(effect=mean, low=mean - half, high=mean + half)


def trimmed_interval(units: Sequence[float], alpha: float) -> Interval:
    """Like ``mean_interval`` with a fifth of the units cut off at either end: one that a busy machine spoilt does not widen it.

    Tukey and McLaughlin (Sankhya A 25, 1963): the trimmed mean, with the spread of the winsorized units. Below five units nothing is cut.
    """
    from scipy.special import stdtrit

    n, cut = len(units), len(units) // 5
    if cut == 0:
        return mean_interval(units, alpha)
    ordered = sorted(units)
    kept = ordered[cut : n - cut]
    mean = math.fsum(kept) / len(kept)
    winsorized = [kept[0]] * cut + kept + [kept[-1]] * cut
    middle = math.fsum(winsorized) / n
    spread = math.sqrt(math.fsum((unit - middle) ** 2 for unit in winsorized) / (n - 1))
    half = float(stdtrit(len(kept) - 1, 1 - alpha / 2)) * spread * math.sqrt(n) / len(kept)
    return Interval(effect=mean, low=mean - half, high=mean + half)


def paired(effects: Sequence[float], first: int = 0) -> list[float]:
    """Units of consecutive restarts from ``first`` on; a last one without a partner is left out."""
    return [(effects[n] + effects[n + 1]) / 2 for n in range(first, len(effects) - 1, 2)]


def claim(interval: Interval, delta: float) -> Claim:
    """What the interval proves beyond ``delta``, a share: 0.01 is 1 %."""
    edge = math.log1p(delta)
    if interval.low > edge:
        return "faster"
    if interval.high < -edge:
        return "slower"
    if interval.low > -edge and interval.high < edge:
        return "equivalent"
    return "undecided"


def within(interval: Interval, limit: float) -> bool | None:
    """Is the candidate's time over base's below ``limit``? None while the interval holds the limit."""
    if math.exp(-interval.low) < limit:
        return True
    return False if math.exp(-interval.high) > limit else None


def fit(same: Interval, proven: float, delta: float) -> bool:
    """May the machine be believed? ``same``: base against base in the same block; ``proven``: the nearer end of what is claimed.

    Base against base must not be proven off by half of ``delta``, and be narrow: 2 %, or ``delta``, or a tenth of a larger claim.
    """
    edge = math.log1p(delta)
    allowed = max(_FIT_HALF_WIDTH, edge, _FIT_SHARE * abs(proven))
    return same.low <= edge / 2 and same.high >= -edge / 2 and same.half_width <= allowed


def fitness(effects: Sequence[float]) -> Interval:
    """Base against base at 95 %. Its partners are the second and third restart, the fourth and fifth, and so on."""
    return mean_interval(paired(effects, 1), _FIT_ALPHA)


def smallest_visible(units: Sequence[float], delta: float, looks: Sequence[Look] = LOOKS) -> float:
    """The effect that the last look would find beyond ``delta`` four times of five, at the spread seen so far; a share."""
    from scipy.special import ndtri

    last, n = looks[-1], len(units)
    now = mean_interval(units, last.alpha)
    from scipy.special import stdtrit

    spread = now.half_width / float(stdtrit(n - 1, 1 - last.alpha / 2))  # the standard error now
    then = spread * math.sqrt(n / (last.restarts / 2))
    return math.expm1(math.log1p(delta) + (float(stdtrit(last.restarts // 2 - 1, 1 - last.alpha / 2)) + float(ndtri(0.8))) * then)


def clopper_pearson(hits: int, trials: int, alpha: float = 0.05) -> tuple[float, float]:
    """Exact two-sided interval of a proportion. Raises ValueError unless 0 <= hits <= trials and trials > 0."""
    from scipy.special import betaincinv

    if not 0 <= hits <= trials or trials == 0:
        raise ValueError(f"{hits} of {trials} is no proportion")
    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, alpha / 2))
    high = 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1 - alpha / 2))
    return low, high
