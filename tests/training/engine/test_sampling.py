"""Draws of batches and of noise: their laws, and their streams."""

import copy
import hashlib
import itertools
import os
import pickle
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import mpmath
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scipy import stats
from scipy.stats import binom, chisquare
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.training import PrivacyEngine, _machine, _randomness, _streams
from dptheory.training import mechanisms as m
from dptheory.training._randomness import normal, own_generator, permutation, secure_normal, seeded
from dptheory.training._streams import BATCHES, NOISE, Stream, derived, digest, on_cpu, seed_stream, simulation
from dptheory.training.engine import (
    GeneratorBatches,
    PartitionBatches,
    PoissonBatches,
    PoissonSampler,
    SecureBatches,
    _sampling,
    generator_noise,
)
from dptheory.training.engine._sampling import SizeLaw, poisson_subset, size_law
from tests.refused import refused
from tests.training import sgd
from tests.training.forked import in_a_fork

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook")

# --- Poisson batches: the law, the parts, and what they depend on ---


N, RATE, STEPS = 200, 0.15, 3000

KINDS = [
    PoissonBatches(train_size=N, sampling_rate=RATE, seed=3),
    SecureBatches(train_size=N, sampling_rate=RATE),
    GeneratorBatches(train_size=N, sampling_rate=RATE, generator=torch.Generator().manual_seed(3)),
]


def members(batches, parts: int = 1) -> np.ndarray:
    """Membership of each example in each step."""
    found = np.zeros((STEPS, batches.train_size), dtype=bool)
    for step in range(STEPS):
        for part in range(parts):
            found[step, batches.batch(step, part, parts).numpy()] = True
    return found


SPARSE = [PoissonBatches(train_size=records, sampling_rate=0.05, seed=2) for records in (100, 101, 128)]
"""Of few of many records: by sorting."""


@pytest.mark.parametrize(
    ("batches", "parts"),
    [*itertools.product(KINDS, (1, 3)), *((batches, 1) for batches in SPARSE)],
    ids=lambda one: type(one).__name__ if hasattr(one, "batch") else str(one),
)
def test_each_example_is_drawn_independently_with_the_rate(batches, parts: int) -> None:
    drawn, rate, records = members(batches, parts), batches.sampling_rate, batches.train_size
    times = drawn.sum(0)
    assert ((times > binom.ppf(1e-8, STEPS, rate)) & (times < binom.ppf(1 - 1e-8, STEPS, rate))).all()
    law = binom.pmf(np.arange(records + 1), records, rate)
    usual = law * STEPS >= 1.0
    sizes = np.bincount(drawn.sum(1), minlength=records + 1)
    found, wanted = (np.append(one[usual], one[~usual].sum()) for one in (sizes, law * STEPS))
    assert chisquare(found, wanted).pvalue > 1e-6
    pairs = (drawn.astype(float).T @ drawn)[np.triu_indices(records, 1)]  # of two examples together
    assert pairs.min() >= binom.ppf(1e-9, STEPS, rate**2) and pairs.max() <= binom.isf(1e-10, STEPS, rate**2)
    assert abs(pairs.mean() / STEPS - rate**2) < 1e-3
    runs = (drawn[1:] & drawn[:-1]).sum(0)  # of one example in two steps running
    assert abs(runs.mean() / STEPS - rate**2) < 2e-3


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


def test_a_secure_rate_of_one_takes_all_and_needs_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", lambda count: pytest.fail("asked for"))
    for batches in (
        SecureBatches(train_size=5, sampling_rate=1.0),
        PoissonBatches(train_size=5, sampling_rate=1.0, seed=0),
    ):
        assert batches.batch(0).tolist() == [0, 1, 2, 3, 4]
    assert SecureBatches(train_size=5, sampling_rate=1.0).batch(0, 1, 2).tolist() == [1, 3]
    assert SecureBatches(train_size=5, sampling_rate=0.5).batch(0, 6, 7).tolist() == []  # no record is its own


