"""Training with random allocation: the law of its batches, and that no way through an epoch is counted as less than it is."""

import copy
import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from dptheory.errors import ArgumentError
from dptheory.privacy import Composition, RandomAllocation, Step, epsilon_bounds
from dptheory.pruning import SubsetMallows
from dptheory.training import mechanisms as m
from dptheory.training import runs
from dptheory.training.audits import _draws
from dptheory.training.engine import (
    AllocatedBatches,
    BudgetError,
    PartitionBatches,
    PoissonBatches,
    PrivacyAccountant,
    make_private_with_epsilon,
)
from dptheory.training.engine._sampling import allocation
from dptheory.training.runs import _checkpoint
from tests.refused import refused
from tests.training import sgd
from tests.training.forked import in_a_fork
from tests.training.sgd import epoch
from tests.training.tiny import tiny_config

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook", "ignore:Secure RNG"),
    pytest.mark.usefixtures("small_data"),
]

DELTA = 1e-5
T, K = 4, 2
DATA = TensorDataset(torch.randn(40, 6), torch.arange(40) % 2)


def kinds(size: int = 30, steps: int = T, participations: int = 1) -> list[AllocatedBatches]:
    seeds = (3, torch.Generator().manual_seed(3), None)
    return [
        AllocatedBatches(train_size=size, steps_per_epoch=steps, participations=participations, seed=seed)
        for seed in seeds
    ]


def cost_of(epochs: int, noise: float = 2.0, steps: int = T, participations: int = 1) -> float:
    part = RandomAllocation(noise_multiplier=noise, steps_per_epoch=steps, participations=participations, count=epochs)
    return Composition([part]).epsilon(DELTA).upper


# --- The law of the batches ---


@pytest.mark.parametrize("participations", [1, K, T])
def test_all_sets_of_steps_are_alike_and_records_independent(participations: int) -> None:
    """Two records in an epoch of four steps have 16, 36 or 1 pairs of sets: each as often as the others."""
    rng, epochs = np.random.default_rng(0), 4000
    sets = list(itertools.combinations(range(T), participations))
    seen: Counter[tuple] = Counter()
    for _ in range(epochs):
        drawn = allocation(2, T, participations, rng.bit_generator.random_raw)
        seen[tuple(tuple(step for step in range(T) if record in drawn[step]) for record in range(2))] += 1
    assert set(seen) <= set(itertools.product(sets, sets)) and sum(seen.values()) == epochs
    if participations < T:
        assert stats.chisquare([seen[pair] for pair in itertools.product(sets, sets)]).pvalue > 1e-6


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("participations", [1, K])
def test_an_epoch_has_each_record_exactly_k_times_whatever_the_processes(parts: int, participations: int) -> None:
    for number in range(3):
        # each process has batches of its own, whose generators are seeded alike
        processes = [kinds(participations=participations)[number] for _ in range(parts)]
        for start in (0, T):
            taken = Counter(
                int(index)
                for step in range(start, start + T)
                for part, batches in enumerate(processes)
                for index in batches.batch(step, part, parts)
            )
            assert taken == Counter(dict.fromkeys(range(30), participations))


