"""The law of batches: what is counted, against loops over made-up batches, and the chances of it."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from dptheory.training.audits import Finding, _draws, _findings

RECORDS, RATE = 5, 0.4
DRAWN = [np.array(batch, dtype=np.int64) for batch in ([0, 3], [], [3, 3, 4], [0, 1, 3, 4], [2, 3], [0, 3], [3])]


def chance(hits: int, trials: int, rate: float) -> float:
    return min(1.0, 2 * min(stats.binom.cdf(hits, trials, rate), stats.binom.sf(hits - 1, trials, rate)))


def near(found: Finding, measured: float, claimed: float, wanted: float | None) -> None:
    np.testing.assert_allclose([found.measured, found.claimed], [measured, claimed], rtol=1e-12)
    assert found.chance == (None if wanted is None else pytest.approx(min(1.0, wanted), rel=1e-9))


def test_the_law_by_loops() -> None:
    rate, repeats, sizes, each, pairs, fresh = _draws.law("made", DRAWN, RECORDS, RATE)
    inside = [set(batch.tolist()) for batch in DRAWN]
    total = sum(map(len, inside))
    near(rate, total / 35, RATE, chance(total, 35, RATE))
    near(repeats, 1.0, 0.0, None)
    assert not repeats.passed
    by_size = {k: sum(len(batch) <= k for batch in DRAWN) for k in range(RECORDS)}
    worst = min(by_size, key=lambda k: chance(by_size[k], 7, stats.binom.cdf(k, RECORDS, RATE)))
    law = float(stats.binom.cdf(worst, RECORDS, RATE))
    near(sizes, by_size[worst] / 7, law, RECORDS * chance(by_size[worst], 7, law))
    times = [sum(record in batch for batch in inside) for record in range(RECORDS)]
    most = min(times, key=lambda count: chance(count, 7, RATE))
    near(each, most / 7, RATE, RECORDS * chance(most, 7, RATE))
    both = [sum({one, other} <= batch for batch in inside) for one, other in itertools.combinations(range(RECORDS), 2)]
    most = min(both, key=lambda count: chance(count, 7, RATE**2))
    near(pairs, most / 7, RATE**2, 10 * chance(most, 7, RATE**2))
    again = [sum(record in inside[k] & inside[k + 1] for k in (0, 2, 4)) for record in range(RECORDS)]
    most = min(again, key=lambda count: chance(count, 3, RATE**2))
    near(fresh, most / 3, RATE**2, RECORDS * chance(most, 3, RATE**2))
    assert {one.name.split(": ")[0] for one in (rate, repeats, sizes, each, pairs, fresh)} == {"made"}


def batches(rng: np.random.Generator) -> list[np.ndarray]:
    return [np.flatnonzero(rng.random(30) < 0.3) for _ in range(400)]


def of_one_size(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.permutation(30)[:9] for _ in range(400)]


def with_more_spread(rng: np.random.Generator) -> list[np.ndarray]:
    return [np.flatnonzero(rng.random(30) < rate) for rate in rng.choice([0.2, 0.4], 400)]


def with_twins(rng: np.random.Generator) -> list[np.ndarray]:
    """Records 0 and 1 come together."""
    found = [np.flatnonzero(rng.random(30) < 0.3) for _ in range(400)]
    return [np.array(sorted({*batch, 1} if 0 in batch else {*batch} - {1})) for batch in found]


def with_a_favourite(rng: np.random.Generator) -> list[np.ndarray]:
    return [np.flatnonzero(rng.random(30) < np.r_[0.6, np.full(29, 0.3 - 0.3 / 29)]) for _ in range(400)]


def that_take_turns(rng: np.random.Generator) -> list[np.ndarray]:
    """No record comes in two batches running."""
    first = [rng.random(30) < 0.3 for _ in range(200)]
    second = [~one & (rng.random(30) < 0.3 / 0.7) for one in first]
    return [np.flatnonzero(one) for pair in zip(first, second, strict=True) for one in pair]


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        (batches, set()),
        (of_one_size, {"law of batch sizes"}),
        (with_more_spread, {"law of batch sizes"}),
        (with_twins, {"pairs of records"}),
        (with_a_favourite, {"each record", "pairs of records", "fresh batches"}),
        (that_take_turns, {"fresh batches"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_statement_sees_what_the_mean_does_not(
    kind: Callable[[np.random.Generator], list[np.ndarray]], refused: set[str]
) -> None:
    """All draw each record with rate .3 in the mean."""
    found = _draws.law("made", kind(np.random.default_rng(0)), 30, 0.3)
    assert {one.name.removeprefix("made: ") for one in found if not one.passed} == refused


def test_exact_chances_are_no_smaller_than_they_may_be() -> None:
    """Of 1,000 true statements, about ten or fewer have a chance below .01: a union is on the safe side."""
    rng = np.random.default_rng(0)
    for make in (
        lambda: _findings.law_of_sizes("", "", rng.binomial(30, 0.3, 100), 30, 0.3),
        lambda: _findings.binomial_of_each("", "", rng.binomial(100, 0.3, 30), 100, 0.3),
    ):
        chances = [make().chance for _ in range(1000)]
        assert sum(one < 0.01 for one in chances if one is not None) <= 25


def test_sizes_that_are_all_possible_and_those_that_are_not() -> None:
    sizes = np.full(40, 3)
    assert _findings.law_of_sizes("", "", sizes, 3, 1.0 - 1e-9).passed
    assert not _findings.law_of_sizes("", "", np.full(40, 2), 3, 0.9).passed
