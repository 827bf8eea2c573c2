"""Privacy of index sets: budgets, comparison, and the joint release."""

import functools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta as beta_law
from scipy.stats import binom as binomial

from dptheory import privacy, pruning, sparsification
from dptheory.claims.rf import section4
from dptheory.errors import ArgumentError
from dptheory.privacy import FreshMask, IndexSteps, subsampled_gaussian_rdp
from dptheory.privacy.index_sets import (
    IndexAccountings,
    IndexChoice,
    LatticeLoss,
    compare_index_accountings,
    composed,
    joint_rdp,
    loss_law,
    run_epsilon,
    theta_for_delta_budget,
    theta_for_joint_budget,
)
from dptheory.privacy.index_sets._budgets import largest_theta
from dptheory.privacy.methods import _log_sum, references
from dptheory.privacy.methods.lattice import _index_law
from dptheory.privacy.methods.lattice import _loss as _lattice_loss
from dptheory.privacy.methods.lattice._index_law import ContourLoss, IndexLoss
from dptheory.privacy.methods.references import IndexPRV
from dptheory.pruning import SubsetMallows
from tests.calls import by_name
from tests.refused import refused

# --- Privacy of the index mechanism against enumeration, direct convolution, mpmath and other accountants ---


def _direct(law: LatticeLoss, count: int) -> tuple[int, np.ndarray]:
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, np.exp(law.log_pmf))
    return count * law.low, total


def _largest(law: LatticeLoss | ContourLoss, count: int) -> float:
    """The least number at which delta is 0."""
    exact = Fraction(law.spacing) * law.top * count
    return float(exact) if float(exact) >= exact else math.nextafter(float(exact), math.inf)


@given(st.integers(2, 60), st.floats(0, 1), st.floats(0, 1), st.integers(1, 10**4))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_law_is_a_privacy_loss(dim: int, share: float, near: float, ten_thousandths: int) -> None:
    keep = min(max(round(dim * share), 1), dim - 1)
    model = SubsetMallows(dim, keep, theta=-math.log(Fraction(ten_thousandths, 10**4 + 1)))
    m = max(1, round(near * model.max_swaps))
    law = loss_law(mechanism=model, distance=2 * m)
    p = np.exp(law.log_pmf)
    j = law.low + np.arange(p.size)
    assert p.sum() == pytest.approx(1, rel=1e-12)
    assert abs(j).max() <= m
    # the loss of the swapped pair is minus this one: P(j) = e^(2 theta j) P(-j)
    mirrored = np.array([p[-i - law.low] if 0 <= -i - law.low < p.size else 0.0 for i in j])
    assert p == pytest.approx(np.exp(law.spacing * j) * mirrored, rel=1e-9, abs=1e-90)
    for order in (1.01, 2.0, 40.0):
        assert 0 <= law.renyi(order=order) <= order * model.zcdp(2 * m) * (1 + 1e-9)
    assert law.epsilon(delta=0.0) == pytest.approx(model.epsilon(2 * m))
    assert law.delta(epsilon=_largest(law, 1)) == 0


@pytest.mark.parametrize("theta", [1e-9, 1e-4, 0.1])
def test_a_renyi_curve_is_that_of_its_orders(theta: float) -> None:
    """Orders that do not fit into one block, those of small divergences among them."""
    law = loss_law(mechanism=SubsetMallows(4_000, 1_500, theta=theta))
    orders = np.array([1.001, *range(2, 400)])
    assert law.log_pmf.size * orders.size > 2 * _log_sum._BLOCK
    alone = [law.renyi(order=float(order)) for order in orders]
    assert _lattice_loss.renyi_curve(law, orders) == pytest.approx(alone, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("dim", "keep", "theta", "count"), [(6, 3, 0.05, 4000), (40, 10, 0.02, 900), (40, 30, 2.0, 1000)]
)
def test_fourier_against_direct_convolution(dim: int, keep: int, theta: float, count: int) -> None:
    law = loss_law(mechanism=SubsetMallows(dim, keep, theta=theta))
    low, pmf = _direct(law, count)
    losses = law.spacing * (low + np.arange(pmf.size))
    for epsilon in (0.0, 0.3, 2.0, 10.0, 30.0, 0.3 * law.spacing * law.top * count):
        far = losses > epsilon
        expected = float(pmf[far] @ -np.expm1(epsilon - losses[far]))
        if expected > 1e-280:
            assert law.delta(epsilon=epsilon, count=count) == pytest.approx(expected, rel=1e-9)
            if 1e-200 < expected < 0.99:
                assert law.epsilon(delta=expected, count=count) == pytest.approx(epsilon, rel=1e-8, abs=1e-8)


def test_tiny_delta_against_mpmath() -> None:
    dim, keep, count, theta = 8, 2, 300, 0.03
    law = loss_law(mechanism=SubsetMallows(dim, keep, theta=theta))
    with mpmath.workdps(60):
        w = mpmath.exp(2 * mpmath.mpf(theta))
        single: dict[int, mpmath.mpf] = {}
        for x in range(3):
            for y in range(3 - x):
                weight = math.comb(2, x) * math.comb(2, y) * math.comb(4, 2 - x - y) * w**x
                single[x - y] = single.get(x - y, mpmath.mpf(0)) + weight
        total = [mpmath.mpf(1)]
        one = [single[j] / sum(single.values()) for j in range(-2, 3)]
        for _ in range(count):
            grown = [mpmath.mpf(0)] * (len(total) + 4)
            for i, p in enumerate(total):
                for k, q in enumerate(one):
                    grown[i + k] += p * q
            total = grown
        for epsilon in (2.0, 4.0, 7.0):
            exact = sum(
                p * (1 - mpmath.exp(epsilon - 2 * mpmath.mpf(theta) * (s - 2 * count)))
                for s, p in enumerate(total)
                if 2 * theta * (s - 2 * count) > epsilon
            )
            assert law.delta(epsilon=epsilon, count=count) == pytest.approx(float(exact), rel=1e-10)
    assert law.delta(epsilon=7.0, count=count) < 1e-12


@pytest.mark.parametrize(("dim", "keep", "theta"), [(10**6, 10**5, 1e-4), (10**6, 5 * 10**5, 1e-3), (10**6, 1, 3.0)])
def test_a_million_entries(dim: int, keep: int, theta: float) -> None:
    model = SubsetMallows(dim, keep, theta=theta)
    law = loss_law(mechanism=model)
    distance = 2 * model.max_swaps
    epsilon = law.epsilon(delta=1e-15, count=10)
    assert (
        0
        < epsilon
        <= min(10 * model.epsilon(distance), privacy.zcdp_epsilon(zcdp_rho=10 * model.zcdp(distance), delta=1e-15))
    )
    assert law.delta(epsilon=epsilon, count=10) == pytest.approx(1e-15, rel=1e-6)
    assert law.renyi(order=2.0) <= 2 * model.zcdp(distance) * (1 + 1e-12)


def test_rare_losses_never_lower_epsilon() -> None:
    # losses rarer than e^-200 take no part in the sum: delta and epsilon are then bounds from above
    law = loss_law(mechanism=SubsetMallows(1000, 500, theta=0.01))
    losses = law.spacing * (law.low + np.arange(law.log_pmf.size))
    for delta in (1e-43, 1e-50, 1e-80, 1e-90, 1e-200):
        epsilon = law.epsilon(delta=delta)
        far = losses > epsilon
        spent = float(np.exp(law.log_pmf[far]) @ -np.expm1(epsilon - losses[far]))
        assert spent <= delta * (1 + 1e-9)
    assert law.epsilon(delta=1e-200) == _largest(law, 1)
    assert law.epsilon(delta=1e-80) == pytest.approx(5.7984875, rel=1e-7)
    assert law.delta(epsilon=9.0) > 0


DELTAS = (0.5, 1e-3, 1e-10, 1e-14, 1e-20, 1e-80, 1e-150, 1e-200, 1e-300)


@pytest.mark.parametrize(
    ("law", "count"),
    [
        (loss_law(mechanism=SubsetMallows(10, 3, theta=0.3)), 1),
        (loss_law(mechanism=SubsetMallows(10, 3, theta=0.3)), 100),
        (loss_law(mechanism=SubsetMallows(40, 10, theta=0.02)), 900),
        (loss_law(mechanism=SubsetMallows(10, 3, theta=0.3)), 10**10),
        (LatticeLoss(spacing=0.6, low=-3, log_pmf=np.full(7, -math.log(7.0)), top=3), 100),
    ],
)
def test_an_epsilon_keeps_its_delta(law: LatticeLoss, count: int) -> None:
    """Next to the largest loss too, where delta falls by its whole size from one number to the next; and it is not wasteful."""
    largest = _largest(law, count)
    for delta in DELTAS:
        found = law.epsilon(delta=delta, count=count)
        assert 0.0 <= found <= largest
        assert law.delta(epsilon=found, count=count) <= delta
        less = found - 1e-12 * largest
        assert less <= 0.0 or law.delta(epsilon=less, count=count) > delta


@pytest.mark.parametrize("count", [20_000, 10**6])
@pytest.mark.parametrize("low", [-1, 0, 2])
def test_losses_that_are_not_of_two_index_sets(low: int, count: int) -> None:
    """A loss of ``low`` or one step more, which no table of another pair in the other order mirrors: a binomial sum."""
    law = LatticeLoss(spacing=1e-3, low=low, log_pmf=np.log([0.25, 0.75]), top=low + 1)
    sums = np.arange(count + 1)
    masses, losses = binomial.pmf(sums, count, 0.75), 1e-3 * (low * count + sums)
    for spread in (-1.0, 0.0, 3.0):
        epsilon = float(masses @ losses) + spread * 1e-3 * math.sqrt(count * 0.75 * 0.25)
        true = float(masses @ -np.expm1(np.minimum(epsilon - losses, 0.0))) if epsilon >= 0.0 else 0.0
        if true > 0.0:
            assert law.delta(epsilon=epsilon, count=count) == pytest.approx(true, rel=1e-7)
            assert law.epsilon(delta=true, count=count) == pytest.approx(epsilon, rel=1e-7)