def test_a_partition_has_every_example_once_per_pass() -> None:
    batches = PartitionBatches(train_size=12, batch_size=3, seed=5)
    for start in (0, 4, 8):
        taken = [batches.batch(start + step) for step in range(4)]
        assert all(len(one) == 3 and torch.equal(one, one.sort().values) for one in taken)
        assert sorted(torch.cat(taken).tolist()) == list(range(12))
    assert batches.batch(0).tolist() != batches.batch(4).tolist()
    assert PartitionBatches(train_size=12, batch_size=3, seed=6).batch(0).tolist() != batches.batch(0).tolist()
    shares = [batches.batch(1, part, 2) for part in range(2)]
    assert list(map(len, shares)) == [2, 1]
    assert sorted(torch.cat(shares).tolist()) == batches.batch(1).tolist()
    assert (
        PartitionBatches(train_size=3, batch_size=3, seed=0).batch(7).tolist() == [0, 1, 2]
        and len(PartitionBatches(train_size=2, batch_size=1, seed=0).batch(0)) == 1
    )
    for size in (0, 5, 3):
        with refused("batch_size", 4, size):
            PartitionBatches(train_size=4, batch_size=size, seed=0)
    for step, part, parts, name in ((-1, 0, 1, "step"), (0, 2, 2, "part"), (0, -1, 2, "part"), (0, 0, 0, "parts")):
        with refused(name):
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


def test_a_batch_costs_what_it_holds() -> None:
    """Words and numbers in memory: none of the billion records that are not drawn."""
    taken = []

    def words(count: int) -> np.ndarray:
        taken.append(count)
        return np.random.PCG64(len(taken)).random_raw(count)

    found = poisson_subset(10**9, 2.56e-7, words)
    assert 150 < len(found) < 400 and sum(taken) <= len(found) + 2 + 5 and len(size_law(10**9, 2.56e-7).below) < 1000


# What a run releases is never drawn again: histories of steps, states, forks and new runs, and streams of equal seeds


ROWS, FEATURES, SEED = 64, 40, 7  # so many entries that no mask comes twice by chance
DATA = TensorDataset(torch.randn(ROWS, FEATURES, generator=torch.Generator().manual_seed(0)), torch.arange(ROWS))
PARTS = ["all", "no optimizer", "by hand", "accountant"]
STARTED = {name: torch.Generator().manual_seed(SEED).get_state() for name in ("noise", "batches")}


class Watched(m.RandomSparsification):
    """Notes the noise that it draws and the masks that it uses."""

    def __init__(self) -> None:
        super().__init__(m.Constant(0.5), SEED)
        self.noises: list[bytes] = []
        self.masks: list[bytes] = []

    def release(self, total: m.Tensors, *, noise: m.Noise, **given: Any) -> m.Tensors:
        def noted(like: torch.Tensor, std: float) -> torch.Tensor:
            drawn = noise(like, std)
            self.noises.append(drawn.numpy().tobytes())
            return drawn

        self.masks.append(torch.cat([mask.flatten() for mask in self.mask]).numpy().tobytes())
        return super().release(total, noise=noted, **given)


class Running:
    """A run that can be stepped, and what is known of it: the steps in its history, by number."""

    def __init__(self, model: nn.Module, lr: float) -> None:
        self.model, self.mechanism = model, Watched()
        self.engine = PrivacyEngine(self.mechanism)
        self.given = {name: torch.Generator() for name in STARTED}
        self.set_generators_back()
        trained = [p for p in model.parameters() if p.requires_grad]
        self.private, self.optimizer, self.loader = self.engine.make_private(
            module=model, optimizer=torch.optim.SGD(trained, lr=lr, momentum=0.9), noise_multiplier=2.0,
            data_loader=DataLoader(DATA, ROWS // 2, generator=self.given["batches"]), max_grad_norm=1.0,
            noise_generator=self.given["noise"], probe=False,
        )  # fmt: skip
        self.steps: set[object] = set()
        self.batches: list[bytes] = []

    def set_generators_back(self) -> None:
        for name, generator in self.given.items():
            generator.set_state(STARTED[name])

    def step(self) -> None:
        """On the first batch of a pass, left after it."""
        for features, names in self.loader:
            self.batches.append(names.numpy().tobytes())
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.private(features), names % 2).backward()
            self.optimizer.step()
            break

    def released(self) -> dict[str, list[bytes]]:
        return {"noise": self.mechanism.noises, "mask": self.mechanism.masks, "batch": self.batches}


