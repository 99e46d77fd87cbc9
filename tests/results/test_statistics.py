"""Intervals against published examples and against tables."""

from __future__ import annotations

import pytest

from trl_envs.results.statistics import difference, estimate, t_quantile, wilson


def share(successes: int, n: int) -> list[float]:
    return [1.0] * successes + [0.0] * (n - successes)


# Newcombe 1998, Statistics in Medicine 17:857, table I, method 3.
@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson(successes: int, n: int, low: float, high: float) -> None:
    assert wilson(successes, n) == pytest.approx((low, high), abs=5e-5)
    mirrored = wilson(n - successes, n)
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=5e-5)


# Newcombe 1998, Statistics in Medicine 17:873, table II, method 10.
@pytest.mark.parametrize(
    ("first", "second", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((6, 7), (2, 7), 0.0582, 0.8062),
        ((5, 56), (0, 29), -0.0381, 0.1926),
        ((0, 10), (0, 20), -0.1611, 0.2775),
        ((10, 10), (0, 20), 0.6791, 1.0),
        ((10, 10), (0, 10), 0.6075, 1.0),
    ],
)
def test_newcombe(first: tuple[int, int], second: tuple[int, int], low: float, high: float) -> None:
    found = difference(estimate(share(*second)), estimate(share(*first)))
    assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)


# As in any table of the distribution.
@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (30, 2.042), (100, 1.984), (1e6, 1.960)]
)
def test_student(freedom: float, quantile: float) -> None:
    assert t_quantile(0.975, freedom) == pytest.approx(quantile, abs=5e-4)


def test_means_of_other_values_and_welchs_difference() -> None:
    # As scipy 1.17.1 finds them: stats.ttest_ind(second, first, equal_var=False).confidence_interval().
    first = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4]
    second = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 24.0]
    before, after = estimate(first), estimate(second)
    assert (before.mean, before.sd, before.n, before.share) == (
        pytest.approx(20.82),
        pytest.approx(2.804894),
        15,
        False,
    )
    assert (before.low, before.high) == pytest.approx((19.26669, 22.37331), abs=1e-4)
    found = difference(before, after)
    assert (found.low, found.high) == pytest.approx((0.7741516, 4.8391817), abs=1e-6)
    assert found.value == pytest.approx(2.8066667)


def test_too_few_values_leave_an_interval_open() -> None:
    nothing, one, two = estimate([]), estimate([0.5]), estimate([0.5, 0.7])
    assert (nothing.mean, nothing.low, nothing.n) == (None, None, 0)
    assert (one.mean, one.low, one.high) == (0.5, None, None)
    assert two.low is not None and two.low < 0.6 < (two.high or 0)
    assert difference(nothing, two).value is None
    assert difference(one, two).value == pytest.approx(0.1) and difference(one, two).low is None
    assert estimate([0.5, 0.5]).low == estimate([0.5, 0.5]).high == 0.5
    # Shares even of a single episode: not much is known, and the interval says so.
    assert estimate([1.0]).low == pytest.approx(0.2065, abs=1e-4)


def test_a_share_and_other_values_can_be_compared() -> None:
    found = difference(estimate([0.0, 1.0, 1.0, 1.0]), estimate([0.5, 1.5, 1.0, 1.2]))
    assert found.low is not None and found.high is not None and found.low < (found.value or 0) < found.high