@pytest.mark.parametrize("participations", [1, K])
def test_the_audit_tells_random_allocation_from_poisson_and_from_a_shuffle(participations: int) -> None:
    size, epochs = 20, 400

    def refused_by(batches) -> set[str]:
        drawn = [batches.batch(step).numpy() for step in range(epochs * T)]
        return {one.name for one in _draws.allocated(drawn, size, T, participations) if not one.passed}

    for batches in kinds(size, participations=participations):
        assert refused_by(batches) == set()
    poisson = PoissonBatches(train_size=size, sampling_rate=participations / T, seed=0)
    assert "participations" in refused_by(poisson)
    shuffled = PartitionBatches(train_size=size, batch_size=size // T, seed=0)
    assert "law of batch sizes" in refused_by(shuffled)
    assert ("participations" in refused_by(shuffled)) == (participations > 1)


@pytest.mark.parametrize("batches", kinds(), ids=("seed", "generator", "secure"))
def test_no_batch_of_an_epoch_comes_twice_for_the_price_of_one(batches: AllocatedBatches) -> None:
    assert (batches.epochs_begun, batches.drawn) == (0, 0)
    for step in (0, 1, 3):
        batches.batch(step)
    assert (batches.epochs_begun, batches.drawn) == (1, 3)
    batches.batch(3)  # again
    assert batches.epochs_begun == 2
    batches.batch(1)  # back
    assert batches.epochs_begun == 3
    batches.batch(T)  # on
    assert batches.epochs_begun == 4
    batches.batch(T + 1, 1, 2)  # for other processes
    assert batches.epochs_begun == 5


def test_what_comes_again_is_drawn_anew_but_for_a_seed() -> None:
    by_seed, by_generator, secure = kinds(1000)
    assert torch.equal(by_seed.batch(1), by_seed.batch(1))
    for batches in (by_generator, secure):
        assert not torch.equal(batches.batch(1), batches.batch(1))


def test_a_fork_within_an_epoch_begins_another_one() -> None:
    batches = kinds(1000)[2]
    batches.batch(0)
    child = in_a_fork(lambda: (batches.batch(1).tolist(), batches.epochs_begun))
    assert child[1] == 2 and child[0] != batches.batch(1).tolist() and batches.epochs_begun == 1


def test_a_record_takes_part_in_some_step_and_in_none_twice() -> None:
    for wrong in (0, T + 1):
        with refused("participations"):
            AllocatedBatches(train_size=5, steps_per_epoch=T, participations=wrong, seed=0)


# --- What is counted ---


def recorded(accountant: PrivacyAccountant, *steps: tuple[float, int]) -> PrivacyAccountant:
    for noise, epochs in steps:
        accountant.clear(m.StepCost(noise), epochs=epochs)
        accountant.record(m.StepCost(noise), epochs=epochs)
    return accountant


def test_an_accountant_counts_epochs_that_were_begun() -> None:
    kept = PrivacyAccountant(steps_per_epoch=T)
    assert kept.epsilon(DELTA) == 0.0
    recorded(kept, (2.0, 1))
    assert kept.epsilon(DELTA) == cost_of(1)
    recorded(kept, *[(2.0, 0)] * (T - 1))
    assert (kept.epsilon(DELTA), kept.steps) == (cost_of(1), T)
    recorded(kept, (2.0, 0))  # nobody said so, but it cannot be of the same epoch
    assert kept.epsilon(DELTA) == cost_of(2)
    recorded(kept, (2.0, 3))  # two were begun and left
    assert kept.epsilon(DELTA) == cost_of(5) and kept.steps == T + 2


def test_an_epoch_counts_with_its_least_noise() -> None:
    kept = recorded(PrivacyAccountant(steps_per_epoch=T), (3.0, 1), (2.0, 0), (4.0, 0))
    assert kept.epsilon(DELTA) == cost_of(1, 2.0)
    assert [(part.noise_multiplier, part.count) for part in kept.composition().parts] == [(2.0, 1)]
    recorded(kept, (3.0, 1), (0.0, 0))
    assert kept.epsilon(DELTA) == math.inf


def test_releases_are_composed_with_epochs() -> None:
    kept = recorded(PrivacyAccountant(steps_per_epoch=T), (2.0, 1))
    kept.record_release(Step(noise_multiplier=4.0, sampling_rate=1.0, count=1))
    part = RandomAllocation(noise_multiplier=2.0, steps_per_epoch=T, count=1)
    assert kept.epsilon(DELTA) == Composition((*kept.releases, part)).epsilon(DELTA).upper > cost_of(1)


def test_private_choices_are_not_accounted_for() -> None:
    kept = PrivacyAccountant(steps_per_epoch=T)
    with refused("cost"):
        kept.record(m.StepCost(1.0, selection=(1, SubsetMallows(10, 5, theta=0.1))))
    assert kept.steps == 0


def test_going_back_and_on_elsewhere_counts_every_epoch_that_was_begun() -> None:
    first = recorded(PrivacyAccountant(steps_per_epoch=T), (2.0, 1), (2.0, 0))
    state = first.state_dict()
    recorded(first, (2.0, 0))
    first.load_state_dict(state)
    assert (first.epsilon(DELTA), first.steps) == (cost_of(1), 3)
    recorded(first, (2.0, 0))  # of the same epoch still
    assert first.epsilon(DELTA) == cost_of(1)
    for times in (2, 3):  # elsewhere: the rest of the epoch is drawn afresh, each time
        other = PrivacyAccountant(steps_per_epoch=T)
        other.load_state_dict(state)
        recorded(other, (2.0, 0), (2.0, 0))
        assert other.epsilon(DELTA) == cost_of(times) and other.steps == 2 * times
        state = other.state_dict()
    copied = recorded(copy.deepcopy(first), (2.0, 0))
    assert copied.epsilon(DELTA) == cost_of(2) and first.epsilon(DELTA) == cost_of(1)
    forked = in_a_fork(lambda: recorded(first, (2.0, 0)).epsilon(DELTA))
    assert forked == cost_of(2)


def test_a_later_state_never_lowers_the_noise_of_an_epoch_again() -> None:
    kept = recorded(PrivacyAccountant(steps_per_epoch=T), (3.0, 1))
    early = kept.state_dict()
    recorded(kept, (2.0, 0))
    kept.load_state_dict(early)
    assert kept.epsilon(DELTA) >= cost_of(1, 2.0)


@pytest.mark.parametrize(
    "other",
    [
        PrivacyAccountant(1 / T),
        PrivacyAccountant(steps_per_epoch=T, participations=2),
        PrivacyAccountant(steps_per_epoch=2 * T, participations=2),
    ],
)
def test_epochs_are_never_read_as_steps_nor_as_other_epochs(other: PrivacyAccountant) -> None:
    """Ten epochs of a thousand steps would be ten steps, at the same rate."""
    kept = recorded(PrivacyAccountant(steps_per_epoch=T), (2.0, 1))
    with refused("state"):
        other.load_state_dict(kept.state_dict())
    other.record(m.StepCost(2.0))
    with refused("state"):
        kept.load_state_dict(other.state_dict())


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("sampling_rate", {"sampling_rate": 0.5, "steps_per_epoch": 2}),
        ("sampling_rate", {}),
        ("participations", {"steps_per_epoch": 2, "participations": 3}),
    ],
)
def test_bad_accountants(name: str, given: dict) -> None:
    with refused(name):
        PrivacyAccountant(**given)


