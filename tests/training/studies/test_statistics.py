"""Paired comparisons, against SciPy, against enumeration, and by how often they err."""

import dataclasses
import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from dptheory.training.studies._statistics import equivalence, paired_difference, sign_flip_p
from tests.refused import refused

RNG = np.random.default_rng(0)
ONE, OTHER = RNG.normal(0.4, 1, 16), RNG.normal(0, 1, 16)


@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_the_interval_is_that_of_scipy(confidence: float) -> None:
    found = paired_difference(ONE, OTHER, confidence=confidence)
    expected = stats.ttest_rel(ONE, OTHER).confidence_interval(confidence)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-12)
    assert (found.pairs, found.mean, found.confidence) == (16, pytest.approx(np.mean(ONE - OTHER)), confidence)


@pytest.mark.parametrize("values", [[1.0], [3, -1, 2.5, 0, 1], list(RNG.normal(0.5, 1, 9)), [1.0] * 8, [0.0] * 8])
def test_signs_against_enumeration(values: list[float]) -> None:
    sums = [
        sum(s * v for s, v in zip(signs, values, strict=True))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    expected = np.mean([abs(s) >= abs(sum(values)) - 1e-9 for s in sums])
    assert sign_flip_p(values) == expected


def test_signs_against_scipy() -> None:
    values = RNG.normal(0.3, 1, 14)
    exact = stats.permutation_test(
        (values, -values),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
    )
    assert sign_flip_p(values) == pytest.approx(exact.pvalue, rel=1e-12)


@pytest.mark.parametrize("count", [21, 24, 33, 40])
def test_forty_signs_by_counting_whole_numbers(count: int) -> None:
    values = np.random.default_rng(count).integers(-40, 60, count)
    sums = Counter({0: 1})
    for value in values.tolist():
        sums = Counter(
            {total: sums[total - value] + sums[total + value] for total in range(-60 * count, 60 * count + 1)}
        )
    reached = sum(ways for total, ways in sums.items() if abs(total) >= abs(int(values.sum())))
    assert sign_flip_p(values / 8) == reached / 2**count and 0 < reached < 2**count


def test_more_pairs_by_random_signs() -> None:
    """Of 41 equal differences two sign vectors of 2^41 reach as far; the first 40 differences of these are exact."""
    assert sign_flip_p([1.0] * 41) == 1 / (2**17 + 1)
    values = RNG.normal(0.2, 1, 40)
    exact, drawn = sign_flip_p(values), sign_flip_p([*values, 0.0])  # the zero changes no sum
    assert drawn == pytest.approx(exact, abs=5 * (exact / 2**17) ** 0.5) and drawn != exact
    assert sign_flip_p([*values, 0.0], seed=1) != drawn == sign_flip_p([*values, 0.0])


def test_equivalence_is_the_larger_of_two_one_sided_tests() -> None:
    for shift in (-0.6, 0.0, 0.7):
        found = equivalence(ONE + shift, OTHER, margin=1.2)
        above = stats.ttest_rel(ONE + shift + 1.2, OTHER, alternative="greater")
        below = stats.ttest_rel(ONE + shift - 1.2, OTHER, alternative="less")
        assert found.p == pytest.approx(max(above.pvalue, below.pvalue), rel=1e-12)
        assert found.equivalent == (found.low > -1.2 and found.high < 1.2)
    assert equivalence(ONE, OTHER, margin=9).equivalent and not equivalence(ONE, OTHER, margin=0.01).equivalent


def test_differences_without_spread() -> None:
    found = paired_difference([0.7] * 8, [0.5] * 8)
    assert (found.low, found.high) == pytest.approx((0.2, 0.2)) and found.sign_flip_p == 2 / 2**8
    assert equivalence([0.7] * 16, [0.5] * 16, margin=0.3).p == 0
    assert equivalence([0.7] * 16, [0.5] * 16, margin=0.1).p == 1


def test_equal_differences_have_no_spread_but_for_rounding() -> None:
    """At any scale: the digits that a subtraction loses are none."""
    second = np.random.default_rng(2).normal(0, 1e8, 16)
    first = second + 3e7 / 7
    found = paired_difference(first, second)
    assert found.low == found.mean == found.high == pytest.approx(3e7 / 7) and np.std(first - second) > 0
    small = paired_difference(second / 1e16 + 3e-9, second / 1e16)
    assert small.low == small.mean == small.high == pytest.approx(3e-9)


def test_every_field_of_an_equivalence() -> None:
    found = equivalence(ONE, OTHER, margin=1.2)
    interval = stats.ttest_rel(ONE, OTHER).confidence_interval(0.9)
    assert (found.pairs, found.mean, found.margin, found.level) == (16, pytest.approx(np.mean(ONE - OTHER)), 1.2, 0.05)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    wide = equivalence(ONE, OTHER, margin=1.2, level=0.2)
    interval = stats.ttest_rel(ONE, OTHER).confidence_interval(0.6)
    assert (wide.low, wide.high) == pytest.approx((interval.low, interval.high)) and wide.level == 0.2
    assert paired_difference(ONE, OTHER).confidence == 0.95


def test_at_the_very_margin_nothing_is_shown() -> None:
    assert (at := equivalence([2.0] * 16, [1.0] * 16, margin=1.0)).p == 1.0 and not at.equivalent
    assert (within := equivalence([2.0] * 16, [1.0] * 16, margin=1.1)).p == 0.0 and within.equivalent
    assert not dataclasses.replace(within, p=0.05).equivalent and dataclasses.replace(within, p=0.0499).equivalent


def test_forty_signs_are_enumerated_and_more_are_drawn() -> None:
    assert sign_flip_p([1.0] * 40) == 2 / 2**40
    values = np.random.default_rng(4).normal(0.3, 1, 41)
    assert paired_difference(values, np.zeros(41)).sign_flip_p == sign_flip_p(values)
    assert sign_flip_p([0.0] * 41) == sign_flip_p([1.0, -1.0]) == 1.0  # every choice reaches as far
    assert sign_flip_p([1.0], seed=2**63 - 1) == 1.0


def test_ranges_of_values_and_levels() -> None:
    assert paired_difference([1e9] * 8, [-1e9] * 8).mean == 2e9
    for bad in ([1.01e9] + [0.0] * 7, [-1.01e9] + [0.0] * 7):
        with refused("first", "-1e+09"):
            paired_difference(bad, [0.0] * 8)
        with refused("second", "-1e+09"):
            paired_difference([0.0] * 8, bad)
    assert equivalence(ONE, OTHER, margin=1.2, level=1e-9).level == 1e-9
    with refused("level"):
        equivalence(ONE, OTHER, margin=1.2, level=0.99e-9)


def test_coverage_and_levels() -> None:
    """Of 1000 studies, within five standard errors: intervals cover in 95 %, sign flips reject as often as they may, and
    equivalence is wrongly found in 5 %."""
    rng, count = np.random.default_rng(1), 1000
    covered = rejected = wrongly = 0
    for _ in range(count):
        values = rng.normal(0.5, 1, 8)
        found = paired_difference(values, np.full(8, 0.5))
        covered += found.low <= 0 <= found.high
        rejected += found.sign_flip_p <= 0.05
        wrongly += equivalence(rng.normal(1.0, 1, 16), np.zeros(16), margin=1.0).equivalent  # at the very margin
    error = 5 * (0.05 * 0.95 / count) ** 0.5
    assert abs(covered / count - 0.95) < error
    assert abs(rejected / count - 12 / 256) < error  # the largest multiple of 2/2^8 below 5 %
    assert abs(wrongly / count - 0.05) < error


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: paired_difference(ONE[:7], OTHER[:7]), ("first and second", "8", "7")),
        (lambda: equivalence(ONE[:15], OTHER[:15], margin=1), ("first and second", "16", "15")),
        (lambda: paired_difference(ONE, OTHER[:9]), ("first and second", "16", "9")),
        (lambda: paired_difference(ONE, OTHER, confidence=1), ("confidence",)),
        (lambda: paired_difference([*ONE[:15], np.nan], OTHER), ("first",)),
        (lambda: equivalence(ONE, OTHER, margin=0), ("margin",)),
        (lambda: equivalence(ONE, OTHER, margin=1, level=0.5), ("level",)),
        (lambda: sign_flip_p([]), ("differences",)),
        (lambda: sign_flip_p([1.0] * 30, seed=-1), ("seed",)),
        (lambda: sign_flip_p([1.0], seed=2**63), ("seed", "0..9223372036854775807")),
        (lambda: sign_flip_p([[1.0]]), ("differences",)),
    ],
)
def test_refuses(call, says: str) -> None:
    with refused(*says):
        call()
