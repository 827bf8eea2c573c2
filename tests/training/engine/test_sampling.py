"""Poisson batches: the law, the parts, and what they depend on."""

import itertools

import mpmath
import numpy as np
import pytest
import torch
from scipy.stats import binom, chisquare

from dptheory.errors import ArgumentError
from dptheory.training._streams import simulation
from dptheory.training.engine import (
    GeneratorBatches,
    PartitionBatches,
    PoissonBatches,
    PoissonSampler,
    SecureBatches,
    _sampling,
)
from dptheory.training.engine._sampling import SizeLaw, poisson_subset, size_law
from tests.refused import refused

N, RATE, STEPS = 200, 0.15, 3000
KINDS = [
    PoissonBatches(train_size=N, sampling_rate=RATE, seed=3),
    SecureBatches(train_size=N, sampling_rate=RATE),
    GeneratorBatches(train_size=N, sampling_rate=RATE, generator=torch.Generator().manual_seed(3)),
]


def members(batches, parts: int = 1) -> np.ndarray:
    """Membership of each example in each step, shape (STEPS, N)."""
    found = np.zeros((STEPS, N), dtype=bool)
    for step in range(STEPS):
        for part in range(parts):
            found[step, batches.batch(step, part, parts).numpy()] = True
    return found


@pytest.mark.parametrize("batches", KINDS, ids=lambda b: type(b).__name__)
@pytest.mark.parametrize("parts", [1, 3])
def test_each_example_is_drawn_independently_with_the_rate(batches, parts: int) -> None:
    drawn = members(batches, parts)
    times = drawn.sum(0)
    assert ((times > binom.ppf(1e-8, STEPS, RATE)) & (times < binom.ppf(1 - 1e-8, STEPS, RATE))).all()
    sizes = np.bincount(drawn.sum(1), minlength=N + 1)[15:46]
    law = binom.pmf(np.arange(15, 46), N, RATE)
    assert chisquare(sizes, law / law.sum() * sizes.sum()).pvalue > 1e-6
    pairs = (drawn.astype(float).T @ drawn)[np.triu_indices(N, 1)]  # of two examples together
    assert abs(pairs.mean() / STEPS - RATE**2) < 1e-3
    runs = (drawn[1:] & drawn[:-1]).sum(0)  # of one example in two steps running
    assert abs(runs.mean() / STEPS - RATE**2) < 2e-3


@pytest.mark.parametrize("kind", [PoissonBatches, SecureBatches, GeneratorBatches])
def test_small_rates_are_not_rounded(kind) -> None:
    """Of 2^27 numbers of 24 bits eight would be 0, below any rate; with rate 1e-12 one in 7,450 runs of this draws a record."""
    given = {PoissonBatches: {"seed": 3}, GeneratorBatches: {"generator": torch.Generator().manual_seed(3)}}.get(
        kind, {}
    )
    batches = kind(train_size=1 << 17, sampling_rate=1e-12, **given)
    steps = 256 if kind is SecureBatches else 1024  # which takes longer, and whose numbers have bits of their own
    assert sum(len(batches.batch(step)) for step in range(steps)) == 0
    between = kind(train_size=1 << 17, sampling_rate=1.5 * 2.0**-16, **given)  # multiples of 2^-16
    hits = sum(len(between.batch(step)) for step in range(256))
    assert binom.ppf(5e-7, 1 << 25, between.sampling_rate) <= hits <= binom.isf(5e-7, 1 << 25, between.sampling_rate)


@pytest.mark.parametrize("parts", [1, 2, 7, 300])
def test_parts_partition_the_batch_whatever_their_number(parts: int) -> None:
    batches = PoissonBatches(train_size=N, sampling_rate=RATE, seed=3)
    for step in (0, 1, 50):
        whole = batches.batch(step)
        shares = [batches.batch(step, part, parts) for part in range(parts)]
        joined = torch.cat(shares)
        assert len(joined) == len(whole) and torch.equal(joined.sort().values, whole)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_secure_parts_have_examples_of_their_own_and_never_repeat() -> None:
    batches = SecureBatches(train_size=N, sampling_rate=0.5)
    for part in range(3):
        assert all(int(i) % 3 == part for i in batches.batch(0, part, 3))
    assert not torch.equal(batches.batch(0), batches.batch(0))


def test_batches_depend_on_seed_and_step_alone() -> None:
    one, same, other = (
        PoissonBatches(train_size=N, sampling_rate=RATE, seed=3),
        PoissonBatches(train_size=N, sampling_rate=RATE, seed=3),
        PoissonBatches(train_size=N, sampling_rate=RATE, seed=4),
    )
    one.batch(0)
    assert torch.equal(one.batch(9), same.batch(9))
    assert not torch.equal(one.batch(9), one.batch(10)) and not torch.equal(one.batch(9), other.batch(9))


@pytest.mark.parametrize(
    "batches",
    [PoissonBatches(train_size=5, sampling_rate=1.0, seed=0), SecureBatches(train_size=5, sampling_rate=1.0)],
    ids=lambda b: type(b).__name__,
)
def test_rate_one_takes_all(batches) -> None:
    assert batches.batch(0).tolist() == [0, 1, 2, 3, 4]


def test_a_secure_rate_of_one_takes_all_and_needs_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", lambda count: pytest.fail("asked for"))
    assert SecureBatches(train_size=5, sampling_rate=1.0).batch(0).tolist() == [0, 1, 2, 3, 4]
    assert SecureBatches(train_size=5, sampling_rate=1.0).batch(0, 1, 2).tolist() == [1, 3]
    assert SecureBatches(train_size=5, sampling_rate=0.5).batch(0, 6, 7).tolist() == []  # no record is its own


@pytest.mark.parametrize(
    "batches", [*KINDS, PartitionBatches(train_size=N, batch_size=10, seed=3)], ids=lambda b: type(b).__name__
)
def test_one_process_is_the_first_of_one(batches) -> None:
    if isinstance(batches, GeneratorBatches):
        batches = GeneratorBatches(train_size=N, sampling_rate=1.0, generator=None)
    if isinstance(batches, SecureBatches):
        batches = SecureBatches(train_size=N, sampling_rate=1.0)
    assert torch.equal(batches.batch(2), batches.batch(2, 0, 1))


def test_a_partition_has_every_example_once_per_pass() -> None:
    batches = PartitionBatches(train_size=12, batch_size=3, seed=5)
    for start in (0, 4, 8):
        taken = [batches.batch(start + step) for step in range(4)]
        assert all(len(one) == 3 and torch.equal(one, one.sort().values) for one in taken)
        assert sorted(torch.cat(taken).tolist()) == list(range(12))
    assert batches.batch(0).tolist() != batches.batch(4).tolist()
    shares = [batches.batch(1, part, 2) for part in range(2)]
    assert list(map(len, shares)) == [2, 1]
    assert sorted(torch.cat(shares).tolist()) == batches.batch(1).tolist()
    assert (
        PartitionBatches(train_size=3, batch_size=3, seed=0).batch(7).tolist() == [0, 1, 2]
        and len(PartitionBatches(train_size=2, batch_size=1, seed=0).batch(0)) == 1
    )
    PartitionBatches(train_size=1, batch_size=1, seed=2**64 - 1)
    for records, size, seed in ((0, 1, 0), (4, 0, 0), (4, 5, 0), (4, 3, 0), (4, 2, -1), (4, 2, 2**64)):
        with pytest.raises(ArgumentError):
            PartitionBatches(train_size=records, batch_size=size, seed=seed)
    for step, part, parts in ((-1, 0, 1), (0, 2, 2), (0, -1, 2), (0, 0, 0)):
        with pytest.raises(ArgumentError):
            batches.batch(step, part, parts)


def test_generators_seeded_alike_draw_one_batch_together() -> None:
    whole = GeneratorBatches(train_size=N, sampling_rate=0.5, generator=torch.Generator().manual_seed(1)).batch(0)
    for parts in (2, 3):
        shares = [
            GeneratorBatches(train_size=N, sampling_rate=0.5, generator=torch.Generator().manual_seed(1)).batch(
                0, p, parts
            )
            for p in range(parts)
        ]
        assert all((share % parts == part).all() for part, share in enumerate(shares))
        assert torch.equal(torch.cat(shares).sort().values, whole)


class Heard:
    def __init__(self) -> None:
        self.events: list = []
        self.dry: list[list[int]] = []

    def loader_begins(self, *, drawn_ahead: bool) -> None:
        self.events.append(("begins", drawn_ahead))

    def loader_tries(self) -> list[int] | None:
        return self.dry.pop() if self.dry else None

    def loader_drew(self, size: int) -> None:
        self.events.append(size)


def test_the_sampler_of_a_loader_tells_its_listener_and_gives_empty_batches_too() -> None:
    heard = Heard()
    law = GeneratorBatches(train_size=4, sampling_rate=0.1, generator=torch.Generator().manual_seed(0))
    sampler = PoissonSampler(
        law, train_size=4, sampling_rate=0.1, steps=30, place=(0, 1), listener=heard, drawn_ahead=True
    )
    drawn = list(sampler)
    assert len(drawn) == len(sampler) == 30 and [] in drawn
    assert heard.events == [("begins", True), *map(len, drawn)]
    next(iter(sampler))
    assert heard.events[31] == ("begins", True) and len(heard.events) == 33
    heard.dry = [[1, 3], [1, 2]]
    assert list(itertools.islice(sampler, 2)) == [[1, 2], [1, 3]] and len(heard.events) == 34  # no batches of the run


def test_bad_input() -> None:
    for call, says in (
        (lambda: PoissonBatches(train_size=0, sampling_rate=0.5, seed=0), 'train_size'), (lambda: PoissonBatches(train_size=3,
        sampling_rate=0.0, seed=0), 'sampling_rate'),
        (lambda: SecureBatches(train_size=3, sampling_rate=1.5), 'sampling_rate'), (lambda: PoissonBatches(train_size=3,
        sampling_rate=0.5, seed=-1), 'seed'),
        (lambda: PoissonBatches(train_size=3, sampling_rate=0.5, seed=0).batch(-1), 'step'),
        (lambda: PoissonBatches(train_size=3, sampling_rate=0.5, seed=0).batch(0, 2, 2), 'part'),
    ):  # fmt: skip
        with refused(says):
            call()


# --- poisson_subset: Poisson samples by size and subset: the table against exact chances, every subset of few records, and single words


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
    monkeypatch.setattr(_sampling, "_DENSE", dense)
    top = 2**64 - 2**64 % 9  # words from here on would prefer small numbers
    given = words_of(7, 9 + 7, top, 18 + 3, 7, top - 1, LAST)
    # three of nine: 7 twice and one that is left out; then 3 and 7 again; then 8
    assert _sampling._uniform_subset(3, 9, given).tolist() == [3, 7, 8]
    assert given(1).tolist() == [LAST]
    assert _sampling._uniform_subset(2, 8, words_of(LAST, 0)).tolist() == [0, 7]  # 8 divides 2^64


@pytest.mark.parametrize(("records", "size"), [(40, 5), (40, 39), (5000, 600), (5000, 700)])
def test_both_ways_to_a_subset_are_one(monkeypatch: pytest.MonkeyPatch, records: int, size: int) -> None:
    found = []
    for dense in (0, 10**6):
        monkeypatch.setattr(_sampling, "_DENSE", dense)
        found.append(_sampling._uniform_subset(size, records, np.random.PCG64(1).random_raw))
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