@pytest.mark.parametrize("low", [-1, 0, 2])
@pytest.mark.parametrize(
    ("logs", "count"),
    [
        (np.log([0.25, 0.75]) + math.log1p(1e-10), 10**10),
        (np.log([0.25, 0.75]) - math.log1p(1e-10), 10**10),
        (np.log(np.array([0.3, 0.7], dtype=np.float32)), 10**7),
    ],
)
def test_losses_whose_probabilities_hardly_add_up(low: int, logs: np.ndarray, count: int) -> None:
    """A sum of 1 - 1e-10 is a factor of 1/e after 10^10 losses, single precision .7 after 10^7: a binomial sum."""
    law = LatticeLoss(spacing=1e-3, low=low, log_pmf=logs, top=low + 1)
    chance = float(np.exp(law.log_pmf[1]) / np.exp(law.log_pmf).sum())
    spread = math.sqrt(count * chance * (1 - chance))
    epsilon = max(1e-3 * (low * count + count * chance), 0.0) + 0.1 * 1e-3 * spread
    sums = np.arange(int(count * chance - 9 * spread), int(count * chance + 9 * spread))
    masses, losses = binomial.pmf(sums, count, chance), 1e-3 * (low * count + sums)
    true = float(masses @ -np.expm1(np.minimum(epsilon - losses, 0.0)))
    assert law.delta(epsilon=epsilon, count=count) == pytest.approx(true, rel=1e-3, abs=1e-300)


def test_renyi_of_losses_that_are_not_of_two_index_sets() -> None:
    """No mirrored loss and no zCDP of the index mechanism are taken for granted: .1 stood for .735, 1e-6 for 7.5e-4."""
    chance = math.e / (1 + math.e)
    logs = np.full(21, -math.inf)
    logs[[0, -1]] = math.log(1 - chance), math.log(chance)
    response = LatticeLoss(spacing=0.1, low=-10, log_pmf=logs, top=10)
    exact = math.log(chance**2 / (1 - chance) + (1 - chance) ** 2 / chance)
    assert response.renyi(order=2.0) == pytest.approx(exact, rel=1e-12)
    for low in (-1, 0, 2):
        for spacing in (1e-6, 1e-3, 0.1):
            law = LatticeLoss(spacing=spacing, low=low, log_pmf=np.log([0.25, 0.75]), top=low + 1)
            exact = math.log1p(0.25 * math.expm1(spacing * low) + 0.75 * math.expm1(spacing * (low + 1)))
            assert law.renyi(order=2.0) == pytest.approx(max(exact, 0.0), rel=1e-9)
    sure = LatticeLoss(spacing=0.1, low=3, log_pmf=np.zeros(1), top=3)
    assert Fraction(sure.renyi(order=math.inf)) >= 3 * Fraction(0.1)


def test_losses_far_below_0() -> None:
    """Chernoff's epsilon is below 0: the search went on from there to an overflow, and the largest loss was no epsilon."""
    logs = np.full(1002, -math.inf)
    logs[[0, 1, -1]] = np.log([0.5, 0.5 - 1e-7, 1e-7])
    law = LatticeLoss(spacing=0.1, low=-1000, log_pmf=logs, top=1)
    assert all(law.epsilon(delta=delta, count=10**10) == 0.0 for delta in (1e-300, 1e-12, 0.5, 1 - 1e-12))
    below = LatticeLoss(spacing=0.1, low=-2, log_pmf=np.log([0.5, 0.5]), top=-1)
    assert below.epsilon(delta=0.0) == below.delta(epsilon=0.0) == 0.0
    assert below.renyi(order=2.0) == below.renyi(order=math.inf) == 0.0


@pytest.mark.parametrize("spacing", [1e-311, 1e-300, 1e14, 1e300])
def test_every_step_of_a_lattice(spacing: float) -> None:
    """Errors of arithmetic, a search without an end, and delta of 10^5 losses, from below."""
    law = LatticeLoss(spacing=spacing, low=-1, log_pmf=np.log([0.3, 0.3, 0.4]), top=1)
    mean, spread = 0.1 * 10**5, math.sqrt(0.69 * 10**5)
    true = float(spread / math.sqrt(2 * math.pi) + mean / 2) if spacing < 1 else 1.0  # at least, over the step
    assert law.delta(epsilon=0.0, count=10**5) >= min(spacing * true, 1.0) * (1 - 1e-12)
    found = law.epsilon(delta=1e-4, count=10**5)
    assert law.delta(epsilon=found, count=10**5) <= 1e-4


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (dict(spacing=-1.0), "spacing"),
        (dict(spacing=math.nan), "spacing"),
        (dict(log_omitted=0.1), "log_omitted"),
        (dict(log_omitted=math.nan), "log_omitted"),
        (dict(log_pmf=np.log([0.25, 0.7])), "log_pmf"),
        (dict(log_pmf=np.log([0.25, 0.76])), "log_pmf"),
        (dict(log_pmf=np.log([0.2, 0.6]), log_omitted=-3.0), "log_pmf"),
        (dict(log_pmf=np.array([0.0, math.nan])), "log_pmf"),
        (dict(log_pmf=np.zeros((1, 1))), "log_pmf"),
        (dict(log_pmf=np.array([])), "log_pmf"),
        (dict(top=0), "top"),
        (dict(low=2**53, top=2**53 + 1), "low"),
    ],
)
def test_no_law_of_a_loss(wrong: dict[str, Any], named: str) -> None:
    right: dict[str, Any] = dict(spacing=0.1, low=0, log_pmf=np.log([0.25, 0.75]), top=1)
    LatticeLoss(**right)
    with pytest.raises(ArgumentError) as error:
        LatticeLoss(**right | wrong)
    assert error.value.argument == named


def test_nearly_all_of_delta_is_asked() -> None:
    """The logarithm of delta is smaller than the rounding of 10^4 cumulants."""
    law = loss_law(mechanism=SubsetMallows(46, 16, theta=0.3))
    delta = 1 - 1e-12
    found = law.epsilon(delta=delta, count=10**4)
    assert law.delta(epsilon=found, count=10**4) <= delta < law.delta(epsilon=0.999 * found, count=10**4)


def test_a_wide_sum_near_its_largest() -> None:
    """The mean loss is .757 of the largest: epsilon lies there, not at the largest, to which the search doubled."""
    law = loss_law(mechanism=SubsetMallows(40, 30, theta=2.0))
    count = 10**11
    found = law.epsilon(delta=1e-5, count=count)
    assert law.delta(epsilon=found, count=count) <= 1e-5
    assert 0.75 < found / (law.spacing * law.top * count) < 0.76


@pytest.mark.parametrize("theta", [0.3, 40.0, 150.0, 250.0])
@pytest.mark.parametrize("order", [1 + 1e-9, 1 + 1e-7, 1.001, 2.0])
def test_renyi_near_order_one(theta: float, order: float) -> None:
    import mpmath

    with mpmath.workdps(300):
        up = mpmath.exp(2 * mpmath.mpf(theta))
        moment = (up**order + up ** (1 - mpmath.mpf(order))) / (1 + up)
        exact = float(mpmath.log(moment) / (mpmath.mpf(order) - 1))
    assert loss_law(mechanism=SubsetMallows(2, 1, theta=theta)).renyi(order=order) == pytest.approx(exact, rel=1e-7)


def test_ends_of_the_range() -> None:
    assert loss_law(mechanism=SubsetMallows(10, 3, theta=0.0)).delta(epsilon=0.0, count=10**9) == 0
    assert loss_law(mechanism=SubsetMallows(10, 3, theta=0.0)).epsilon(delta=1e-9, count=10**9) == 0
    assert loss_law(mechanism=SubsetMallows(10, 3, theta=0.0)).renyi(order=3.0) == 0
    never = loss_law(mechanism=SubsetMallows(10, 3, theta=math.inf))
    assert never.delta(epsilon=5.0) == 1 and never.epsilon(delta=0.1) == math.inf and never.renyi(order=2.0) == math.inf
    huge = loss_law(mechanism=SubsetMallows(10, 3, theta=400.0))
    assert huge.epsilon(delta=1e-5) == pytest.approx(2400, rel=1e-3)
    assert loss_law(mechanism=SubsetMallows(10, 3, theta=1.0)).renyi(order=math.inf) == 6.0
    assert (
        SubsetMallows(10, 3, theta=math.inf).zcdp(0) == 0 and SubsetMallows(10, 3, theta=math.inf).zcdp(2) == math.inf
    )
    assert privacy.epsilon_from_rdp(orders=[2.0, 3.0], rdp=[1.0, math.inf], delta=1e-5) == privacy.epsilon_from_rdp(
        orders=[2.0], rdp=[1.0], delta=1e-5
    )
    assert privacy.epsilon_from_rdp(orders=[3.0], rdp=[math.inf], delta=1e-5) == math.inf
    strong = theta_for_delta_budget(epsilon=1e5, delta=1e-5, dim=4, keep=2)
    assert strong >= 1e5 / 4 and loss_law(mechanism=SubsetMallows(4, 2, theta=strong)).delta(epsilon=1e5) <= 1e-5
    assert loss_law(mechanism=SubsetMallows(256, 26, theta=1e-11)).renyi(order=2.0) == pytest.approx(
        1.90539e-21, rel=1e-5
    )