class Histories(RuleBasedStateMachine):
    """Steps, states that are loaded in any order and anywhere, forks, and new runs with the seeds of the old ones."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.runs: list[Running] = []
        self.states: list[tuple[Path, frozenset[object]]] = []
        self.elsewhere: dict[str, list[bytes]] = {"noise": [], "mask": [], "batch": []}
        self.numbers = itertools.count()

    def teardown(self) -> None:
        self.folder.cleanup()

    def run_of(self, number: int) -> Running:
        return self.runs[number % len(self.runs)]

    def new(self, model: nn.Module) -> Running:
        self.runs.append(Running(model, 0.5 / (1 + next(self.numbers))))  # a rate of its own
        return self.runs[-1]

    @initialize()
    def first(self) -> None:
        torch.manual_seed(0)
        self.new(nn.Linear(FEATURES, 2))

    @rule(which=st.integers(0, 9))
    def makes_a_step(self, which: int) -> None:
        run = self.run_of(which)
        run.step()
        run.steps.add(next(self.numbers))

    @rule(which=st.integers(0, 9))
    def saves(self, which: int) -> None:
        run, path = self.run_of(which), Path(self.folder.name) / f"{next(self.numbers)}.pt"
        run.engine.save_checkpoint(path=path, module=run.private, optimizer=run.optimizer)
        self.states.append((path, frozenset(run.steps)))

    @precondition(lambda self: self.states)
    @rule(which=st.integers(0, 9), state=st.integers(0, 9), part=st.sampled_from(PARTS))
    def loads(self, which: int, state: int, part: str) -> None:
        """A state of this run or another one, older or newer, whole or in parts."""
        run = self.run_of(which)
        path, steps = self.states[state % len(self.states)]
        if part in ("all", "no optimizer"):
            given = run.optimizer if part == "all" else None
            run.engine.load_checkpoint(path=path, module=run.private, optimizer=given)
        else:
            found = torch.load(path, weights_only=True)
            run.private.load_state_dict(found["module_state_dict"])
            if part == "by hand":
                run.optimizer.load_state_dict(found["optimizer_state_dict"])
            else:
                run.optimizer.accountant.load_state_dict(found["privacy_accountant_state_dict"])
        run.steps |= steps

    @rule(which=st.integers(0, 9))
    def loads_the_mechanism_alone(self, which: int) -> None:
        run = self.run_of(which)
        run.mechanism.load_state_dict(copy.deepcopy(run.mechanism.state_dict()))

    @rule(which=st.integers(0, 9))
    def lowers_the_rate(self, which: int) -> None:
        for group in self.run_of(which).optimizer.param_groups:
            group["lr"] *= 0.5

    @rule(which=st.integers(0, 9))
    def sets_the_generators_back(self, which: int) -> None:
        self.run_of(which).set_generators_back()
        torch.manual_seed(0)

    @precondition(lambda self: len(self.runs) < 4)
    @rule(which=st.integers(0, 9), same=st.booleans())
    def begins_anew(self, which: int, same: bool) -> None:
        """A run with the same seeds on the same model, or on another one with its weights."""
        old = self.run_of(which)
        if same:
            self.runs.remove(old)
            for name, drawn in old.released().items():
                self.elsewhere[name] += drawn
            self.new(old.private.to_standard_module())
        else:
            model = nn.Linear(FEATURES, 2)
            model.load_state_dict(old.model.state_dict())
            self.new(model)

    @rule(which=st.integers(0, 9), joins=st.booleans())
    def forks(self, which: int, joins: bool) -> None:
        """Two steps in a forked process; its state may come back."""
        run = self.run_of(which)
        before = {name: len(drawn) for name, drawn in run.released().items()}

        def two_steps() -> tuple[dict[str, list[bytes]], dict[str, Any]]:
            run.step()
            run.step()
            return run.released(), run.optimizer.accountant.state_dict()

        released, state = in_a_fork(two_steps)
        for name, drawn in released.items():
            self.elsewhere[name] += drawn[before[name] :]
        if joins:
            run.optimizer.accountant.load_state_dict(state)
            run.steps |= {next(self.numbers), next(self.numbers)}

    @invariant()
    def every_step_is_counted(self) -> None:
        for run in self.runs:
            assert run.optimizer.accountant.steps == len(run.steps)

    @invariant()
    def nothing_is_drawn_again(self) -> None:
        for name, drawn in self.elsewhere.items():
            whole = drawn + [one for run in self.runs for one in run.released()[name]]
            assert len(set(whole)) == len(whole), f"a {name} came again"


class TestHistories(Histories.TestCase):  # type: ignore[misc,name-defined]
    settings = settings(max_examples=25, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck))


# --- the kinds of the machine, one by one -----------------------------------------------------------------------------
def test_noise_of_a_run_that_goes_back_is_in_general_position(tmp_path: Path) -> None:
    """No noise vector is a combination of others: four times two steps from one checkpoint."""
    run = Running(nn.Linear(FEATURES, 2), 0.1)
    run.engine.save_checkpoint(path=tmp_path / "start.pt", module=run.private, optimizer=run.optimizer)
    for _ in range(4):
        run.step(), run.step()
        run.engine.load_checkpoint(path=tmp_path / "start.pt", module=run.private, optimizer=run.optimizer)
    drawn = [np.frombuffer(one, np.float32) for one in run.mechanism.noises]
    weights = np.array([one for one in drawn if one.size == 2 * FEATURES])
    assert weights.shape == (8, 2 * FEATURES) and np.linalg.matrix_rank(weights) == 8
    assert run.optimizer.accountant.steps == 8


def test_a_run_that_is_the_same_is_repeated_and_one_that_differs_shares_nothing() -> None:
    def drawn(lr: float = 0.1, start: int = 0, later: float | None = None) -> list[dict[str, bytes]]:
        torch.manual_seed(start)
        run = Running(nn.Linear(FEATURES, 2), lr)
        for step in range(2):
            if step == 1 and later is not None:
                run.optimizer.param_groups[0]["lr"] = later
            run.step()
        noises = [run.mechanism.noises[2 * step] for step in range(2)]  # of the weights
        steps = zip(noises, run.mechanism.masks, run.batches, strict=True)
        return [dict(zip(("noise", "mask", "batch"), one, strict=True)) for one in steps]

    first = drawn()
    assert drawn() == first
    for other in (drawn(lr=0.05), drawn(start=1)):
        assert all(a[name] != b[name] for a, b in zip(first, other, strict=True) for name in a)
    moved = drawn(later=0.05)
    assert moved[0] == first[0] and all(moved[1][name] != first[1][name] for name in first[1])


@pytest.mark.parametrize("differs", ["weights", "buffer", "activation"])
def test_a_head_on_another_frozen_body_shares_nothing(differs: str) -> None:
    """Else the difference of two first steps would be that of two sums of clipped gradients, without noise."""

    def drawn(other: bool) -> dict[str, list[bytes]]:
        torch.manual_seed(0)
        body = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.BatchNorm1d(FEATURES), nn.ELU(1.0)).requires_grad_(False)
        if other and differs == "weights":
            body[0].weight += 1.0
        if other and differs == "buffer":
            body[1].running_mean += 1.0
        if other and differs == "activation":
            body[2].alpha = 2.0
        model = nn.Sequential(body, nn.Linear(FEATURES, 2))
        model.train()
        body.eval()
        run = Running(model, 0.1)
        run.step()
        return run.released()

    first = drawn(False)
    assert drawn(False) == first
    second = drawn(True)
    assert all(set(first[name]).isdisjoint(second[name]) for name in first)


# --- streams of one seed ----------------------------------------------------------------------------------------------
_WORDS = 4096
_SOURCES = ("normal", "rand", "randn", "randperm", "randint")


def _words(generator: torch.Generator) -> np.ndarray:
    """The next words of a generator, which is left as it is."""
    copied = torch.Generator()
    copied.set_state(generator.get_state())
    return torch.empty(_WORDS, dtype=torch.int32).random_(generator=copied).numpy()


_OF_THE_SEED = _words(torch.Generator().manual_seed(SEED))


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[np.ndarray]]]:
    """Words of the generators from which torch draws, by what asks for them."""
    found: dict[str, list[np.ndarray]] = {}
    busy: list[None] = []

    def noted(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*given: Any, **named: Any) -> Any:
            source, caller = named.get("generator"), sys._getframe(1)
            if source is not None and not busy and caller.f_code.co_name != "_drawn":
                busy.append(None)
                where = Path(caller.f_code.co_filename).stem
                whole = where == "_randomness" and name in ("randint", "randperm")  # a mask draws by several of them
                found.setdefault(f"{where}.{'random_' if whole else name}", []).append(_words(source))
                busy.pop()
            return plain(*given, **named)

        return draw

    for name in _SOURCES:
        monkeypatch.setattr(torch, name, noted(name, getattr(torch, name)))
    monkeypatch.setattr(torch.Tensor, "random_", noted("random_", torch.Tensor.random_))
    yield found


def gep() -> m.Mechanism:
    anchors = m.AnchorGradients(nn.Linear(FEATURES, 2), torch.rand(20, FEATURES), classes=2, seed=SEED)
    return m.Gep(anchors, subspace_dim=3, residual_clip=0.5, groups=[[0, 1]], seed=SEED)


_NOISE, _BATCHES, _ORDER = "_noise.normal", "_sampling.random_", "dataloader.random_"
_MASKS, _RANKING, _LABELS = "_randomness.random_", "_randomness.randn", "_subspace.randint"


@pytest.mark.parametrize(
    ("make", "own"),
    [
        (m.DpSgd, set()),
        (lambda: m.RandomSparsification(m.Constant(0.5), SEED), {_MASKS}),
        (lambda: m.RandomSparsification(m.Constant(0.5), SEED, refresh_steps=2), {_MASKS}),
        (lambda: m.PosteriorFreeze(m.Constant(0.5), SEED), {_MASKS}),
        (lambda: m.RankedSparsification(m.Constant(0.5), steps_per_epoch=1, seed=SEED), {_RANKING}),
        (lambda: m.LayerFreezing(m.RandomSparsification(m.Constant(0.5), SEED), frozen_layers=1, from_step=1), {_MASKS}),
        (gep, {_LABELS, _RANKING}),
        (lambda: m.IndexPruning(1.0, m.Constant(0.5), group_size=4), set()),
    ],
    ids=["dp-sgd", "masks", "masks per epoch", "posterior", "ranked", "freezing", "gep", "index pruning"],
)  # fmt: skip
@pytest.mark.parametrize("shared", [False, True])
def test_streams_of_one_seed_share_no_words(
    streams: dict[str, list[np.ndarray]], make: Callable[[], m.Mechanism], own: set[str], shared: bool
) -> None:
    """Batches, noise, data order and what a mechanism draws; with equal seeds, and with one generator for all."""
    mechanism = make()
    sizes = (FEATURES, 4, 2) if own == {_MASKS} else (FEATURES, 2)  # two layers, of which one may freeze
    model = nn.Sequential(*(nn.Linear(*pair) for pair in itertools.pairwise(sizes)))
    first, second = (torch.Generator().manual_seed(SEED) for _ in range(2))
    private, optimizer, loader = sgd.make_private(
        model, DataLoader(DATA, ROWS // 4, generator=first), mechanism=mechanism,
        noise_generator=first if shared else second, probe=False,
    )  # fmt: skip
    for features, names in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(private(features), names % 2).backward()
        optimizer.step()
    assert set(streams) == {_NOISE, _BATCHES, _ORDER} | own
    streams["the seed itself"] = [_OF_THE_SEED]
    pairs = {name: {pair for words in found for pair in itertools.pairwise(words)} for name, found in streams.items()}
    for one, other in itertools.combinations(streams, 2):
        assert not pairs[one] & pairs[other], f"{one} and {other} share words"
        correlation = np.corrcoef(streams[one][0], streams[other][0])[0, 1]
        assert abs(correlation) < 7 / _WORDS**0.5  # seven standard errors


# --- Streams of random numbers: apart by purpose and seed; fresh in forks, in copies and after a state was loaded ---


def numbers(stream: Stream, count: int = 4) -> list[int]:
    return torch.randint(2**62, (count,), generator=stream.on("cpu")).tolist()


def test_a_seed_and_a_purpose_make_a_stream() -> None:
    """Also where seeds agree in their last 32 bits, of which ``manual_seed`` knows no others on a CPU."""
    low, high = (torch.Generator().manual_seed(seed) for seed in (5, 5 + 2**32))
    assert torch.equal(torch.rand(9, generator=low), torch.rand(9, generator=high))
    made = [Stream(seed, purpose) for seed in (5, 6, 5 + 2**32) for purpose in (NOISE, BATCHES)]
    drawn = [tuple(numbers(one)) for one in made]
    assert len(set(drawn)) == 6
    assert numbers(Stream(5, NOISE)) == list(drawn[0])
    assert numbers(Stream(None, NOISE)) != numbers(Stream(None, NOISE))


def test_a_generator_gives_a_seed_and_is_not_looked_at_again() -> None:
    given = torch.Generator().manual_seed(3)
    stream, other = Stream(given, NOISE), Stream(torch.Generator().manual_seed(3), NOISE)
    first = numbers(stream)
    assert numbers(other) == first and stream.on("cpu") is not given
    given.manual_seed(3)
    assert numbers(stream) == numbers(other) != first
    given = torch.Generator().manual_seed(3)
    assert numbers(Stream(given, NOISE)) != numbers(Stream(given, NOISE))  # one number each


def test_a_stream_has_all_bits_of_its_key() -> None:
    """The words of the Mersenne twister are those that NumPy's makes of the same state."""
    key = b"key of a stream"
    state = np.frombuffer(hashlib.shake_256(key).digest(4 * 624), dtype="<u4")
    twister = np.random.MT19937()
    twister.state = {"bit_generator": "MT19937", "state": {"key": state, "pos": 624}}
    drawn = torch.empty(1300, dtype=torch.int32).random_(generator=_streams._filled(torch.device("cpu"), key))
    assert drawn.tolist() == [int(word) & (2**31 - 1) for word in twister.random_raw(1300)]


