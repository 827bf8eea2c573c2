"""Shuffled batches, users with several records, batches cut to a size, the best of several runs: brute force and witnesses."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from dptheory import privacy
from dptheory.privacy.methods._closed_forms import one_step_epsilon
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.lattice import _rising_loss
from dptheory.privacy.samplers import _shuffled
from tests.named import by_name

GRID = np.linspace(-14.0, 20.0, 6_001)
WIDTH = GRID[1] - GRID[0]


def _delta(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def _one_step_epsilon(p: np.ndarray, q: np.ndarray, delta: float) -> float:
    low, high = 0.0, 60.0
    for _ in range(36):
        middle = (low + high) / 2
        low, high = (middle, high) if _delta(p, q, middle) > delta else (low, middle)
    return high


def _normal(mean: float, sigma: float) -> np.ndarray:
    return norm.pdf(GRID, mean, sigma) * WIDTH


# Users


def test_a_user_costs_what_the_enumerated_step_costs() -> None:
    """One step, and no vectors of three records cost more than three alike."""
    sigma, rate, delta = 1.5, 0.2, 1e-4

    def law(records: tuple[float, ...]) -> np.ndarray:
        total = np.zeros(GRID.size)
        for drawn in itertools.product((0, 1), repeat=len(records)):
            weight = rate ** sum(drawn) * (1 - rate) ** (len(records) - sum(drawn))
            total += weight * _normal(float(np.dot(drawn, records)), sigma)
        return total

    bound = privacy.samplers.user_epsilon_upper_bound(
        noise_multiplier=sigma, sampling_rate=rate, steps=1, delta=delta, records_per_user=3
    )
    without = _normal(0.0, sigma)
    alike = law((1.0, 1.0, 1.0))
    exact = max(_one_step_epsilon(alike, without, delta), _one_step_epsilon(without, alike, delta))
    assert exact <= bound <= exact * 1.002
    for records in ((1.0, 1.0, -1.0), (1.0, 0.5, 0.2), (1.0, -1.0, 0.0)):
        assert _one_step_epsilon(law(records), without, delta) <= exact


def test_a_user_with_one_record_is_a_record() -> None:
    run = by_name("noise_multiplier sampling_rate steps delta", (2.0, 0.02, 100, 1e-5))
    found = privacy.epsilon_bounds(**run)
    assert found.lower <= privacy.samplers.user_epsilon_upper_bound(**run, records_per_user=1) <= 1.002 * found.upper
    full = privacy.samplers.user_epsilon_upper_bound(**(run | {"sampling_rate": 1.0}), records_per_user=3)
    assert full == privacy.gaussian_epsilon(15.0, 1e-5)


# Cut batches


@pytest.mark.parametrize(("size", "most"), [(3, 1), (4, 2)])
def test_cut_batches_of_small_populations(size: int, most: int) -> None:
    """All draws, all cuts, records of -1, 0 and 1: nothing costs more than the bound, which tells when a batch was full."""
    sigma, rate, delta = 2.0, 0.4, 1e-3

    def law(records: tuple[float, ...]) -> np.ndarray:
        total = np.zeros(GRID.size)
        for drawn in itertools.product((0, 1), repeat=len(records)):
            weight = rate ** sum(drawn) * (1 - rate) ** (len(records) - sum(drawn))
            chosen = [x for x, taken in zip(records, drawn, strict=True) if taken]
            kept = list(itertools.combinations(chosen, min(most, len(chosen))))
            total += sum(weight / len(kept) * _normal(float(sum(one)), sigma) for one in kept)
        return total

    bound = privacy.samplers.truncated_epsilon_upper_bound(
        noise_multiplier=sigma, sampling_rate=rate, steps=1, delta=delta, train_size=size, max_batch_size=most
    )
    worst = 0.0
    for others in itertools.combinations_with_replacement((-1.0, 0.0, 1.0), size - 1):
        p, q = law((1.0, *others)), law(others)
        worst = max(worst, _one_step_epsilon(p, q, delta), _one_step_epsilon(q, p, delta))
    assert worst <= bound <= 1.8 * worst


def test_cut_batches_and_dp_accounting() -> None:
    """Its event is a looser bound."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    run = by_name("noise_multiplier sampling_rate steps delta", (1.0, 0.1, 20, 1e-5))
    event = dp_accounting.dp_event.TruncatedSubsampledGaussianDpEvent(1000, 0.1, 110, 1.0)
    accountant = PLDAccountant(value_discretization_interval=1e-2)
    accountant.compose(event, 20)
    theirs = accountant.get_epsilon(1e-5)
    assert (
        0.8 * theirs
        < privacy.samplers.truncated_epsilon_upper_bound(**run, train_size=1000, max_batch_size=110)
        <= theirs
    )