# --- make_private ---


def made(workers: int = 0, data=DATA, **options):
    loader = DataLoader(
        data, batch_size=options.pop("batch_size", 10), num_workers=workers, generator=options.pop("generator", None)
    )
    given = {
        "mechanism": m.DpSgd(),
        "noise_multiplier": 2.0,
        "sampling": "random allocation",
        "probe": False,
        **options,
    }
    return sgd.make_private(nn.Linear(6, 2), loader, **given)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("participations", [None, K])
def test_a_pass_has_each_record_k_times_and_costs_an_epoch(
    workers: int, secure: bool, participations: int | None
) -> None:
    numbered = TensorDataset(*DATA.tensors, torch.arange(40))
    k = participations or 1
    model, optimizer, loader = made(workers, numbered, secure=secure, participations=participations)
    assert len(loader) == k * T and optimizer.expected_batch_size == 10.0
    for done in (1, 2):
        seen = []
        for features, labels, numbers in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(features), labels).backward()
            optimizer.step()
            seen += numbers.tolist()
        assert Counter(seen) == Counter(dict.fromkeys(range(40), k))
        assert optimizer.epsilon(DELTA) == cost_of(done, steps=k * T, participations=k)
    report, statement = optimizer.privacy(DELTA), optimizer.statement(DELTA)
    assert report.steps == 2 * k * T and "random allocation" in report.lines()[2]
    assert (report.sampling_rate, report.adjacency) == (1 / T, "zero-out")
    assert (statement.epsilon, statement.steps) == (report.epsilon, report.steps)


def test_what_is_accounted_is_what_epsilon_bounds_says() -> None:
    optimizer = epoch(made())
    law = {"sampling": "random allocation", "steps_per_epoch": T, "steps": T}
    assert optimizer.epsilon(DELTA) == epsilon_bounds(noise_multiplier=2.0, delta=DELTA, **law).upper