def test_devices_have_numbers_of_their_own() -> None:
    stream = Stream(1, NOISE)
    one, other = stream.on("cpu"), stream.on("cpu:0")
    assert torch.rand(3, generator=one).tolist() != torch.rand(3, generator=other).tolist()
    assert on_cpu(None) is None and seed_stream(None, NOISE) is None


@pytest.mark.parametrize("drawn_before", [False, True])
@pytest.mark.parametrize("simulated", [False, True])
def test_a_fork_draws_its_own_numbers(drawn_before: bool, simulated: bool) -> None:
    with simulation():
        declared = Stream(1, NOISE)
    stream = declared if simulated else Stream(1, NOISE)
    if drawn_before:
        numbers(stream)
    children = [in_a_fork(lambda: numbers(stream)) for _ in range(2)]
    assert len({tuple(found) for found in (*children, numbers(stream))}) == 3


SHAPE = torch.zeros(4)

DRAWS: dict[str, Callable[[], Callable[[], list[float]]]] = {
    "noise": lambda: _noise(torch.Generator().manual_seed(1)),
    "noise, no seed": lambda: _noise(None),
    "batches": lambda: _batches(torch.Generator().manual_seed(1)),
    "batches, no seed": lambda: _batches(None),
    "masks": lambda: _begun(m.RandomSparsification(m.Constant(0.5), 1), lambda one: one.mask[0]),
    "labels": lambda: _labels(),
}


