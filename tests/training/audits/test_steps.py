"""Audits of one step, and their parts."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats

from dptheory import embedding as embedding
from dptheory.pruning import SubsetMallows
from dptheory.training.audits import Finding, _draws, _epsilons, _findings, _suite
from dptheory.training.audits._suite import Layers, on_layers
from dptheory.training.engine import PrivacyAccountant
from dptheory.training.mechanisms import StepCost

# --- The audit's layers: gradients that are known apart from all hooks ---


PLAN = _suite.plan(0)
MADE = on_layers(PLAN)
UNIT = 2.0**-24


def test_the_gradients_have_the_norms_of_the_plan() -> None:
    """Inputs are rounded to single precision."""
    assert MADE.inputs is not None and MADE.rows.shape == (len(PLAN.rows), sum(MADE.sizes))
    np.testing.assert_allclose(np.linalg.norm(MADE.rows, axis=1), np.linalg.norm(PLAN.rows, axis=1), rtol=4 * UNIT)
    assert MADE.sizes == tuple(weight.numel() for weight in Layers().parameters())


def test_the_gradients_are_those_of_the_layers() -> None:
    """Of the dense layers by their formula, of the bias of the convolution and of the words by counting."""
    assert MADE.inputs is not None
    taken = np.split(MADE.inputs, np.cumsum([6, 24, 32, 3, 8, 18, 27]), axis=1)
    a, sequence, _, tokens, b, of_sequence, of_kernel, of_words = taken
    n = len(a)
    found = np.split(MADE.rows, np.cumsum(MADE.sizes)[:-1], axis=1)
    words = np.zeros((n, 7, 4))
    for i in range(n):
        np.add.at(words[i], tokens[i].astype(int), of_words[i].reshape(3, 4))
    wanted = {
        0: np.einsum("no,ni->noi", b, a),
        1: b,
        2: np.einsum("nto,nti->noi", of_sequence.reshape(n, 3, 6), sequence.reshape(n, 3, 8)),
        3: of_sequence.reshape(n, 3, 6).sum(1),
        5: of_kernel.reshape(n, 3, 9).sum(2),
        6: words,
    }
    for place, rows in wanted.items():
        size = np.abs(rows).max(axis=tuple(range(1, rows.ndim)))[:, None]
        assert (
            np.abs(found[place] - rows.reshape(n, -1)) <= 2**5 * 2.0**-52 * size
        ).all()  # sums of at most nine terms
    assert len(found) == 7 and found[4].all()


def test_an_example_of_zeros_has_no_gradient() -> None:
    """As in the neighbour in which one is zeroed."""
    changed = MADE.changed(np.zeros_like)
    assert changed.inputs is not None and not changed.rows.any()
    model = Layers()
    model(torch.from_numpy(changed.inputs).float()).sum().backward()
    assert not any(bool(p.grad.any()) for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_biases_weigh_in_the_norm(share: float) -> None:
    """A norm without them would be seen: they have more than a fiftieth of the square of every gradient, and half of none."""
    squares = np.square(MADE.rows)
    bounds = np.cumsum([0, *MADE.sizes])
    biases = sum(squares[:, bounds[place] : bounds[place + 1]].sum(1) for place in (1, 3, 5)) / squares.sum(1)
    assert (biases > share).all() == (share < 0.1)


# --- The law of batches: what is counted, against loops over made-up batches, and the chances of it ---


RECORDS, RATE = 5, 0.4
DRAWN = [np.array(batch, dtype=np.int64) for batch in ([0, 3], [], [3, 3, 4], [0, 1, 3, 4], [2, 3], [0, 3], [3])]


def chance(hits: int, trials: int, rate: float) -> float:
    return min(1.0, 2 * min(stats.binom.cdf(hits, trials, rate), stats.binom.sf(hits - 1, trials, rate)))


def near(found: Finding, measured: float, claimed: float, wanted: float | None) -> None:
    np.testing.assert_allclose([found.measured, found.claimed], [measured, claimed], rtol=1e-12)
    assert found.chance == (None if wanted is None else pytest.approx(min(1.0, wanted), rel=1e-9))


def test_the_law_by_loops() -> None:
    rate, repeats, sizes, each, pairs, fresh = _draws.law(DRAWN, RECORDS, RATE)
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
    found = _draws.law(kind(np.random.default_rng(0)), 30, 0.3)
    assert {one.name for one in found if not one.passed} == refused


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


# --- Lower bounds on epsilon of private choices, against all index sets written out ---


def laws(size: int, keep: int, theta: float) -> tuple[np.ndarray, np.ndarray]:
    """Chances of every index set around one reference, and around another that shares as little with it as it can."""
    sets = [frozenset(chosen) for chosen in itertools.combinations(range(size), keep)]
    references = frozenset(range(keep)), frozenset(range(size - keep, size))
    found = []
    for reference in references:
        weights = np.array([math.exp(-2 * theta * len(chosen - reference)) for chosen in sets])
        found.append(weights / weights.sum())
    return found[0], found[1]


@pytest.mark.parametrize(("size", "keep"), [(2, 1), (5, 1), (5, 2), (5, 3), (5, 4), (6, 3)])
def test_differences_of_index_sets(size: int, keep: int) -> None:
    theta, most = 0.3, min(keep, size - keep)
    sets = [frozenset(chosen) for chosen in itertools.combinations(range(size), keep)]
    own, other = frozenset(range(keep)), frozenset(range(size - keep, size))
    wanted = np.zeros(2 * most + 1)
    for chosen, chance in zip(sets, laws(size, keep, theta)[0], strict=True):
        wanted[most + len(chosen - other) - len(chosen - own)] += chance
    np.testing.assert_allclose(_epsilons._differences(size, keep, theta), wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("size", "keep", "groups", "rate"), [(4, 2, 1, 1.0), (5, 4, 2, 0.3), (4, 1, 2, 0.3)])
def test_epsilon_of_one_step_by_all_its_index_sets(size: int, keep: int, groups: int, rate: float) -> None:
    """Below the exact value by one interval of the losses at most."""
    theta, delta = 0.8, 1e-2
    one, other = laws(size, keep, theta)
    inside, without = one, other
    for _ in range(groups - 1):
        inside, without = np.outer(inside, one).ravel(), np.outer(without, other).ravel()
    mixed = rate * inside + (1 - rate) * without

    def excess(epsilon: float) -> float:
        return float(np.maximum(mixed - math.exp(epsilon) * without, 0.0).sum())

    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > delta else (low, middle)
    found = _epsilons.of_choices(size=size, theta=theta, groups=groups, keeps=[keep], sampling_rate=rate, delta=delta)
    assert low - _epsilons._COARSE <= found <= low + 1e-9 and low > 0.3


def test_epsilon_of_many_choices_lies_below_that_of_the_account_and_near_it() -> None:
    keeps = [7] * 3 + [5] * 4 + [2] * 2
    account = PrivacyAccountant(0.25)
    for keep in keeps:
        account.record(StepCost(math.inf, selection=(60, SubsetMallows(8, keep, theta=0.2))))
    found = _epsilons.of_choices(size=8, theta=0.2, groups=60, keeps=keeps, sampling_rate=0.25, delta=1e-5)
    assert 0.8 * account.epsilon(1e-5) < found <= account.epsilon(1e-5)
    assert _epsilons.of_choices(size=8, theta=0.2, groups=60, keeps=[], sampling_rate=0.25, delta=1e-5) == 0.0
