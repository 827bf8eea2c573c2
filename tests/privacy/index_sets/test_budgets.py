"""Privacy of the index mechanism against enumeration, direct convolution, mpmath and other accountants."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptheory import privacy
from dptheory.privacy.index_sets import LatticeLoss, composed, loss_law, theta_for_delta_budget
from dptheory.privacy.index_sets._budgets import largest_theta
from dptheory.privacy.methods import _log_sum
from dptheory.privacy.methods.lattice import _loss as _lattice_loss
from dptheory.privacy.methods.references import IndexPRV
from dptheory.pruning import SubsetMallows
from tests.refused import refused


def _direct(law: LatticeLoss, count: int) -> tuple[int, np.ndarray]:
    total = np.ones(1)
    for _ in range(count):
        total = np.convolve(total, np.exp(law.log_pmf))
    return count * law.low, total


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
    assert law.delta(epsilon=model.epsilon(2 * m)) == 0


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
    import mpmath

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
    assert law.epsilon(delta=1e-200) == law.spacing * law.top
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
    largest = law.spacing * law.top * count
    for delta in DELTAS:
        found = law.epsilon(delta=delta, count=count)
        assert 0.0 <= found <= largest
        assert law.delta(epsilon=found, count=count) <= delta
        less = found - 1e-12 * largest
        assert less <= 0.0 or law.delta(epsilon=less, count=count) > delta


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


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: loss_law(mechanism=SubsetMallows(8, 3, theta=0.1), distance=0), ("distance", "2..6")),
        (lambda: loss_law(mechanism=SubsetMallows(8, 3, theta=0.1), distance=3), ("distance",)),
        (lambda: loss_law(mechanism=SubsetMallows(8, 3, theta=0.1)).delta(epsilon=-1.0), ("epsilon",)),
        (lambda: loss_law(mechanism=SubsetMallows(8, 3, theta=0.1)).delta(epsilon=1.0, count=0), ("count",)),
        (lambda: loss_law(mechanism=SubsetMallows(8, 3, theta=0.1)).epsilon(delta=1.0), ("delta",)),
        (lambda: loss_law(mechanism=SubsetMallows(8, 3, theta=0.1)).renyi(order=1.0), ("order",)),
        (
            lambda: theta_for_delta_budget(epsilon=1.0, delta=1e-5, dim=8, keep=3, method="best"),
            ("method",),
        ),  # type: ignore[arg-type]
        (lambda: theta_for_delta_budget(epsilon=0.0, delta=1e-5, dim=8, keep=3), ("epsilon",)),
        (lambda: theta_for_delta_budget(epsilon=1.0, delta=0.0, dim=8, keep=3), ("delta",)),
        (lambda: privacy.index_sets.retained_gain_for_delta_budget(epsilon=1.0, delta=1e-5, dim=8, keep=8), ("keep",)),
        (lambda: privacy.epsilon_from_rdp(orders=[1.0], rdp=[0.1], delta=1e-5), ("orders",)),
        (lambda: privacy.epsilon_from_rdp(orders=[2.0, 3.0], rdp=[0.1], delta=1e-5), ("orders and rdp",)),
        (lambda: privacy.epsilon_from_rdp(orders=[2.0], rdp=[-0.1], delta=1e-5), ("rdp",)),
        (lambda: privacy.zcdp_epsilon(zcdp_rho=-1.0, delta=1e-5), ("zcdp_rho",)),
        (lambda: privacy.zcdp_budget(epsilon=1.0, delta=1.5), ("delta",)),
        (lambda: IndexPRV(mechanism=SubsetMallows(8, 3, theta=0.0), releases=1), ("mechanism",)),
        (lambda: IndexPRV(mechanism=SubsetMallows(8, 3, theta=0.1), releases=0), ("releases",)),
        (lambda: SubsetMallows(8, 3, theta=0.1).zcdp(3), ("distance",)),
    ],
)
def test_bad_input_is_named(call, says) -> None:  # type: ignore[no-untyped-def]
    with refused(*says):
        call()


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
