"""Lower bounds on epsilon of private choices, against all index sets written out."""

import itertools
import math

import numpy as np
import pytest

from dptheory.pruning import SubsetMallows
from dptheory.training.audits import _epsilons
from dptheory.training.engine import PrivacyAccountant
from dptheory.training.mechanisms import StepCost


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