def test_exact_is_the_best_accounting() -> None:
    small, zcdp = (  # a delta below what the sum leaves out
        theta_for_delta_budget(epsilon=1.0, delta=1e-100, dim=256, keep=26, steps=875, groups=10_547, method=method)
        for method in ("exact", "zcdp")
    )
    assert small >= zcdp
    for epsilon, steps in ((0.1, 1), (1.0, 30), (4.0, 3000)):
        basic, zcdp, exact = (
            theta_for_delta_budget(epsilon=epsilon, delta=1e-5, dim=256, keep=26, steps=steps, groups=10, method=m)
            for m in ("basic", "zcdp", "exact")
        )
        assert exact >= max(basic, zcdp) * (1 - 1e-6)
        law = loss_law(mechanism=SubsetMallows(256, 26, theta=exact))
        assert (
            law.delta(epsilon=epsilon, count=steps * 10) <= 1e-5 < law.delta(epsilon=epsilon * 0.9999, count=steps * 10)
        )


def test_composed_sums_to_one() -> None:
    _, log_pmf = composed(loss=loss_law(mechanism=SubsetMallows(256, 26, theta=1e-3)), count=10**5)
    assert np.exp(log_pmf).sum() == pytest.approx(1, abs=1e-9)


def test_zcdp_conversion_is_monotone_and_inverted() -> None:
    for delta in (1e-15, 1e-5, 0.3):
        values = [privacy.zcdp_epsilon(zcdp_rho=float(rho), delta=delta) for rho in np.logspace(-6, 3, 30)]
        assert (np.diff(values) >= 0).all()
        for epsilon in (1e-3, 1.0, 50.0):
            assert privacy.zcdp_epsilon(
                zcdp_rho=privacy.zcdp_budget(epsilon=epsilon, delta=delta), delta=delta
            ) == pytest.approx(epsilon, rel=1e-6)
    assert privacy.zcdp_epsilon(zcdp_rho=0.0, delta=1e-5) == 0
    assert 0 < privacy.zcdp_epsilon(zcdp_rho=1e-320, delta=5e-324) < 1e-150
    assert privacy.zcdp_budget(epsilon=1e-300, delta=1e-300) == 0  # underflows
    assert privacy.zcdp_epsilon(zcdp_rho=1e12, delta=math.nextafter(1.0, 0.0)) <= 1e12


def test_prv_accountant_agrees_with_the_exact_sum() -> None:
    accountant = pytest.importorskip("prv_accountant")
    model, releases = SubsetMallows(256, 26, theta=1e-4), 10**5
    variable = IndexPRV(mechanism=model, releases=releases)
    found = accountant.PRVAccountant(prvs=[variable], eps_error=0.02, delta_error=1e-8, max_self_compositions=[1])
    low, middle, high = found.compute_epsilon(1e-5, [1])
    exact = loss_law(mechanism=model).epsilon(delta=1e-5, count=releases)
    assert low - variable.error <= exact <= high
    assert exact <= middle + 1e-3 and middle - exact < variable.error + 1e-3


def test_prv_is_the_loss_moved_up() -> None:
    model = SubsetMallows(6, 3, theta=0.1)
    variable = IndexPRV(mechanism=model, releases=3)
    low, pmf = _direct(loss_law(mechanism=model), 3)
    assert variable.cdf(0.2 * (low + np.arange(pmf.size) + 1)) == pytest.approx(np.cumsum(pmf), abs=1e-12)
    assert variable.mean() == pytest.approx(0.2 * (pmf @ (low + np.arange(pmf.size))) + 0.1)
    t = np.linspace(-4, 4, 80_001)
    assert float(variable.pdf(t).sum() * (t[1] - t[0])) == pytest.approx(1, abs=1e-3)
    assert variable.probability(-9, 9) == pytest.approx(1) and variable.pm_inf == 0
    assert variable.rdp(2.0) == pytest.approx(3 * loss_law(mechanism=model).renyi(order=2.0) + 0.2)


@pytest.mark.parametrize("power", [0.75, 1.0, 1.25, 1.5, 2.0, 3.0])
def test_rounding_hardly_moves_the_largest_theta(power: float) -> None:
    """What the last digits decide, which differ between machines, is less than a billionth of the answer."""
    found = []
    for seed in range(20):
        last_digits = np.random.default_rng(seed)

        def spent(theta: float, digits: np.random.Generator = last_digits) -> float:
            return 1e4 * theta**power * (1.0 + 1e-13 * digits.uniform(-1.0, 1.0))

        found.append(largest_theta(spent, 1.0, 1e-9))
        assert spent(found[-1]) <= 1.0 + 2e-13
    assert max(found) <= min(found) * (1.0 + 1e-9)
    assert max(found) == pytest.approx(1e4 ** (-1 / power), rel=1e-9)


# Budgets of index sets: every documented argument ends, no answer is below basic composition, brackets are tight


PAPER: dict[str, Any] = {
    "dim": 256,
    "keep": 26,
    "sampling_rate": 4096 / 45_000,
    "noise_multiplier": 10.0,
    "steps": 875,
    "groups": 10_547,
}


def test_a_delta_that_covers_joining_affords_every_dispersion() -> None:
    assert (
        theta_for_joint_budget(epsilon=3.0, delta=1e-5, dim=20, keep=5, sampling_rate=0.0, noise_multiplier=1.0)
        == math.inf
    )
    assert (
        theta_for_joint_budget(
            epsilon=3.0, delta=1e-5, dim=20, keep=5, sampling_rate=1e-7, noise_multiplier=1.0, steps=99
        )
        == math.inf
    )
    assert (
        theta_for_joint_budget(
            epsilon=3.0, delta=1e-5, dim=20, keep=5, sampling_rate=1e-7, noise_multiplier=1.0, steps=101
        )
        < math.inf
    )
    sure = [IndexSteps(steps=99, mechanism=SubsetMallows(20, 5, theta=math.inf))]
    assert run_epsilon(releases=sure, sampling_rate=1e-7, noise_multiplier=1.0, delta=1e-5) == 0.0
    assert run_epsilon(releases=sure, sampling_rate=1e-3, noise_multiplier=1.0, delta=1e-5) == math.inf


def test_a_delta_below_what_doubles_hold() -> None:
    basic = pruning.theta_for_budget(epsilon=1.0, dim=20, keep=5, steps=2, groups=3)
    assert (
        privacy.index_sets.theta_for_delta_budget(epsilon=1.0, delta=1e-308, dim=20, keep=5, steps=2, groups=3) >= basic
    )
    assert (
        privacy.index_sets.retained_gain_for_delta_budget(epsilon=1.0, delta=1e-308, dim=20, keep=5, steps=2, groups=3)
        > 0
    )
    basic = pruning.theta_for_budget(epsilon=1.0, dim=20, keep=5)
    assert basic == math.nextafter(0.1, 0.0)  # the double .1 lies above a tenth
    assert privacy.index_sets.theta_for_delta_budget(epsilon=1.0, delta=5e-324, dim=20, keep=5) >= basic
    assert (
        theta_for_joint_budget(epsilon=1.0, delta=5e-324, dim=20, keep=5, sampling_rate=1.0, noise_multiplier=1e3) > 0
    )
    assert privacy.index_sets.theta_for_delta_budget(epsilon=1e-9, delta=math.nextafter(1.0, 0.0), dim=2, keep=1) > 1
    assert privacy.index_sets.theta_for_delta_budget(epsilon=5e-324, delta=1e-5, dim=256, keep=26) > 1e-7


@pytest.mark.parametrize("exponent", [9, 10, 11, 12])
def test_very_many_releases(exponent: int) -> None:
    count = 10**exponent
    found = privacy.index_sets.theta_for_delta_budget(epsilon=1.0, delta=1e-5, dim=256, keep=26, steps=count)
    reference = privacy.index_sets.theta_for_delta_budget(
        epsilon=1.0, delta=1e-5, dim=256, keep=26, steps=10**7
    )  # by the Fourier transform
    assert found * math.sqrt(count) == pytest.approx(reference * math.sqrt(1e7), rel=1e-4)
    law = privacy.index_sets.loss_law(mechanism=SubsetMallows(256, 26, theta=found))
    assert law.delta(epsilon=1.0, count=count) <= 1e-5 and law.epsilon(delta=1e-5, count=count) == pytest.approx(
        1.0, rel=1e-5
    )


@pytest.mark.parametrize(
    ("dim", "theta", "releases", "place"),
    [(10**5, 1.0, 20_000, 12.5), (10**5, 1.0, 20_000, 15.5), (10**6, 0.1, 480_000, 11.5)],
)
def test_few_rare_losses_of_many_releases(dim: int, theta: float, releases: int, place: float) -> None:
    """One kept of many: losses are 2 theta, or -2 theta, in one or two releases on average; by the trinomial law."""
    with mpmath.workdps(50):
        odds = mpmath.e ** (2 * mpmath.mpf(theta))
        up, down = odds / (odds + dim - 1), 1 / (odds + dim - 1)
        delta = mpmath.fsum(
            mpmath.binomial(releases, p)
            * mpmath.binomial(releases - p, m)
            * up**p
            * down**m
            * (1 - up - down) ** (releases - p - m)
            * (1 - odds ** (mpmath.mpf(place) - (p - m)))
            for m in range(40)
            for p in range(math.ceil(place) + m, 80)
        )
    part = IndexSteps(steps=releases, mechanism=SubsetMallows(dim, 1, theta=theta))
    found = privacy.Composition([part]).delta(place * 2 * theta)
    assert found.lower <= delta <= found.upper < 1.3 * found.lower


@pytest.mark.parametrize("epsilon", [1.0, 0.0199, 0.0195, 0.019, 0.01, 1e-4, 1e-9])
def test_small_joint_budgets_do_not_collapse(epsilon: float) -> None:
    theta = theta_for_joint_budget(
        epsilon=epsilon,
        delta=1e-5,
        dim=256,
        keep=26,
        sampling_rate=1.0,
        noise_multiplier=math.inf,
        steps=10,
        groups=100,
    )
    assert theta >= pruning.theta_for_budget(epsilon=epsilon, dim=256, keep=26, steps=10, groups=100)
    assert privacy.index_sets.loss_law(mechanism=SubsetMallows(256, 26, theta=theta)).epsilon(
        delta=1e-5, count=1000
    ) <= epsilon * (1 + 1e-6)
    assert theta >= (1 - 1e-5) * privacy.index_sets.theta_for_delta_budget(
        epsilon=epsilon, delta=1e-5, dim=256, keep=26, steps=10, groups=100
    )