def _noise(generator: torch.Generator | None) -> Callable[[], list[float]]:
    noise = generator_noise(generator)
    return lambda: noise(SHAPE, 1.0).tolist()


def _batches(generator: torch.Generator | None) -> Callable[[], list[float]]:
    batches = GeneratorBatches(train_size=200, sampling_rate=0.5, generator=generator)
    return lambda: batches.batch(0).tolist()


def _begun(mechanism: m.Mechanism, drawn: Callable[..., torch.Tensor]) -> Callable[[], list[float]]:
    def draw() -> list[float]:
        mechanism.begin_step([torch.zeros(200)])
        return drawn(mechanism).tolist()

    return draw


def _labels() -> Callable[[], list[float]]:
    anchors = m.AnchorGradients(nn.Linear(3, 5), torch.ones(60, 3), classes=5, seed=1)
    return lambda: anchors()[1].flatten().tolist()


@pytest.mark.parametrize("made", DRAWS.values(), ids=DRAWS)
def test_forks_repeat_nothing_that_leaves(made: Callable[[], Callable[[], list[float]]]) -> None:
    """Whether or not something was drawn before the fork."""
    for before in (0, 1):
        draw = made()
        for _ in range(before):
            draw()
        found = [in_a_fork(draw), in_a_fork(draw), draw()]
        assert not any(one == other for one, other in itertools.combinations(found, 2))


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_a_stream_in_use_is_another_one(copied: Callable[[Stream], Stream]) -> None:
    stream = Stream(1, NOISE)
    assert numbers(copied(stream)) == numbers(Stream(1, NOISE))  # nothing was drawn that could be drawn again
    numbers(stream)
    assert numbers(copied(stream)) != numbers(stream)
    bound = Stream(1, NOISE)
    bound.bind(origin=lambda: b"", settings=lambda: 0, loaded=lambda: 0)
    assert numbers(copied(bound)) != numbers(bound)


def test_a_stream_of_a_run_follows_it() -> None:
    """One seed: other numbers from another origin, from another setting on, and after a state was loaded."""

    def bound(origin: bytes = b"a", settings: str = "b", loaded: int = 0) -> tuple[Stream, dict[str, object]]:
        now: dict[str, object] = {"origin": origin, "settings": settings, "loaded": loaded}
        stream = Stream(1, NOISE)
        stream.bind(origin=lambda: now["origin"], settings=lambda: now["settings"], loaded=lambda: now["loaded"])
        return stream, now

    first = numbers(bound()[0])
    assert numbers(bound()[0]) == first == numbers(bound(loaded=7)[0])
    assert first not in (numbers(bound(b"other")[0]), numbers(bound(settings="other")[0]), numbers(Stream(1, NOISE)))
    stream, now = bound()
    assert numbers(stream) == first
    now["settings"] = "lower"
    lowered = numbers(stream)
    again, same = bound()
    numbers(again)
    same["settings"] = "lower"
    assert numbers(again) == lowered
    now["settings"] = "b"
    assert numbers(stream) not in (first, lowered)
    for one, moved in ((stream, now), (again, same)):
        one.load(one.state())
        moved["loaded"] = 1
    assert numbers(stream) != numbers(again)


def test_only_a_simulation_has_a_state() -> None:
    with simulation():
        stream, again = Stream(5, NOISE), Stream(6, NOISE)
        given = torch.Generator().manual_seed(5)
        assert Stream(given, NOISE).on("cpu") is given
    assert numbers(stream) == torch.randint(2**62, (4,), generator=torch.Generator().manual_seed(5)).tolist()
    assert again.load(stream.state()) and numbers(again) == numbers(stream)
    assert not again.load(None) and again.state() is None and numbers(again) != numbers(stream)
    plain = Stream(5, NOISE)
    assert plain.state() is None and not plain.load(stream.state()) and plain.state() is None