def test_a_pass_that_is_left_counts_as_a_whole_one() -> None:
    private = made()
    model, optimizer, loader = private
    for done in (1, 2, 3):
        for features, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(features), labels).backward()
            optimizer.step()
            break
        assert optimizer.epsilon(DELTA) == cost_of(done)
    next(iter(loader))  # a batch that nobody steps on may still be stepped on later
    epoch(private)
    assert optimizer.epsilon(DELTA) == cost_of(5)


def test_passes_side_by_side_count_apart() -> None:
    """Two iterators of one loader: no batch is one that another epoch has, and each epoch that was drawn from counts."""
    model, optimizer, loader = made()
    one, other = iter(loader), iter(loader)
    stepped = 0
    for _ in range(2):
        for batches in (one, other):
            features, labels = next(batches)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(features), labels).backward()
            optimizer.step()
            stepped += 1
    assert optimizer.epsilon(DELTA) >= cost_of(2) and optimizer.accountant.steps == stepped


def test_a_resumed_run_begins_another_epoch() -> None:
    first = made()
    features, labels = next(iter(first[2]))
    nn.functional.cross_entropy(first[0](features), labels).backward()
    first[1].step()
    second = made()
    second[1].load_state_dict(first[1].state_dict())
    epoch(second)
    assert second[1].epsilon(DELTA) == cost_of(2) and second[1].accountant.steps == T + 1
    poisson = made(sampling="poisson")
    with refused("state"):
        poisson[1].load_state_dict(second[1].state_dict())


def test_seeded_alike_poisson_and_random_allocation_have_no_noise_in_common() -> None:
    """The difference of two releases with one noise is that of their sums."""
    noise = []
    for sampling in ("poisson", "random allocation"):
        torch.manual_seed(0)
        optimizer = made(sampling=sampling, noise_generator=torch.Generator().manual_seed(1))[1]
        noise.append(optimizer.noise_stream.on("cpu").initial_seed())
    assert noise[0] != noise[1]


def test_seeded_runs_can_be_repeated() -> None:
    found = []
    for _ in range(2):
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(5)
        private = made(generator=generator, noise_generator=torch.Generator().manual_seed(1))
        epoch(private)
        found.append(private[0].state_dict())
    assert all(torch.equal(one, other) for one, other in zip(*(state.values() for state in found), strict=True))


def test_steps_and_divisor_of_the_callers_make_records_added_or_removed() -> None:
    _, optimizer, loader = made(steps_per_epoch=5, expected_batch_size=8.0)
    assert len(loader) == 5 and optimizer.expected_batch_size == 8.0
    assert optimizer.privacy(DELTA).adjacency == "add-remove"


def test_a_batch_in_which_nobody_is_releases_noise_all_the_same() -> None:
    tiny = TensorDataset(torch.randn(2, 6), torch.zeros(2, dtype=torch.long))
    _, optimizer, loader = private = made(data=tiny, batch_size=1, steps_per_epoch=20, expected_batch_size=1.0)
    epoch(private)
    assert len(loader) == optimizer.accountant.steps == 20 and optimizer.epsilon(DELTA) == cost_of(1, steps=20)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sampling", {"sampling": "shuffled"}),
        ("sampling_rate", {"sampling_rate": 0.25, "expected_batch_size": 10.0}),
        ("steps_per_epoch", {"steps_per_epoch": 4}),
        ("participations", {"participations": T + 1, "steps_per_epoch": T, "expected_batch_size": 10.0}),
        ("steps_per_epoch", {"sampling": "poisson", "steps_per_epoch": 4}),
        ("participations", {"sampling": "poisson", "participations": 1}),
        ("steps_per_epoch", {"steps_per_epoch": 0, "expected_batch_size": 10.0}),
    ],
)
def test_bad_ways_to_ask(name: str, options: dict) -> None:
    with pytest.raises(ArgumentError) as error:
        made(**options)
    assert error.value.argument.startswith(name)