def test_joint_budgets_of_the_paper() -> None:
    with refused("epsilon", "1.0133"):
        theta_for_joint_budget(epsilon=1.01, delta=1e-5, **PAPER)
    thetas = [theta_for_joint_budget(epsilon=epsilon, delta=1e-5, **PAPER) for epsilon in (1.02, 1.05, 1.12)]
    assert thetas == sorted(thetas) and thetas[0] > 5e-8 and thetas[2] > 3e-5
    for epsilon, theta in zip((1.02, 1.05, 1.12), thetas, strict=True):
        run = [IndexSteps(steps=875, mechanism=SubsetMallows(256, 26, theta=theta), groups=10_547)]
        spent = run_epsilon(releases=run, sampling_rate=PAPER["sampling_rate"], noise_multiplier=10.0, delta=1e-5)
        assert spent == pytest.approx(
            epsilon, rel=0.004
        )  # run_epsilon accounts for the index sets by zCDP, theta exactly


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "most"),
    [(10.0, 4096 / 45_000, 875, 1.0238), (1.0, 0.02, 1000, 3.911), (0.6, 0.01, 2000, 9.985), (1.0, 0.005, 1, 0.0835)],
)
def test_weak_index_sets_cost_what_the_values_cost(sigma: float, rate: float, steps: int, most: float) -> None:
    theta = 0.01 / (steps * 10_547 * 52) if steps == 875 else 1e-12
    run = [IndexSteps(steps=steps, mechanism=SubsetMallows(256, 26, theta=theta), groups=10_547)]
    found = run_epsilon(releases=run, sampling_rate=rate, noise_multiplier=sigma, delta=1e-5)
    values = privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=1e-5)
    assert values.lower <= found <= most


def test_dispersions_that_change() -> None:
    models = [SubsetMallows(256, keep, theta=1e-6) for keep in (200, 100, 26)]
    parts = [IndexSteps(steps=100, mechanism=model, groups=50) for model in models]
    epsilons = [p.epsilon for p in parts]
    assert epsilons == pytest.approx([100 * 50 * 1e-6 * s for s in (112, 200, 52)])
    assert [p.zcdp_rho for p in parts] == pytest.approx([e * 1e-6 for e in epsilons])
    split = run_epsilon(releases=[*parts, *parts], sampling_rate=0.1, noise_multiplier=4.0, delta=1e-5)
    whole = run_epsilon(
        releases=[IndexSteps(steps=200, mechanism=model, groups=50) for model in models],
        sampling_rate=0.1,
        noise_multiplier=4.0,
        delta=1e-5,
    )
    assert split == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("sigma", [1e-3, 0.05, 0.2, 50.0, 2000.0, math.inf])
@pytest.mark.parametrize("steps", [1, 1000, 10**8])
def test_values_have_an_epsilon_at_every_noise(sigma: float, steps: int) -> None:
    found = privacy.index_sets.values_epsilon(delta=1e-5, sampling_rate=0.01, noise_multiplier=sigma, steps=steps)
    shift = math.sqrt(steps) / sigma
    assert 0 <= found <= privacy.gaussian_epsilon(shift, 1e-5)


def test_the_gain_of_a_dispersion_and_back() -> None:
    for dim, keep in ((2, 1), (256, 26), (10**6, 10**5)):
        for gain in (1e-12, 0.3, 0.9):
            theta = pruning.theta_for_retained_gain(retained_gain=gain, dim=dim, keep=keep)
            assert SubsetMallows(dim, keep, theta=theta).retained_gain() == pytest.approx(gain, rel=1e-9)
    assert pruning.theta_for_retained_gain(retained_gain=0.0, dim=4, keep=2) == 0.0
    assert pruning.theta_for_retained_gain(retained_gain=1.0, dim=4, keep=2) == math.inf
    assert 0 <= pruning.theta_for_retained_gain(retained_gain=5e-324, dim=256, keep=26) < 1e-300
    theta = privacy.index_sets.theta_for_delta_budget(epsilon=1.0, delta=1e-5, dim=256, keep=26, steps=875, groups=100)
    gain = SubsetMallows(256, 26, theta=theta).retained_gain()
    assert privacy.index_sets.epsilon_for_retained_gain(
        retained_gain=gain, delta=1e-5, dim=256, keep=26, steps=875, groups=100
    ) == pytest.approx(1.0, rel=1e-5)
    assert privacy.index_sets.epsilon_for_retained_gain(retained_gain=0.0, delta=1e-5, dim=256, keep=26) == 0.0
    assert privacy.index_sets.epsilon_for_retained_gain(retained_gain=1.0, delta=1e-5, dim=256, keep=26) == math.inf


RUNS = [(1.0, 0.02, 1000, 1e-5), (10.0, 0.01, 1000, 1e-5), (4.0, 0.1, 300, 1e-7)]


@pytest.mark.parametrize("run", RUNS)
def test_brackets_are_as_tight_as_promised(run: tuple[float, float, int, float]) -> None:
    *asked, delta = run
    found = privacy.epsilon_bounds(**by_name("noise_multiplier sampling_rate steps delta", run))  # type: ignore[arg-type]
    width = 1e-6 * max(1.0, found.estimate)
    low, high = found.lower - width, found.upper + width  # the inversion here is the less exact of the two
    assert section4.worst_delta(*asked, low) >= delta >= section4.worst_delta(*asked, high)  # type: ignore[arg-type]
    assert found.upper - found.lower <= width
    assert found.estimate == pytest.approx((found.lower + found.upper) / 2, rel=1e-12) and found.method == "saddle line"
    both = references.cross_check(**by_name("noise_multiplier sampling_rate steps delta", run), width=1e-3)  # type: ignore[arg-type]
    for low, high in (both.prv, both.pld):
        assert section4.worst_delta(*asked, low) >= delta >= section4.worst_delta(*asked, high)  # type: ignore[arg-type]
    assert both.prv[1] - both.prv[0] <= 1.3e-3 * max(1.0, found.estimate)
    assert both.pld[1] <= found.upper * 1.005 and both.pld[0] >= 0.7 * found.lower  # its lower bound is a coarse one
    assert both.rdp == privacy.rdp_epsilon(**by_name("noise_multiplier sampling_rate steps delta", run))  # type: ignore[arg-type]


@pytest.mark.parametrize("run", [(1.0, 0.02, 1000, 1e-5), (4.0, 0.1, 300, 1e-7), (10.0, 4096 / 45_000, 875, 1e-5)])
def test_renyi_epsilon_is_that_of_the_best_whole_order(run: tuple[float, float, int, float]) -> None:
    sigma, rate, steps, delta = run
    orders = range(2, 64)
    curve = steps * privacy.subsampled_gaussian_rdp(orders=orders, sampling_rate=rate, noise_multiplier=sigma)
    found = privacy.rdp_epsilon(**by_name("noise_multiplier sampling_rate steps delta", run))
    assert 0.995 * privacy.epsilon_from_rdp(orders=list(orders), rdp=curve, delta=delta) <= found
    assert found <= privacy.epsilon_from_rdp(orders=list(orders), rdp=curve, delta=delta) * (1 + 1e-9)


@pytest.mark.parametrize(("hits_with", "hits_without"), [(1000, 0), (900, 100), (700, 300)])
@pytest.mark.parametrize("method", privacy.auditing.AUDIT_METHODS)
def test_every_number_of_an_audit(hits_with: int, hits_without: int, method: str) -> None:
    first, second = (np.where(np.arange(1000) < hits, 1.0, 0.0) for hits in (hits_with, hits_without))
    found = privacy.auditing.audit(scores_with=first, scores_without=second, delta=1e-5, confidence=0.98, method=method)
    level = 0.75 * 0.02 / 4
    low = float(beta_law.ppf(level, hits_with, 1000 - hits_with + 1))
    high = float(beta_law.isf(level, hits_without + 1, 1000 - hits_without))
    assert found.likelier_rate == pytest.approx(low, rel=1e-9) and found.other_rate == pytest.approx(high, rel=1e-9)
    assert (found.event, found.likelier, found.threshold) in {("above", "with", 0.5), ("below", "without", 0.5)}
    assert (found.method, found.confidence, found.trials) == (method, 0.98, (1000, 1000))
    if method == "events":
        assert found.epsilon_lower == pytest.approx(math.log((low - 1e-5) / high), rel=1e-9)
    else:
        from statistics import NormalDist

        mu = NormalDist().inv_cdf(low) - NormalDist().inv_cdf(high)
        assert found.epsilon_lower == pytest.approx(privacy.gaussian_epsilon(mu, 1e-5), rel=1e-7)


def test_the_largest_bound_of_an_audit_takes_no_memory() -> None:
    for method in privacy.auditing.AUDIT_METHODS:
        perfect = privacy.auditing.audit(
            scores_with=np.ones(101), scores_without=np.zeros(101), delta=1e-5, method=method
        ).epsilon_lower
        assert privacy.auditing.largest_bound(scores=101, delta=1e-5, method=method) == perfect
        assert privacy.auditing.largest_bound(scores=2**31, delta=1e-5, method=method) < math.inf
    assert privacy.auditing.largest_bound(scores=2**31, delta=1e-5) == pytest.approx(
        math.log(2**31 / -math.log(0.75 * 0.01 / 4)), rel=1e-4
    )


def test_index_prv_numbers() -> None:
    variable = IndexPRV(mechanism=SubsetMallows(6, 3, theta=0.1), releases=7)
    assert (variable.error, variable.releases, variable.pm_inf) == (0.2, 7, 0.0)


def test_size_of_the_batch_alone() -> None:
    laws = [[math.comb(n, b) / 2**n for b in range(12)] for n in (11, 10)]
    both = (sum(max(p - math.e * q, 0.0) for p, q in zip(*pair, strict=True)) for pair in (laws, laws[::-1]))
    assert sparsification.published_size_delta(
        epsilon=1.0, train_size=10, sampling_rate=0.5, shift=0.0
    ) == pytest.approx(max(both), rel=1e-12)


def test_masks_of_nearly_all_and_of_nothing() -> None:
    assert (
        sparsification.sparse_captured_energy(keep_share=0.999999999999, snr=0.0, nonzero_share=0.1) == 0.999999999999
    )
    assert sparsification.sparse_captured_energy(keep_share=5e-324, snr=0.0, nonzero_share=0.1) == 5e-324
    for share in (1e-300, 1e-9, 0.5, math.nextafter(0.5, 1), 1 - 1e-12):
        found = sparsification.sparse_captured_energy(keep_share=share, snr=0.5, nonzero_share=0.01)
        assert share <= found <= 1
    # the two forms of the threshold meet
    low, high = (
        sparsification.sparse_captured_energy(keep_share=x, snr=0.5, nonzero_share=0.1)
        for x in (0.5, math.nextafter(0.5, 1))
    )
    assert low == pytest.approx(high, rel=1e-12)


# --- One index budget under each accounting: each part against the calculator that the ledger checks ---


_SAMPLE = {"sampling_rate": 1.0, "noise_multiplier": 4.0}
_HALF = {"sampling_rate": 0.5, "noise_multiplier": 4.0}


@functools.cache  # mutants of the comparison ask for the same again
def _expected(dim: int, keep: int, steps: int, groups: int, sampling_rate: float | None) -> IndexAccountings:
    run = {"dim": dim, "keep": keep, "steps": steps, "groups": groups}

    def choice(theta: float) -> IndexChoice:
        return IndexChoice(theta=theta, retained_gain=pruning.SubsetMallows(dim, keep, theta=theta).retained_gain())

    thetas = {
        method: privacy.index_sets.theta_for_delta_budget(epsilon=1.0, delta=1e-5, **run, method=method)  # type: ignore[arg-type]
        for method in ("basic", "zcdp", "exact")
    }
    assert thetas["basic"] <= thetas["exact"] and thetas["zcdp"] <= thetas["exact"]
    alone = joint = None
    if sampling_rate is not None:
        sample = {"sampling_rate": sampling_rate, "noise_multiplier": 4.0}
        rdp = steps * privacy.subsampled_gaussian_rdp(orders=privacy.ORDERS, **sample)
        alone = privacy.epsilon_from_rdp(orders=privacy.ORDERS, rdp=rdp, delta=1e-5)
        joint = choice(privacy.index_sets.theta_for_joint_budget(epsilon=alone + 1.0, delta=1e-5, **run, **sample))  # type: ignore[arg-type]
    return IndexAccountings(
        basic=choice(thetas["basic"]),
        zcdp=choice(thetas["zcdp"]),
        exact=choice(thetas["exact"]),
        joint=joint,
        values_epsilon=alone,
        least_retained_gain=pruning.least_retained_gain(dim, keep, groups=groups),
    )


@pytest.mark.parametrize(
    ("dim", "keep", "steps", "groups", "sample"),
    [(8, 3, 1, 1, {}), (8, 3, 2, 3, _SAMPLE), (8, 3, 1, 2, _HALF), (20_000, 2, 2, 3, _SAMPLE)],
)
def test_every_field(dim: int, keep: int, steps: int, groups: int, sample: dict[str, float]) -> None:
    run = {"dim": dim, "keep": keep, "steps": steps, "groups": groups}
    found = compare_index_accountings(epsilon=1.0, delta=1e-5, **run, **sample)  # type: ignore[arg-type]
    assert found == _expected(*run.values(), sample.get("sampling_rate"))  # type: ignore[arg-type]


def test_steps_and_groups_are_one_where_not_given() -> None:
    run = {"epsilon": 1.0, "delta": 1e-5, "dim": 8, "keep": 3}
    assert compare_index_accountings(**run) == compare_index_accountings(**run, steps=1, groups=1)  # type: ignore[arg-type]


# --- Index and values of one sample, and fresh masks, against dp-accounting and limits ---


ORDERS = [2, 3, 8, 64]


@pytest.mark.parametrize(("rate", "sigma"), [(0.01, 1.0), (1.0, 2.0), (0.3, 0.5), (1e-4, 20.0), (0.0, 1.0)])
def test_values_against_dp_accounting(rate: float, sigma: float) -> None:
    dp_accounting = pytest.importorskip("dp_accounting")
    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma)), 100
    )
    theirs = dp_accounting.rdp.RdpAccountant(privacy.ORDERS).compose(event).get_epsilon(1e-5)
    curve = subsampled_gaussian_rdp(orders=privacy.ORDERS, sampling_rate=rate, noise_multiplier=sigma)
    assert privacy.epsilon_from_rdp(orders=privacy.ORDERS, rdp=100 * curve, delta=1e-5) == pytest.approx(
        theirs, rel=1e-6, abs=1e-9
    )


def test_limits_of_the_joint_curve() -> None:
    model = SubsetMallows(40, 10, theta=0.01)
    values = subsampled_gaussian_rdp(orders=ORDERS, sampling_rate=0.1, noise_multiplier=2.0)
    assert joint_rdp(
        orders=ORDERS, sampling_rate=0.1, noise_multiplier=2.0, mechanism=SubsetMallows(40, 10, theta=0.0), groups=7
    ) == pytest.approx(values)
    assert (
        joint_rdp(orders=ORDERS, sampling_rate=0.1, noise_multiplier=2.0, mechanism=model, groups=7)
        <= values + 7 * model.epsilon(20)
    ).all()
    assert joint_rdp(orders=ORDERS, sampling_rate=1.0, noise_multiplier=2.0, mechanism=model) == pytest.approx(
        [a / 8 + _index(model, a) for a in ORDERS], rel=1e-12
    )
    small = joint_rdp(orders=[2], sampling_rate=1e-9, noise_multiplier=math.inf, mechanism=model)[0]
    assert small == pytest.approx(1e-18 * math.expm1(_index(model, 2)), rel=1e-9)  # no cancellation
    assert joint_rdp(orders=[2], sampling_rate=0.5, noise_multiplier=1e-3, mechanism=model)[0] > 1e5
    assert np.isinf(subsampled_gaussian_rdp(orders=[9000], sampling_rate=0.5, noise_multiplier=1e-160)).all()
    # moments that overflow, with weights of 0
    assert np.isinf(subsampled_gaussian_rdp(orders=[2, 9000], sampling_rate=1.0, noise_multiplier=1e-160)).all()
    assert (subsampled_gaussian_rdp(orders=[2, 9000], sampling_rate=0.0, noise_multiplier=1e-160) == 0).all()
    unmasked = SubsetMallows(4, 2, theta=math.inf)
    assert (
        np.isinf(joint_rdp(orders=[2, 5], sampling_rate=1.0, noise_multiplier=1.0, mechanism=unmasked)).all()
        and (joint_rdp(orders=[2, 5], sampling_rate=0.0, noise_multiplier=1.0, mechanism=unmasked) == 0).all()
    )


def _index(model: SubsetMallows, order: int) -> float:
    from dptheory.privacy.index_sets import loss_law

    return loss_law(mechanism=model).renyi(order=order)


def test_fresh_mask_limits() -> None:
    base = subsampled_gaussian_rdp(orders=ORDERS, sampling_rate=0.2, noise_multiplier=1.0)
    assert FreshMask(dim=10, keep=10).rdp(orders=ORDERS, sampling_rate=0.2, noise_multiplier=1.0) == pytest.approx(base)
    assert FreshMask(dim=10, keep=0).rdp(orders=ORDERS, sampling_rate=0.2, noise_multiplier=1.0) == pytest.approx(
        0 * base
    )
    assert FreshMask(dim=100, keep=10).rdp(
        orders=ORDERS, sampling_rate=0.2, noise_multiplier=1.0, steps=7
    ) == pytest.approx(7 * FreshMask(dim=10, keep=1).rdp(orders=ORDERS, sampling_rate=0.2, noise_multiplier=1.0))
    assert (FreshMask(dim=10, keep=3).rdp(orders=ORDERS, sampling_rate=0.2, noise_multiplier=1.0) <= base).all()
    strong = FreshMask(dim=10, keep=1).rdp(orders=[64], sampling_rate=1.0, noise_multiplier=0.05)[0]
    assert strong == pytest.approx(64 / 2 / 0.05**2 + math.log(0.1) / 63)
    thin = FreshMask(dim=10**9, keep=1).rdp(orders=[2], sampling_rate=1.0, noise_multiplier=1.0)[0]
    assert thin == pytest.approx(math.log1p(1e-9 * math.expm1(1.0)), rel=1e-12)  # no cancellation
    tiny = FreshMask(dim=10, keep=1).rdp(orders=[2], sampling_rate=1e-9, noise_multiplier=1.0)[0]
    assert tiny == pytest.approx(0.1 * 1e-18 * math.expm1(1.0), rel=1e-9)
    assert [name for name in vars(FreshMask) if not name.startswith("_")] == ["rdp"]


# --- Groups of any size: the bracket of moments on a contour ---------------------------------------------------------------


def _spread(model: SubsetMallows, count: int) -> float:
    """Standard deviation of the sum of the losses, about."""
    share = model.keep / model.dim
    return 2 * model.theta * math.sqrt(2 * count * model.max_swaps * share * (1 - share))