def test_seeds_by_purpose_and_what_tensors_are_known_by() -> None:
    assert len({derived(5, NOISE), derived(5, BATCHES), derived(6, NOISE), 5}) == 4
    assert 0 <= derived(5, NOISE) < 2**63
    tensors = [
        torch.zeros(2),
        torch.zeros(2, 1),
        torch.zeros(2, dtype=torch.int32),
        torch.tensor([0.0, -0.0]),
        torch.zeros(0),
    ]
    assert len({digest([one]) for one in tensors}) == 5 and digest(tensors) == digest([t.clone() for t in tensors])
    assert digest([torch.tensor(1.0)]) != digest([torch.tensor(1.0, dtype=torch.bfloat16)])


# --- Random numbers of a generator, and of the operating system ---


def test_a_seed_fixes_the_numbers_and_none_gives_those_of_the_system() -> None:
    seeded = own_generator(7)
    assert seeded is not None and seeded.initial_seed() == 7 and own_generator(None) is None
    assert torch.equal(permutation(9, own_generator(7)), torch.randperm(9, generator=torch.Generator().manual_seed(7)))
    found = normal((2, 3), own_generator(7))
    assert torch.equal(found, torch.randn(2, 3, generator=torch.Generator().manual_seed(7)))
    one, other = (normal((2, 3), None) for _ in range(2))
    assert one.shape == (2, 3) and one.dtype == torch.float32 and not torch.equal(one, other)
    assert secure_normal(7).dtype == torch.float64 and secure_normal(7).shape == (7,)


