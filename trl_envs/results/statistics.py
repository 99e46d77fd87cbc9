"""Means and differences with their 95 % intervals, in plain Python.

Values that are all 0 or 1 are shares: Wilson's interval and, for a difference, Newcombe's, which stay within what is
possible and are right for a few episodes and for shares near 0 and 1. Other values: Student's t, and Welch's for a
difference.

Sources: Wilson 1927 (J. Am. Stat. Assoc. 22:209); Newcombe 1998 (Statistics in Medicine 17:873, method 10); Welch 1947
(Biometrika 34:28), with Satterthwaite's degrees of freedom; the incomplete beta function by Lentz's continued fraction,
Numerical Recipes, 3rd ed., section 6.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev

CONFIDENCE = 0.95
_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
_FRACTION_TERMS = 300


@dataclass(frozen=True)
class Estimate:
    """A mean, JSON-able.

    Args:
        mean: None if there are no values.
        low: Lower end of the 95 % interval; None where too few values leave it open.
        high: Upper end.
        n: Number of values.
        sd: Standard deviation of the values (n - 1); None for fewer than two.
        share: Whether all values are 0 or 1.
    """

    mean: float | None
    low: float | None
    high: float | None
    n: int
    sd: float | None
    share: bool


@dataclass(frozen=True)
class Difference:
    """A difference of two means and its 95 % interval; None where it can't be told."""

    value: float | None
    low: float | None
    high: float | None


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of values with its interval."""
    n = len(values)
    if n == 0:
        return Estimate(None, None, None, 0, None, False)
    mean, sd = fmean(values), stdev(values) if n > 1 else None
    if all(value in (0, 1) for value in values):
        return Estimate(mean, *wilson(round(mean * n), n), n, sd, True)
    if sd is None:
        return Estimate(mean, None, None, n, None, False)
    margin = t_quantile((1 + CONFIDENCE) / 2, n - 1) * sd / math.sqrt(n)
    return Estimate(mean, mean - margin, mean + margin, n, sd, False)


def difference(before: Estimate, after: Estimate) -> Difference:
    """After minus before, the two taken as independent samples."""
    if before.mean is None or after.mean is None:
        return Difference(None, None, None)
    change = after.mean - before.mean
    if before.share and after.share:
        # Newcombe's method 10: each end from the Wilson intervals of the two.
        assert before.low is not None and before.high is not None and after.low is not None and after.high is not None
        low = change - math.hypot(after.mean - after.low, before.high - before.mean)
        high = change + math.hypot(after.high - after.mean, before.mean - before.low)
        return Difference(change, low, high)
    if before.sd is None or after.sd is None:
        return Difference(change, None, None)
    return Difference(change, *_welch(change, before.sd**2 / before.n, before.n, after.sd**2 / after.n, after.n))


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson's interval for a share, without continuity correction."""
    share, z2 = successes / n, _Z**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    margin = _Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n**2))
    return (0.0 if successes == 0 else centre - margin), (1.0 if successes == n else centre + margin)


def _welch(change: float, error: float, n: int, other_error: float, other_n: int) -> tuple[float, float]:
    """The interval of a difference.

    Args:
        change: The difference.
        error: Squared standard error of the first mean.
        n: Number of its values.
        other_error: The same of the second.
        other_n: Number of its values.
    """
    both = error + other_error
    if both == 0:
        return change, change
    freedom = both**2 / (error**2 / (n - 1) + other_error**2 / (other_n - 1))
    margin = t_quantile((1 + CONFIDENCE) / 2, freedom) * math.sqrt(both)
    return change - margin, change + margin


def t_quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t distribution, found by halving.

    Args:
        probability: Above 0.5 and below 1.
        freedom: Degrees of freedom, not necessarily whole.
    """
    low, high = 0.0, 1.0
    while _t_cdf(high, freedom) < probability:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if _t_cdf(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return high


def _t_cdf(t: float, freedom: float) -> float:
    """P(T <= t) for t >= 0."""
    return 1 - 0.5 * _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        # Where the fraction converges slowly, its mirror image converges fast.
        return 1 - _incomplete_beta(b, a, 1 - x)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(logarithm) * _beta_fraction(a, b, x) / a


def _beta_fraction(a: float, b: float, x: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 / max(1 - (a + b) * x / (a + 1), tiny)
    fraction = d
    for m in range(1, _FRACTION_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for factor in (even, odd):
            d = 1 / (_off_zero(1 + factor * d, tiny))
            c = _off_zero(1 + factor / c, tiny)
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return fraction


def _off_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny
