"""Poisson batches: the law, the parts, and what they depend on."""

import itertools

import numpy as np
import pytest
import torch
from scipy.stats import binom, chisquare

from dptheory.errors import ArgumentError
from dptheory.training.engine import GeneratorBatches, PartitionBatches, PoissonBatches, PoissonSampler, SecureBatches
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