def test_what_a_seed_builds_leaves_the_global_numbers_as_they_were() -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    one, same, other = (seeded(seed, lambda: torch.randn(4)) for seed in (5, 5, 6))
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)
    with refused("seed"):
        seeded(-1, lambda: torch.randn(4))


def test_each_is_half_a_sum_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of numbers by inversion of 52 random bits, in the middle of their cell: never 0 or 1."""
    cells = [0, 2**52 - 1, 2**51, -1, 12345, 2**52, 2**53 + 1, -(2**63)]
    drawn: list[int] = []

    def urandom(count: int) -> bytes:
        drawn.append(count)
        return np.array(cells[2 * len(drawn) - 2 : 2 * len(drawn)], dtype=np.int64).tobytes()

    monkeypatch.setattr(os, "urandom", urandom)
    uniform = [(cell % 2**52 + 0.5) / 2**52 for cell in cells]
    expected = stats.norm.ppf(uniform).reshape(4, 2).sum(axis=0) / 2
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(secure_normal(2).numpy(), expected, rtol=1e-9)
    assert drawn == [16] * 4


def test_what_is_said_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _machine.versions()
    assert found["python"] == platform.python_version() and found["numpy"] == np.__version__
    assert set(found) == {"python", "dptheory", "numpy", "scipy", "torch", "opacus"}
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"model of {device}")
    assert _machine.device_name(torch.device("cpu")) == "cpu"
    assert _machine.device_name(torch.device("cuda")) == "cuda: model of cuda"


def test_bits_of_the_system_are_sixty_four() -> None:
    bits = _randomness._secure_bits(4000).numpy().view(np.uint64)
    for place in range(64):
        ones = int(((bits >> np.uint64(place)) & np.uint64(1)).sum())
        assert abs(ones - 2000) < 7 * 1000**0.5
