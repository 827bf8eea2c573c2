"""Poisson samples by size and subset: the table against exact chances, every subset of few records, and single words."""

import itertools

import mpmath
import numpy as np
import pytest
import torch
from scipy.stats import binom, chisquare

from dptheory.training._streams import simulation
from dptheory.training.engine import GeneratorBatches, PoissonBatches, SecureBatches, _poisson_subset
from dptheory.training.engine._poisson_subset import SizeLaw, poisson_subset, size_law

UNIT = 2.0**-53


def drawn_with(law: SizeLaw, size: int) -> float:
    """The chance with which the table draws a size: the parts of its interval that the two ends look up."""

    def length(sums: np.ndarray, place: int) -> float:
        low = float(sums[place - 1]) if place else 0.0
        return max(0.0, min(float(sums[place]), 0.5) - low)

    return length(law.below, size - law.first) + length(law.above, law.first + len(law.above) - 1 - size)


@pytest.mark.parametrize(
    ("records", "rate"),
    [(1, 1e-12), (1, 0.75), (4, 0.3), (4, 1 - UNIT), (1000, 0.256), (2000, 0.9), (1 << 17, 1e-12), (1 << 17, 1.5 / 2**16),
     (10**6, 256 / 10**6), (10**6, 0.5), (10**9, 2.56e-7), (10**9, 1e-12), (10**9, 0.01)],
)  # fmt: skip
def test_the_law_of_sizes_is_the_binomial_one(records: int, rate: float) -> None:
    """Against 60 digits, within the factor that the class states."""
    law, mean, deviation = size_law(records, rate), records * rate, (records * rate * (1 - rate)) ** 0.5
    near = np.unique(np.linspace(mean - 10 * deviation - 2, mean + 10 * deviation + 2, 400).astype(int))
    seen = 0
    with mpmath.workdps(60):
        for k in near[(near >= 0) & (near <= records)].tolist():
            exact = mpmath.binomial(records, k) * mpmath.mpf(rate) ** k * (1 - mpmath.mpf(rate)) ** (records - k)
            allowed = UNIT * (6 * abs(k - mean) + 12 * (deviation + 1))
            assert abs(drawn_with(law, k) / exact - 1) <= allowed, k
            seen += 1
    assert seen >= min(records + 1, 3)
    outside = [law.first - 1, law.first + len(law.below)]
    assert binom.cdf(outside[0], records, rate) + binom.sf(outside[1] - 1, records, rate) <= 2.0**-128


def words_of(*given: int):
    """A source of words that hands these out, in their order, and no others."""
    left = iter(given)
    return lambda count: np.array([next(left) for _ in range(count)], dtype=np.uint64)


LAST = 2**64 - 1


def test_the_ends_of_the_words() -> None:
    """The lowest bit of the second word says from which end a size is looked up; the others make the number."""
    half = 2**63  # of the first word: the number is 1/4, in [0, 1/2]
    assert poisson_subset(5, 1.0, words_of()).tolist() == [0, 1, 2, 3, 4]
    assert poisson_subset(0, 0.5, words_of()).tolist() == []
    assert poisson_subset(5, 0.5, words_of(0, 0)).tolist() == []
    assert poisson_subset(5, 0.5, words_of(0, 1)).tolist() == [0, 1, 2, 3, 4]
    assert poisson_subset(1, 0.25, words_of(0, 1)).tolist() == [0]
    assert poisson_subset(1, 0.25, words_of(half - 2**10, 1)).tolist() == [0]  # just below 1/4, from above
    assert poisson_subset(1, 0.25, words_of(half, 1)).tolist() == []  # 1/4 is out
    assert poisson_subset(1, 0.25, words_of(LAST, LAST)).tolist() == []
    assert poisson_subset(1, 0.25, words_of(LAST, LAST - 1)).tolist() == []
    assert poisson_subset(1, 0.75, words_of(half - 2**10, 0)).tolist() == []
    assert poisson_subset(1, 0.75, words_of(half, 0)).tolist() == [0]
    rare = words_of(0, 2**34 + 1)  # 2^34 / 2^129: one of 10^9 records at 1e-12 comes far more often
    assert len(poisson_subset(10**9, 1e-12, lambda count: rare(2) if count == 2 else np.arange(count, dtype="u8"))) >= 5


@pytest.mark.parametrize("dense", [0, 10**6])
def test_repeats_are_drawn_again_until_the_size_is_there(monkeypatch: pytest.MonkeyPatch, dense: int) -> None:
    monkeypatch.setattr(_poisson_subset, "_DENSE", dense)
    top = 2**64 - 2**64 % 9  # words from here on would prefer small numbers
    given = words_of(7, 9 + 7, top, 18 + 3, 7, top - 1, LAST)
    # three of nine: 7 twice and one that is left out; then 3 and 7 again; then 8
    assert _poisson_subset._uniform_subset(3, 9, given).tolist() == [3, 7, 8]
    assert given(1).tolist() == [LAST]
    assert _poisson_subset._uniform_subset(2, 8, words_of(LAST, 0)).tolist() == [0, 7]  # 8 divides 2^64