def test_uncut_batches_are_plain_poisson_batches() -> None:
    run = by_name("noise_multiplier sampling_rate steps delta", (1.0, 0.1, 20, 1e-5))
    poisson = privacy.epsilon_bounds(**run)
    uncut = privacy.samplers.truncated_epsilon_upper_bound(**run, train_size=1000, max_batch_size=1000)
    assert poisson.lower <= uncut <= 1.002 * poisson.upper


def test_cut_batches_where_losses_are_huge_or_all_alike() -> None:
    """Full batches cut to half: all losses of the kept outputs are alike. A seldom cut: few points of a steep tilt."""
    run = by_name("noise_multiplier sampling_rate steps delta", (0.05, 1.0, 1, 1e-5))
    low, high = one_step_epsilon(Loss("remove", 0.025, 0.5), 1e-5)
    assert low <= privacy.samplers.truncated_epsilon_upper_bound(**run, train_size=2, max_batch_size=1) <= 1.002 * high
    run = by_name("noise_multiplier sampling_rate steps delta", (0.117, 9e-4, 1, 4e-18))
    uncut = privacy.epsilon_bounds(**(run | {"delta": 4.1e-18})).lower  # cut in 1 of 1,000 steps
    bound = privacy.samplers.truncated_epsilon_upper_bound(**run, train_size=50, max_batch_size=2)
    assert uncut <= bound <= privacy.gaussian_epsilon(2 / 0.117, 4e-18)


def test_a_law_from_above_has_no_smaller_divergence() -> None:
    weights = binom.pmf(np.arange(4), 3, 0.3)
    loss = _rising_loss.RisingLoss(np.arange(4.0), weights, np.array([1.0, 0.0, 0.0, 0.0]))
    for one in (loss, loss.reversed()):
        law = one.cells(math.log(1e-12)).from_above(0.01)
        p = sum(w * norm.pdf(GRID, m) * WIDTH for w, m in zip(one.by_p, one.means, strict=True))
        q = sum(w * norm.pdf(GRID, m) * WIDTH for w, m in zip(one.by_q, one.means, strict=True))
        for epsilon in (-3.0, -1.0, -0.1, 0.0, 0.1, 1.0, 4.0):
            exact = _delta(p, q, epsilon)
            above = float(law.masses @ np.maximum(-np.expm1(epsilon - law.losses), 0.0))
            assert exact - 1e-6 <= above <= exact + 1e-3


# Shuffled batches


def test_an_attack_on_two_batches_stays_below_the_truth() -> None:
    """One epoch of two batches: the pair of data sets on a grid in two dimensions."""
    sigma, delta = 1.0, 1e-3
    axis = np.linspace(-6.0, 8.0, 281)
    x, y = np.meshgrid(axis, axis)

    def law(a: float) -> np.ndarray:
        two = norm.pdf(x, a) * norm.pdf(y) + norm.pdf(x) * norm.pdf(y, a)
        return two / 2 * (axis[1] - axis[0]) ** 2

    for adjacency, pairs in {"replace-one": [(2.0, 0.0)], "add-remove": [(2.0, 1.0), (1.0, 0.0)]}.items():
        truth = max(
            max(_one_step_epsilon(law(a / sigma), law(b / sigma), delta), _one_step_epsilon(law(b), law(a), delta))
            for a, b in pairs
        )
        found = privacy.samplers.shuffled_epsilon_lower_bound(
            noise_multiplier=sigma, batches=2, epochs=1, delta=delta, adjacency=adjacency
        )
        assert 0.85 * truth <= found <= truth


def test_the_largest_sum_by_its_distribution_function() -> None:
    losses, masses = _shuffled._largest_sum(10, 2.0, 1.0)
    assert masses.sum() == pytest.approx(1.0, abs=1e-9)
    x = np.linspace(-4.0, 9.0, 200_001)
    first, second = (norm.cdf(x) ** 9 * norm.cdf(x - shift) for shift in (2.0, 1.0))
    for epsilon in (0.0, 1.0, 3.0):
        exact = float(np.maximum(np.diff(first) - math.exp(epsilon) * np.diff(second), 0.0).sum())
        assert float(masses @ np.maximum(-np.expm1(epsilon - losses), 0.0)) == pytest.approx(exact, rel=1e-3)


def test_one_batch_per_epoch_is_the_gaussian_mechanism() -> None:
    """Against an empty record the sum moves by 1 / sigma, against its opposite by 2 / sigma."""
    run = {"noise_multiplier": 1.0, "batches": 1, "epochs": 4, "delta": 1e-5}
    exact = privacy.gaussian_epsilon(2.0, 1e-5)
    assert 0.995 * exact <= privacy.samplers.shuffled_epsilon_lower_bound(**run) <= exact
    opposite = privacy.samplers.shuffled_epsilon_lower_bound(**run, adjacency="replace-one")
    assert 0.995 * privacy.gaussian_epsilon(4.0, 1e-5) <= opposite <= privacy.gaussian_epsilon(4.0, 1e-5)
    by_cells = _shuffled._largest_sum_epsilon(1, 2.0, 1.0, 4, 1e-5)
    assert 0.995 * exact <= by_cells <= exact


def test_shuffled_batches_cost_more_than_poisson_batches() -> None:
    """Little noise, many epochs: three times the epsilon that is reported; and more epochs cost more."""
    run = {"noise_multiplier": 1.0, "batches": 20, "delta": 1e-5}
    spent = [privacy.samplers.shuffled_epsilon_lower_bound(**run, epochs=epochs) for epochs in (1, 10)]
    poisson = privacy.epsilon_bounds(noise_multiplier=1.0, sampling_rate=0.05, steps=200, delta=1e-5)
    assert spent[0] < spent[1]
    assert spent[1] > 2.5 * poisson.upper


# The best of several runs


@pytest.mark.parametrize(("law", "shape"), [("geometric", 1.0), ("logarithmic", 0.0), ("poisson", math.inf)])
def test_the_best_of_several_runs_as_dp_accounting_has_it(law: str, shape: float) -> None:
    """At real orders as well; for Poisson's law less, as dp-accounting takes delta from the Renyi curve."""
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    orders = np.unique(np.concatenate([np.arange(2.0, 257.0), 1.0 + np.geomspace(0.2, 60.0, 200)]))
    for sigma, rate, steps, mean in ((1.0, 0.02, 100, 10.0), (10.0, 1.0, 20, 3.0), (1.0, 0.02, 100, 1e6)):
        run = dp_event.SelfComposedDpEvent(dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma)), steps)
        accountant = RdpAccountant(orders.tolist())
        accountant.compose(dp_event.RepeatAndSelectDpEvent(run, mean, shape))
        found = privacy.samplers.selection_epsilon_upper_bound(
            noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=1e-5, mean_runs=mean, runs_law=law
        )
        theirs = accountant.get_epsilon(1e-5)
        assert found <= theirs * (1 + 1e-8)
        assert law == "poisson" or found >= theirs * (1 - 1e-3)


def test_a_poisson_number_of_unsampled_runs() -> None:
    """The formula at many orders by hand: the curve of a Gaussian mechanism and its exact delta."""
    mu = math.sqrt(20) / 10
    for mean in (1.0, 3.0, 1e4):
        orders = 1.0 + np.geomspace(1e-3, 1e3, 4000)
        deltas = [privacy.gaussian_delta(mu, math.log1p(1 / (order - 1))) for order in orders]
        rdp = orders * mu**2 / 2 + mean * np.array(deltas) + math.log(mean) / (orders - 1)
        theirs = privacy.epsilon_from_rdp(orders=orders, rdp=rdp, delta=1e-5)
        found = privacy.samplers.selection_epsilon_upper_bound(
            noise_multiplier=10.0, sampling_rate=1.0, steps=20, delta=1e-5, mean_runs=mean, runs_law="poisson"
        )
        assert found == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize(("mean", "most"), [(10.0, 2.72), (1e2, 7.0), (1e4, 32.1), (1e6, 87.1)])
def test_many_runs_of_poisson_do_not_ask_for_whole_orders(mean: float, most: float) -> None:
    """At whole orders alone these were 3.24, 10.7, 102.9 and 8376."""
    found = privacy.samplers.selection_epsilon_upper_bound(
        noise_multiplier=1.0, sampling_rate=0.02, steps=100, delta=1e-5, mean_runs=mean, runs_law="poisson"
    )
    assert 0.99 * most < found <= most