def test_a_budget_gets_the_least_noise_and_is_kept() -> None:
    model = nn.Linear(6, 2)
    private = make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(DATA, batch_size=10),
        mechanism=m.DpSgd(),
        max_grad_norm=1.0,
        sampling="random allocation",
        target_epsilon=2.0,
        target_delta=DELTA,
        epochs=3,
        probe=False,
    )
    for _ in range(3):
        optimizer = epoch(private)
    assert 2.0 >= optimizer.epsilon(DELTA) > 2.0 * (1 - 1e-2)
    with pytest.raises(BudgetError):
        epoch(private)
    assert optimizer.accountant.steps == 3 * T


# --- attach ---


def attached(batches, **options):
    return sgd.attach(nn.Linear(6, 2), batches=batches, train_size=40, noise_multiplier=2.0, **options)


def stepped(model, optimizer, indices: torch.Tensor) -> None:
    optimizer.begin_batch(len(indices))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(DATA.tensors[0][indices]), DATA.tensors[1][indices]).backward()
    optimizer.step()


def test_a_loop_that_draws_its_own_batches_cannot_hide_an_epoch() -> None:
    batches = kinds(40)[0]
    model, optimizer = attached(batches)
    for step in (0, 1, 0, 0):  # the first batch of a seed again: it costs another epoch
        stepped(model, optimizer, batches.batch(step))
    assert optimizer.epsilon(DELTA) == cost_of(3)
    with refused("batch", "batches.batch"):
        stepped(model, optimizer, torch.arange(10))
    assert optimizer.accountant.steps == 4


def test_what_is_accounted_must_be_what_is_drawn() -> None:
    with refused("sampling_rate"):
        attached(kinds(40)[0], sampling_rate=0.25)
    with refused("sampling_rate"):
        attached(PoissonBatches(train_size=40, sampling_rate=0.5, seed=0), sampling_rate=0.25)
    with refused("batches"):
        attached(kinds(40)[0], secure=True)


# --- dptheory run ---


def test_a_run_counts_passes_and_a_resumed_one_the_pass_that_it_begins_again(tmp_path: Path) -> None:
    config = tiny_config(sampling="random allocation", secure=True, noise_multiplier=2.0)
    run = runs.prepare(config, torch.device("cpu"))
    steps = run.steps // 3
    assert run.optimizer.accountant.law == (steps, 1)
    for _ in range(steps + 1):
        runs.one_step(run)
    assert run.optimizer.epsilon(DELTA) == cost_of(2, steps=steps)
    _checkpoint.save(run, tmp_path)
    resumed = runs.prepare(config, torch.device("cpu"))
    _checkpoint.restore(resumed, tmp_path)
    for _ in range(steps - 1):
        runs.one_step(resumed)
    assert resumed.step == 2 * steps and resumed.optimizer.epsilon(DELTA) == cost_of(3, steps=steps)


def test_a_run_with_a_budget_affords_all_passes_also_one_cut_short(tmp_path: Path) -> None:
    config = tiny_config(sampling="random allocation", noise_multiplier=None, epsilon=2.0, delta=DELTA, epochs=1.5)
    run = runs.train(config, torch.device("cpu"), tmp_path / "run", resume=False)
    steps = run.optimizer.accountant.law[0]
    assert run.step == run.steps == round(1.5 * steps) and not run.spent
    assert 2.0 >= run.rows[-1]["epsilon"] == cost_of(2, run.optimizer.noise_multiplier, steps) > 1.99


def test_a_simulation_that_is_resumed_is_the_same_but_for_the_pass_that_counts_twice(tmp_path: Path) -> None:
    config = tiny_config(sampling="random allocation", noise_multiplier=2.0, epochs=1)
    whole, begun = (runs.prepare(config, torch.device("cpu")) for _ in range(2))
    for _ in range(whole.steps):
        runs.one_step(whole)
    runs.one_step(begun)
    _checkpoint.save(begun, tmp_path)
    resumed = runs.prepare(config, torch.device("cpu"))
    _checkpoint.restore(resumed, tmp_path)
    for _ in range(whole.steps - 1):
        runs.one_step(resumed)
    assert all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), resumed.model.parameters(), strict=True))
    assert resumed.optimizer.epsilon(DELTA) == cost_of(2, steps=whole.steps) > whole.optimizer.epsilon(DELTA)