@pytest.mark.parametrize(
    ("dim", "keep", "theta", "count"),
    [
        (10, 5, 0.3, 3),
        (10, 8, 0.3, 30),
        (100, 50, 0.1, 1),
        (1000, 499, 0.05, 1),
        (1000, 499, 2.0, 4),
        (10**5, 10, 0.5, 7),
        (10**5, 10**4, 0.004, 1000),
        (10**6, 5 * 10**5, 1e-3, 1),
        (10**7, 10**4, 0.05, 20),
    ],
)
def test_a_contour_brackets_the_exact_law(dim: int, keep: int, theta: float, count: int) -> None:
    model = SubsetMallows(dim, keep, theta=theta)
    table, contour = loss_law(mechanism=model), ContourLoss(model)
    rounding = 1e-12 + 1e-15 * count  # of the table
    scale = _spread(model, count)
    for epsilon in (0.0, 0.1 * scale, scale * (1 + scale / 2), scale * (4 + scale / 2), scale * (8 + scale / 2)):
        lower, upper = contour.delta_bounds(epsilon=epsilon, count=count)
        least, most = _lattice_loss.table_bounds(table, epsilon=epsilon, count=count)
        exact = (least + most) / 2 if most < 1 else most
        assert lower <= exact * (1 + rounding) and exact * (1 - rounding) <= upper
        assert upper - lower <= (2e-10 + 1e-12 * count) * upper
    for delta in (1e-3, 1e-9):
        lower, upper = contour.epsilon_bounds(delta=delta, count=count)
        assert upper - lower <= 1e-8 * upper
        assert contour.delta_bounds(epsilon=upper, count=count)[1] <= delta
        assert lower == 0 or contour.delta_bounds(epsilon=lower, count=count)[0] >= delta
        exact = table.epsilon(delta=delta, count=count)
        assert lower * (1 - 1e-9) <= exact <= upper * (1 + 1e-8)


def _enumerated(model: SubsetMallows, count: int, epsilon: float) -> mpmath.mpf:
    """delta by the counts X and Y of the statement of gip.tight, in whole numbers but for e^(2 theta), 60 digits."""
    with mpmath.workdps(60):
        weight, m = mpmath.exp(2 * mpmath.mpf(model.theta)), model.max_swaps
        single: dict[int, mpmath.mpf] = {}
        for x in range(m + 1):
            for y in range(m + 1):
                rest = model.keep - x - y
                for w in range(max(0, rest - (model.dim - model.keep - m)), min(model.keep - m, rest) + 1):
                    ways = math.comb(m, x) * math.comb(m, y) * math.comb(model.keep - m, w)
                    ways *= math.comb(model.dim - model.keep - m, rest - w)
                    single[x - y] = single.get(x - y, mpmath.mpf(0)) + ways * weight ** (x + w)
        whole = mpmath.fsum(single.values())
        total = {0: mpmath.mpf(1)}
        for _ in range(count):
            grown: dict[int, mpmath.mpf] = {}
            for i, p in total.items():
                for j, q in single.items():
                    grown[i + j] = grown.get(i + j, mpmath.mpf(0)) + p * q / whole
            total = grown
        losses = {2 * mpmath.mpf(model.theta) * j: p for j, p in total.items()}
        return mpmath.fsum(p * (1 - mpmath.exp(epsilon - loss)) for loss, p in losses.items() if loss > epsilon)


@pytest.mark.parametrize(
    ("dim", "keep", "theta", "count"),
    [
        (2, 1, 0.4, 1),
        (2, 1, 0.4, 9),
        (3, 2, 1.5, 5),
        (7, 3, 0.2, 2),
        (8, 4, 0.2, 4),
        (12, 6, 0.05, 3),
        (12, 9, 3.0, 2),
        (10**12, 6, 13.0, 1),  # large groups of which next to nothing, or next to all, is kept
        (10**12, 6, 13.0, 3),
        (10**12, 5, 0.5, 2),
        (10**12 - 3, 10**12 - 9, 14.5, 2),
    ],
)
def test_a_contour_against_whole_numbers(dim: int, keep: int, theta: float, count: int) -> None:
    """No slack: the exact value itself lies between."""
    model = SubsetMallows(dim, keep, theta=theta)
    for share in (0.0, 0.11, 0.37, 0.5, 0.8, 0.97):
        epsilon = share * count * model.epsilon(2 * model.max_swaps)
        exact = _enumerated(model, count, epsilon)
        lower, upper = ContourLoss(model).delta_bounds(epsilon=epsilon, count=count)
        assert lower <= exact <= upper
        assert upper - lower <= 1e-10 * upper or exact < 1e-60
    assert ContourLoss(model).delta_bounds(epsilon=_largest(ContourLoss(model), count), count=count) == (0, 0)


@pytest.mark.parametrize(("nats", "wanted"), [(75.0, 2.0), (6.0, 35.0), (10.0, 5.0)])
@pytest.mark.parametrize(
    ("dim", "keep", "theta", "count"), [(8, 4, 0.2, 4), (12, 9, 3.0, 2), (300, 150, 0.05, 1), (300, 147, 0.1, 3)]
)
def test_fewer_nodes_cost_width_alone(
    dim: int, keep: int, theta: float, count: int, nats: float, wanted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What rules leave out and add is counted: so little as to be invisible, unless they are made rough."""
    model = SubsetMallows(dim, keep, theta=theta)
    table = loss_law(mechanism=model)
    caches = (_index_law._tilted, _index_law._log_moment)
    with monkeypatch.context() as rough:
        rough.setattr(_index_law, "_NATS", nats)
        rough.setattr(_lattice_loss, "_WANTED", wanted)
        for cache in caches:
            cache.cache_clear()
        for share in (0.01, 0.05, 0.1, 0.2, 0.4):
            epsilon = share * count * model.epsilon(2 * model.max_swaps)
            exact = table.delta(epsilon=epsilon, count=count)
            lower, upper = ContourLoss(model).delta_bounds(epsilon=epsilon, count=count)
            assert lower <= exact * (1 + 2e-12) and exact * (1 - 2e-12) <= upper
            assert upper - lower > 1e-9 * exact
    for cache in caches:
        cache.cache_clear()


def test_left_out_nodes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    model, windows = SubsetMallows(300, 147, theta=0.1), _index_law._Tilted.windows
    exact = loss_law(mechanism=model).delta(epsilon=3.0, count=3)
    monkeypatch.setattr(
        _index_law._Tilted, "windows", lambda at, size, count, nats: windows(at, size, count, nats / 20)
    )
    lower, upper = ContourLoss(model).delta_bounds(epsilon=3.0, count=3)
    assert abs((lower + upper) / 2 - exact) > 1e-5 * exact  # what is left out can be seen
    assert lower <= exact <= upper


@pytest.mark.parametrize("tilt", [0.05, 0.4, 1.0])
def test_what_the_rule_for_a_run_adds_is_within_its_bound(tilt: float) -> None:
    """Step 13: too few nodes, so that other losses are taken for those asked for."""
    model, count, epsilon, size = SubsetMallows(300, 147, theta=0.1), 3, 3.0, 16
    losses = _lattice_loss.Losses(0.2, 16, 0.2, count)
    low, log_pmf = composed(loss=loss_law(mechanism=model), count=count)
    place = low + np.arange(log_pmf.size)
    found, log_bound = losses._size(ContourLoss(model), _index_law._tilted(model, tilt), 1e5)
    assert found == size

    def shifted(times: int) -> float:
        over = np.maximum(-np.expm1(np.minimum(epsilon - 0.2 * (place - times * size), 0.0)), 0.0)
        return float(np.exp(log_pmf + tilt * times * size) @ over)

    added = sum(shifted(times) for times in range(-30, 31) if times)
    assert 0 < added <= math.exp(log_bound)
    assert tilt < 1 or shifted(1) > math.exp(-tilt * size) / -math.expm1(-tilt * size)  # that of larger losses is seen


@pytest.mark.parametrize("share", [1e-4, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("tilt", [1e-7, 3e-6])
def test_rounding_of_a_large_group_is_within_its_bound(share: float, tilt: float) -> None:
    """Step 11's sum over omega in 50 digits, at users' sizes."""
    dim = 10**12
    model = SubsetMallows(dim, round(dim * share), theta=1e-6)
    at = _index_law._tilted(model, tilt)
    psi = 2.0 / math.sqrt(at.variance)
    logs, errors = at.log_ratios(np.array([0.0, psi]), 0)
    with mpmath.workdps(50):
        r = mpmath.exp(mpmath.mpf(_index_law._log_radius(model, tilt)))
        low, step = mpmath.exp(-mpmath.mpf(tilt)), mpmath.exp(-2 * mpmath.mpf(model.theta))
        odds = (step * low / r, low * r, r)
        m = model.max_swaps
        width = 14 / mpmath.sqrt(sum(at.variances))
        nodes = [width * k / 60 for k in range(-70, 71)]

        def mean(angle: float) -> mpmath.mpc:
            total = mpmath.mpc(0)
            for omega in nodes:
                log = 1j * angle * m
                for size, odd, phase in zip(at.sizes, odds, (-angle - omega, omega - angle, omega), strict=True):
                    log += size * mpmath.log((1 + odd * mpmath.expj(phase)) / (1 + odd))
                total += mpmath.exp(log)
            return total

        exact = mpmath.log(mpmath.fabs(mean(mpmath.mpf(psi)) / mean(mpmath.mpf(0))))
    assert logs[0] == pytest.approx(0, abs=1e-15)
    assert exact < -1  # far from 0, where all is near 1
    assert abs(logs[1].real - float(exact)) <= errors[1] <= 1e-12


def _of_two(theta: float, count: int, epsilon: float) -> mpmath.mpf:
    """delta of one kept of two: the sum of losses is 2 theta (2 X - count), X binomial."""
    with mpmath.workdps(45):
        step, epsilon = 2 * mpmath.mpf(theta), mpmath.mpf(epsilon)
        odds = mpmath.exp(step)
        wins = max((int(mpmath.floor(epsilon / step)) + count + 2) // 2, 0)
        logs = mpmath.loggamma(count + 1) - mpmath.loggamma(wins + 1) - mpmath.loggamma(count - wins + 1)
        chance = mpmath.exp(logs + wins * step - count * mpmath.log1p(odds))
        mean, total = count * odds / (1 + odds), mpmath.mpf(0)
        while wins <= count and (wins <= mean or chance > mpmath.mpf(10) ** -32 * total):
            total += chance * (1 - mpmath.exp(epsilon - step * (2 * wins - count)))
            chance *= odds * (count - wins) / (wins + 1)
            wins += 1
        return total


def test_many_releases_of_few_entries() -> None:
    """A mean that is wrong by 1 a release is no place to look for a tilt."""
    loss, count = ContourLoss(SubsetMallows(2, 1, theta=0.5)), 10**5
    lower, upper = loss.epsilon_bounds(delta=1e-5, count=count)
    assert _of_two(0.5, count, upper) <= 1e-5 <= _of_two(0.5, count, lower)
    assert 0 < upper - lower <= 1e-9 * upper
    found = privacy.Composition([IndexSteps(steps=10**6, mechanism=SubsetMallows(2, 1, theta=1.0))]).delta(1.53e6)
    assert found.lower <= _of_two(1.0, 10**6, 1.53e6) <= found.upper <= (1 + 1e-6) * found.lower


def test_the_largest_loss_is_never_rounded_down() -> None:
    """Twice 17.9792 times 24999 lies between two numbers: at the lower one delta is not 0."""
    model, count = SubsetMallows(2, 1, theta=17.9792), 24_999
    below = 2 * 17.9792 * count
    truth = _of_two(17.9792, count, below)
    assert Fraction(below) < 2 * Fraction(17.9792) * count and 5e-11 < truth < 6e-11
    run = privacy.Composition([IndexSteps(steps=count, mechanism=model)])
    assert run.delta(below).upper >= truth
    assert run.epsilon(1e-20).upper > below
    for loss in (ContourLoss(model), loss_law(mechanism=model)):
        assert loss.delta(epsilon=below, count=count) >= truth * (1 - 1e-10)
        assert loss.epsilon(delta=1e-20, count=count) > below
        assert loss.delta(epsilon=math.nextafter(below, math.inf), count=count) == 0
    assert (
        privacy.index_sets.run_epsilon(
            releases=[IndexSteps(steps=count, mechanism=model)],
            sampling_rate=1.0,
            noise_multiplier=math.inf,
            delta=1e-20,
        )
        > below
    )


def test_no_node_is_counted_twice() -> None:
    """The arcs from 0 and from pi on leave 18 nodes between them, and are rounded up by 6 to 8."""
    at = _index_law._tilted(SubsetMallows(36, 18, theta=0.06511675600974041), 0.4)
    for size in range(16, 120, 2):
        first, last, log_omitted = at.windows(size, 8, 38.0)
        assert first + last <= size // 2 + 1
        assert first + last < size // 2 + 1 or log_omitted == -math.inf


@pytest.mark.parametrize("moved", [-0.7, 0.7])
def test_an_error_of_many_moments_is_no_small_number(moved: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """All moments err by as much as they are said to, a run's by e^.7."""
    model, count = SubsetMallows(12, 6, theta=0.05), 30
    exact = sum(_lattice_loss.table_bounds(loss_law(mechanism=model), epsilon=2.0, count=count)) / 2
    right = _index_law._log_moment

    def wrong(mechanism: SubsetMallows, tilt: float) -> tuple[float, float]:
        found, error = right(mechanism, tilt)
        return found - moved / count, error + abs(moved) / count

    monkeypatch.setattr(_index_law, "_log_moment", wrong)
    lower, upper = ContourLoss(model).delta_bounds(epsilon=2.0, count=count)
    assert 0 < lower <= exact * (1 + 1e-11) and exact * (1 - 1e-11) <= upper


def test_a_delta_below_all_doubles_is_not_0() -> None:
    model, count = SubsetMallows(262, 1, theta=1e-6), 1209
    index = IndexSteps(steps=count, mechanism=model)
    run = privacy.Composition([index])
    assert run.delta(0.99 * count * 2e-6).upper == 5e-324
    assert run.delta(count * 2e-6).upper == 0
    often = IndexSteps(steps=10_138_729, mechanism=SubsetMallows(72, 36, theta=3e-5))
    values = privacy.Step(noise_multiplier=1.0, sampling_rate=0.01, count=10)
    told = privacy.BlackBox(epsilon=1.0, delta=0.0, count=10_000)
    for parts in ([often], [often, index], [often, values], [told]):
        largest = privacy._parts.index_epsilon(tuple(parts)) or 10_000
        assert privacy.Composition(parts).delta(largest * 0.9999).upper == 5e-324, parts


def test_zcdp_is_not_rounded_down() -> None:
    for theta in (0.1, 0.3, 1e-200, 5e-324):
        part = IndexSteps(steps=7, mechanism=SubsetMallows(256, 26, theta=theta), groups=3)
        joint = privacy.JointStep(noise_multiplier=1.0, sampling_rate=0.5, mechanism=part.mechanism, groups=9, count=5)
        exact = Fraction(theta) ** 2 * 52
        assert exact * 21 <= Fraction(part.zcdp_rho) <= max(exact * 21 * Fraction(1 + 2.0**-52), Fraction(5e-324))
        for parts, count in (((part,), 21), ((part, joint), 66), ((part, part, part, joint), 108)):
            assert Fraction(privacy._parts.index_zcdp_rho(parts)) >= exact * count
    for theta in (1e200, math.inf):
        assert IndexSteps(steps=7, mechanism=SubsetMallows(256, 26, theta=theta)).zcdp_rho == math.inf


@pytest.mark.parametrize(("dim", "keep", "theta", "count"), [(51, 9, 0.058, 10**10), (331, 1, 0.003, 10**9)])
def test_few_nodes_of_very_many_releases(dim: int, keep: int, theta: float, count: int) -> None:
    """What lies between looked-at angles is no larger than is said, and the few nodes that are left say what all of them do."""
    loss = ContourLoss(SubsetMallows(dim, keep, theta=theta))
    lower, upper = loss.epsilon_bounds(delta=1e-6, count=count)
    assert 0 < upper - lower <= 1e-5 * upper
    at = _index_law._tilted(loss.mechanism, 1e-4)
    plain, turned, log_omitted = at._seen_arcs(count, 40.0)
    logs, _ = at.log_ratios(np.linspace(plain, math.pi - turned, 20_000), 0)
    assert plain < 1e-2 and turned == 0 and count * float(logs.real.max()) <= log_omitted <= -40


@pytest.mark.parametrize("count", [1, 10, 1000])
def test_squares_of_ratios_rise_no_faster(count: int) -> None:
    """Of groups whose losses have a parity, and of others: also near pi."""
    for dim, keep, tilt in ((8, 4, 0.3), (36, 18, 0.1), (37, 18, 0.1), (300, 2, 2.0), (12, 9, 0.0)):
        model = SubsetMallows(dim, keep, theta=0.1)
        at, table = _index_law._tilted(model, tilt), loss_law(mechanism=model)
        place = table.low + np.arange(table.log_pmf.size)
        law = np.exp(table.log_pmf + tilt * place) / np.exp(table.log_pmf + tilt * place).sum()
        variance = law @ (place - law @ place) ** 2
        assert variance <= at.most_variance * (1 + 1e-9) <= 1.1 * variance
        plain, turned, log_omitted = at._seen_arcs(count, 2.0)
        if plain < math.pi:
            logs, _ = at.log_ratios(np.linspace(plain, math.pi - turned, 5_000), 0)
            assert count * float(logs.real.max()) <= log_omitted <= -2


@pytest.mark.parametrize(
    ("theta", "count", "wide"),
    [(0.4, 1, 3e-13), (0.4, 100, 1e-10), (0.05, 20_000, 1e-10), (1.0, 10**4, 1e-9), (1e-4, 10**6, 3e-10)],
)
def test_a_table_is_bounded_from_both_sides(theta: float, count: int, wide: float) -> None:
    """Directly convolved and by moments, where a parity leaves two arcs; and epsilon is not 0 where delta(0) is just above delta."""
    table = loss_law(mechanism=SubsetMallows(2, 1, theta=theta))
    middle, spread = 2 * theta * math.tanh(theta) * count, 2 * theta * math.sqrt(count)
    for far in (-1.0, 0.3, 3.0, 6.0):
        epsilon = min(max(middle + far * spread, 0.0), 1.9 * theta * count)
        lower, upper = _lattice_loss.table_bounds(table, epsilon=epsilon, count=count)
        exact = _of_two(theta, count, epsilon)
        assert exact * (1 - wide) <= lower <= exact <= upper <= exact * (1 + wide)
        below = float(exact) if float(exact) < exact else math.nextafter(float(exact), 0.0)
        assert table.epsilon(delta=below, count=count) >= epsilon
    exact = _of_two(theta, count, 0.0)
    below = float(exact) if float(exact) < exact else math.nextafter(float(exact), 0.0)
    for loss in (table, IndexLoss(SubsetMallows(2, 1, theta=theta))):
        assert loss.epsilon(delta=below, count=count) > 0 or below == 1.0


@pytest.mark.parametrize("upwards", [-1.0, 1.0])
@pytest.mark.parametrize("count", [1, 100, 4000, 10**7])
def test_errors_of_a_table_are_counted(count: int, upwards: float) -> None:
    """Larger losses are likelier, or less likely, by as much as a table says that it may err."""
    right, error = loss_law(mechanism=SubsetMallows(6, 3, theta=0.1 / math.sqrt(count))), 1e-6
    moved = upwards * error * np.sign(right.low + np.arange(right.log_pmf.size))
    wrong = replace(right)
    object.__setattr__(wrong, "log_pmf", right.log_pmf + np.log1p(moved))
    object.__setattr__(wrong, "_error", error)
    for epsilon in (0.0, 0.1, 0.5):
        exact = sum(_lattice_loss.table_bounds(right, epsilon=epsilon, count=count)) / 2
        lower, upper = _lattice_loss.table_bounds(wrong, epsilon=epsilon, count=count)
        assert lower <= exact <= upper and upper - lower >= 1e-7 * exact
        assert upper - lower <= 4e-6 * min(count, 100 + 10 * math.sqrt(count)) * exact or exact == 0


def test_very_many_losses_of_one_parity() -> None:
    lower, upper = ContourLoss(SubsetMallows(2, 1, theta=1e-4)).delta_bounds(epsilon=12.0, count=10**9)
    assert 0.8628 < lower < 0.862866722 < upper < 0.863  # by ball arithmetic


@pytest.mark.parametrize(("count", "seen"), [(2, False), (60, False), (3000, True)])
def test_a_wide_table(count: int, seen: bool) -> None:
    """All nodes by a transform, or few by the total variation: between the ends of the binomials' contour, or about it."""
    model = SubsetMallows(10**5, 5 * 10**4, theta=1e-3 / math.sqrt(count))
    table, contour = loss_law(mechanism=model), ContourLoss(model)
    for epsilon in (0.5, 2.0):
        lower, upper = _lattice_loss.table_bounds(table, epsilon=epsilon, count=count)
        least, most = contour.delta_bounds(epsilon=epsilon, count=count)
        assert lower <= most and least <= upper and upper - lower <= 1e-7 * upper
    at = _lattice_loss.table_of(table).tilted(1e-3)
    far, log_omitted = at._smooth(count, 40.0)
    assert seen == (far < math.pi / 2 and at._seen_arcs(count, 40.0)[0] < math.pi)
    if seen:
        logs, _ = at.log_ratios(np.linspace(far, math.pi - far, 500), 0)
        assert count * float(logs.real.max()) <= log_omitted


def test_upper_bounds_are_not_rounded_down() -> None:
    """By exact values: of a table's deltas and moments, sums of epsilons, and the dispersion of a pure budget."""
    model, count, epsilon = SubsetMallows(123, 10, theta=0.0009965787282088135), 3_977_361, 54.88687896791539
    truth = 2.252185798103094446639065e-19  # by the law in 120 digits; the table's is 2.252185792
    assert truth <= IndexLoss(model).delta(epsilon=epsilon, count=count) <= truth * (1 + 2e-8)
    least, most = _lattice_loss.table_bounds(loss_law(mechanism=model), epsilon=epsilon, count=count)
    assert truth * (1 - 2e-9) <= least <= truth <= most <= truth * (1 + 2e-9)
    assert epsilon <= IndexLoss(model).epsilon(delta=truth, count=count) <= epsilon * (1 + 1e-8)
    orders = np.array([1.5, 2.0, 3.0, 10.0])
    for theta in np.geomspace(1e-3, 1, 200):
        with mpmath.workdps(40):
            step = mpmath.mpf(float(theta))
            exact = [mpmath.log(mpmath.cosh((2 * a - 1) * step) / mpmath.cosh(step)) / (a - 1) for a in orders]
        found = _index_law.index_renyi(SubsetMallows(2, 1, theta=float(theta)), orders)
        assert all(one <= other for one, other in zip(exact, found, strict=True))
    for k in range(1, 200):
        spent = privacy.index_sets.joint_epsilon(delta=1e-5, values=lambda _, k=k: k / 7, index_epsilon=k / 1e3)
        assert Fraction(spent) >= Fraction(k / 7) + Fraction(k / 1e3)
        theta = pruning.theta_for_budget(epsilon=k / 7, dim=30, keep=9, steps=k)
        assert Fraction(theta) * k * 18 <= Fraction(k / 7)


def test_a_table_near_a_place_of_its_lattice() -> None:
    """The distance to the next loss is not that of two rounded numbers."""
    model, epsilon = SubsetMallows(16_694, 8_430, theta=9.680810683065035), 16_000_405.17372714
    exact = loss_law(mechanism=model).delta(epsilon=epsilon, count=100)
    assert exact == pytest.approx(1.24825333598e-11, rel=1e-10, abs=0)


def test_an_epsilon_of_a_delta_next_to_nothing() -> None:
    run = dict(retained_gain=0.01, dim=10**6, keep=1000, steps=10)
    found = [privacy.index_sets.epsilon_for_retained_gain(delta=delta, **run) for delta in (1e-280, 1e-305)]  # type: ignore[arg-type]
    assert found[0] < found[1] < 1.06 * found[0]


def test_a_large_group_is_gaussian_in_the_limit() -> None:
    for dim, releases in ((10**9, 1), (10**12, 1), (10**12, 10**4)):
        theta = 0.5 / math.sqrt(dim * releases)
        for share in (0.5, 0.1):
            keep = round(share * dim)
            mu = theta * math.sqrt(8 * share * (1 - share) * min(keep, dim - keep) * releases)
            spent = privacy.Composition(
                [IndexSteps(steps=releases, mechanism=SubsetMallows(dim, keep, theta=theta))]
            ).epsilon(1e-6)
            assert spent.method == "lattice" and spent.upper - spent.lower <= 1e-9
            assert spent.upper == pytest.approx(privacy.gaussian_epsilon(mu, 1e-6), rel=2e-5)


@pytest.mark.parametrize(("keep", "theta"), [(10**6, 1e-3), (5 * 10**7, 1e-5), (10**8 - 10**4, 0.03)])
def test_calculators_of_large_groups(keep: int, theta: float) -> None:
    """They go on where the tables end: what is bought keeps its budget, and one step in size moves nothing."""
    dim = 10**8
    run = dict(epsilon=1.0, delta=1e-6, dim=dim, keep=keep, steps=100)
    best, zcdp = (theta_for_delta_budget(**run, method=method) for method in ("exact", "zcdp"))  # type: ignore[arg-type]
    assert best > 1.3 * zcdp
    loss = ContourLoss(SubsetMallows(dim, keep, theta=best))
    assert 1e-6 * (1 - 1e-6) <= loss.delta(epsilon=1.0, count=100) <= 1e-6
    next_size = theta_for_delta_budget(**{**run, "dim": dim + 1})  # type: ignore[arg-type]
    assert next_size == pytest.approx(best, rel=2 / min(keep, dim - keep))
    model = SubsetMallows(dim, keep, theta=theta)
    alone = IndexLoss(model).epsilon(delta=1e-6, count=10)
    values = dict(sampling_rate=1.0, noise_multiplier=50.0, delta=1e-6)
    both = run_epsilon(releases=[IndexSteps(steps=10, mechanism=model)], **values)  # type: ignore[arg-type]
    assert alone < both < alone + privacy.gaussian_epsilon(math.sqrt(10) / 50, 1e-6) + 1
    found = compare_index_accountings(dim=dim, keep=keep, epsilon=1.0, delta=1e-6, steps=100)
    assert found.exact.theta == best


def test_a_table_ends_where_the_contour_begins() -> None:
    for count, last in ((5, 500), (600, 600), (10**9, 10**4)):
        small, large = (SubsetMallows(last + more, 100, theta=0.001) for more in (0, 1))
        asked = {"epsilon": 0.01 * math.sqrt(count), "count": count}
        assert IndexLoss(small).delta(**asked) == loss_law(mechanism=small).delta(**asked)
        assert IndexLoss(large).delta(**asked) == ContourLoss(large).delta(**asked)
    table, contour = (
        loss_law(mechanism=SubsetMallows(10**5, 1000, theta=0.05)),
        ContourLoss(SubsetMallows(10**5 + 1, 1000, theta=0.05)),
    )
    assert contour.epsilon(delta=1e-5, count=5) == pytest.approx(table.epsilon(delta=1e-5, count=5), rel=1e-4)
    beyond = SubsetMallows(10**7 + 1, 1000, theta=0.3)
    with refused("dim", "10000000", "IndexSteps"):
        loss_law(mechanism=beyond)
    with refused("dim", "10000000"):
        IndexPRV(mechanism=beyond, releases=1)
    revealed = SubsetMallows(10**12, 3, theta=301.0)  # a single value needs no table
    assert IndexLoss(revealed).delta(epsilon=1800.0, count=1) == pytest.approx(1 - math.exp(-6), rel=1e-12)
    assert IndexLoss(revealed).delta(epsilon=1800.0, count=1) >= 1 - math.exp(-6)


def test_renyi_curve_of_a_contour() -> None:
    model = SubsetMallows(400, 150, theta=0.02)  # of which the table leaves nothing out
    assert loss_law(mechanism=model).log_omitted == -math.inf
    orders = np.array([1.5, *range(2, 200)])
    exact = _lattice_loss.renyi_curve(loss_law(mechanism=model), orders)
    found = ContourLoss(model).renyi(orders=orders)
    assert (found >= exact * (1 - 1e-13)).all() and found == pytest.approx(exact, rel=1e-10)
    many = np.arange(2.0, 3_000.0)
    exact = _lattice_loss.renyi_curve(loss_law(mechanism=model), many)
    found = ContourLoss(model).renyi(orders=many)
    assert (found >= exact * (1 - 1e-12)).all() and found == pytest.approx(exact, rel=1e-3)
    joint = dict(orders=[2, 30], sampling_rate=0.1, noise_multiplier=1.0)
    sizes = [
        joint_rdp(**joint, mechanism=SubsetMallows(10**7 + one, 10**4, theta=0.02))  # type: ignore[arg-type]
        for one in (0, 1)
    ]
    assert sizes[1] == pytest.approx(sizes[0], rel=1e-6)