@pytest.mark.parametrize(("records", "size"), [(40, 5), (40, 39), (5000, 600), (5000, 700)])
def test_both_ways_to_a_subset_are_one(monkeypatch: pytest.MonkeyPatch, records: int, size: int) -> None:
    found = []
    for dense in (0, 10**6):
        monkeypatch.setattr(_poisson_subset, "_DENSE", dense)
        found.append(_poisson_subset._uniform_subset(size, records, np.random.PCG64(1).random_raw))
    assert len(found[0]) == size and np.array_equal(*found)
    assert found[0].min() >= 0 and found[0].max() < records and (np.diff(found[0]) > 0).all()


def resumed(rate: float):
    """Batches of a simulation that goes back to a state before every one, and on from the state after the last."""
    with simulation():
        batches = GeneratorBatches(train_size=4, sampling_rate=rate, generator=torch.Generator().manual_seed(8))

    def batch(_: int) -> torch.Tensor:
        before = batches.stream.state()
        first = batches.batch(0)
        after = batches.stream.state()
        assert batches.stream.load(before) and torch.equal(batches.batch(0), first)
        assert torch.equal(batches.stream.state(), after)
        return first

    return batch


def went_on(rate: float):
    """Batches of a run that takes over a state before every one: none comes back."""
    batches = GeneratorBatches(train_size=4, sampling_rate=rate, generator=torch.Generator().manual_seed(8))

    def batch(_: int) -> torch.Tensor:
        assert not batches.stream.load(batches.stream.state())
        return batches.batch(0)

    return batch


SOURCES = {
    "seed": lambda q: PoissonBatches(train_size=4, sampling_rate=q, seed=5).batch,
    "secure": lambda q: SecureBatches(train_size=4, sampling_rate=q).batch,
    "generator": lambda q: GeneratorBatches(train_size=4, sampling_rate=q, generator=torch.Generator()).batch,
    "resumed": resumed,
    "went on": went_on,
    "secure parts": lambda q: (
        lambda step: torch.cat([SecureBatches(train_size=4, sampling_rate=q).batch(step, part, 3) for part in range(3)])
    ),
    "parts of a seed": lambda q: (
        lambda step: torch.cat(
            [PoissonBatches(train_size=4, sampling_rate=q, seed=6).batch(step, part, 2) for part in range(2)]
        )
    ),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("rate", [0.15, 0.5, 0.7])
def test_every_subset_of_four_records_has_its_chance(source: str, rate: float) -> None:
    """rate^k (1 - rate)^(4 - k) for each of the sixteen; of 21 true statements one fails in 50,000 runs of the suite."""
    batch, steps = SOURCES[source](rate), 4000
    found = np.zeros(16)
    for step in range(steps):
        drawn = batch(step).tolist()
        assert len(set(drawn)) == len(drawn)
        found[sum(1 << record for record in drawn)] += 1
    sizes = np.array([sum(bits) for bits in itertools.product((0, 1), repeat=4)])
    chances = rate**sizes * (1 - rate) ** (4 - sizes)
    assert chisquare(found, chances * steps).pvalue > 1e-6


@pytest.mark.parametrize("records", [100, 101, 128])
def test_sizes_records_and_pairs_of_a_sparse_sample(records: int) -> None:
    """By sorting, which few of many records take."""
    rate, steps = 0.05, 6000
    batches = PoissonBatches(train_size=records, sampling_rate=rate, seed=2)
    inside = np.zeros((steps, records))
    for step in range(steps):
        inside[step, batches.batch(step).numpy()] = 1
    sizes = np.bincount(inside.sum(1).astype(int), minlength=records + 1)[:13]
    law = binom.pmf(np.arange(13), records, rate)
    assert chisquare(np.r_[sizes, steps - sizes.sum()], np.r_[law, 1 - law.sum()] * steps).pvalue > 1e-6
    times = inside.sum(0)
    assert (abs(times - steps * rate) < 6 * (steps * rate * (1 - rate)) ** 0.5).all()
    pairs = (inside.T @ inside)[np.triu_indices(records, 1)]
    assert pairs.min() >= binom.ppf(1e-9, steps, rate**2) and pairs.max() <= binom.isf(1e-10, steps, rate**2)
    assert abs(pairs.mean() - steps * rate**2) < 6 * (steps * rate**2) ** 0.5 * 3 * (rate * records) ** -0.5


def test_a_batch_costs_what_it_holds() -> None:
    """Words and numbers in memory: none of the billion records that are not drawn."""
    taken = []

    def words(count: int) -> np.ndarray:
        taken.append(count)
        return np.random.PCG64(len(taken)).random_raw(count)

    found = poisson_subset(10**9, 2.56e-7, words)
    assert 150 < len(found) < 400 and sum(taken) <= len(found) + 2 + 5 and len(size_law(10**9, 2.56e-7).below) < 1000
