"""The Renyi curve of a sampled Gaussian step at real orders: against high precision, limits, closed forms and dp-accounting."""

import math

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from dptheory import privacy
from dptheory.privacy._bounds import Direction
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.renyi import _sampled as _sampled_renyi
from dptheory.privacy.methods.renyi._sampled import renyi_divergences
from dptheory.pruning import SubsetMallows

DIRECTIONS: tuple[Direction, ...] = ("remove", "add", "replace")
CORNERS: tuple[tuple[float, float, float], ...] = (
    # order, rate, noise
    (1 + 1e-6, 1e-8, 1000.0),
    (1 + 1e-6, 1e-8, 0.05),
    (1 + 1e-6, 1 - 1e-9, 0.1),
    (1.07, 0.0046, 0.0844),  # the kink of log(1 - q + q e^x) decides how fine a grid has to be
    (1.38, 7.6e-6, 0.126),
    (9779.0, 1.6e-6, 0.245),
    (2e4, 0.01, 1000.0),
    (1e5, 1e-8, 52.0990302),  # the terms of the exponent, in the hundred thousands, cancel
    (1e4, 1e-8, 16.47447666),
    (11421.0, 1 - 6e-8, 1.05),
)


def exact(order: float, rate: float, noise: float, direction: Direction) -> mpf:
    """log(1 + E_P[e^(sL) - 1]) / s in 40 digits, by a fine trapezoid rule over wherever the integrand is not negligible."""
    shift, excess = 1 / noise, order - 1
    spacing = min(0.2, 2 * math.pi * min(2.5 * noise, 1.5) / 50)
    reach = (2 * order + 2) * shift + 16
    nodes = np.arange(-math.ceil(reach / spacing), math.ceil(reach / spacing) + 1)
    z = nodes * spacing
    up, down = (np.logaddexp(math.log1p(-rate), math.log(rate) + shift * x - shift**2 / 2) for x in (z, -z))
    density = -z * z / 2 + (up if direction != "add" else 0.0)
    loss = {"remove": up, "add": -down, "replace": up - down}[direction]
    size = density + np.maximum(excess * loss, np.log(np.minimum(np.abs(excess * loss) + 1e-30, 1.0)))
    with mp.workdps(40):
        q, t, s = mpf(rate), 1 / mpf(noise), mpf(order) - 1
        total = mpf(0)
        for k in nodes[size > size.max() - 75]:
            x = int(k) * mpf(spacing)
            above, below = (1 - q + q * mpmath.exp(sign * t * x - t * t / 2) for sign in (1, -1))
            p = 1 if direction == "add" else above
            ratio = {"remove": above, "add": 1 / below, "replace": above / below}[direction]
            total += mpmath.exp(-x * x / 2) * p * (ratio**s - 1)
        return mpmath.log1p(total * mpf(spacing) / mpmath.sqrt(2 * mpmath.pi)) / s


def wrong(settings: list[tuple[float, float, float]]) -> list[object]:
    found = []
    for order, rate, noise in settings:
        for direction in DIRECTIONS:
            truth = exact(order, rate, noise, direction)
            value = float(renyi_divergences(Loss(direction, noise, rate), np.array([order]))[0])
            if not abs(value / truth - 1) < 1e-12:
                found.append((order, rate, noise, direction, value, float(truth)))
    return found


def drawn(seed: int, count: int) -> list[tuple[float, float, float]]:
    rng = np.random.default_rng(seed)
    orders, rates = 1 + 10 ** rng.uniform(-6, 4.2, count), 10 ** rng.uniform(-8, 0, count)
    noises = np.exp(rng.uniform(math.log(0.2), math.log(1000), count))
    # a third where outputs with the record begin to outweigh those without it
    turn = np.minimum(1 - 2 * noises**2 * np.log(rates) * rng.uniform(0.9, 1.2, count), 2e4)
    orders = np.where(np.arange(count) % 3 == 0, turn, orders)
    return list(zip(orders.tolist(), rates.tolist(), noises.tolist(), strict=True))


def test_twelve_digits() -> None:
    assert wrong([*CORNERS, *drawn(1, 12)]) == []


@pytest.mark.slow
def test_twelve_digits_in_depth() -> None:
    assert wrong(drawn(2, 300)) == []


def test_many_orders_at_once_are_the_same_as_one_by_one() -> None:
    orders = np.array([1e4, 1 + 1e-6, 2.0, 3.5, 200.0, 2.0])
    for direction in DIRECTIONS:
        loss = Loss(direction, 1.3, 0.01)
        alone = [float(renyi_divergences(loss, np.array([order]))[0]) for order in orders]
        assert renyi_divergences(loss, orders) == pytest.approx(alone, rel=1e-13)


def test_near_order_one_it_is_the_kullback_leibler_divergence() -> None:
    z = np.linspace(-14.0, 16.0, 60_001)
    base, mixture = np.exp(-z * z / 2), 0.8 * np.exp(-z * z / 2) + 0.2 * np.exp(-((z - 1) ** 2) / 2)
    mirrored = mixture[:] - 0.2 * np.exp(-((z - 1) ** 2) / 2) + 0.2 * np.exp(-((z + 1) ** 2) / 2)
    pairs = {"remove": (mixture, base), "add": (base, mixture), "replace": (mixture, mirrored)}
    for direction in DIRECTIONS:
        p, q = pairs[direction]
        divergence = float((p * np.log(p / q)).sum() * (z[1] - z[0])) / math.sqrt(2 * math.pi)
        near = float(renyi_divergences(Loss(direction, 1.0, 0.2), np.array([1 + 1e-12]))[0])
        assert near == pytest.approx(divergence, rel=1e-10)


def test_at_whole_orders_it_is_the_binomial_sum() -> None:
    """:func:`joint_rdp` with index sets that say nothing."""
    silent = SubsetMallows(4, 2, theta=0.0)
    for rate, noise in ((0.01, 1.0), (1e-5, 0.4), (0.7, 5.0), (1 - 1e-9, 2.0), (0.3, 0.02), (0.3, 0.009)):
        sample = {"orders": [2, 3, 17, 256, 4000], "sampling_rate": rate, "noise_multiplier": noise}
        found = privacy.subsampled_gaussian_rdp(**sample)
        assert found == pytest.approx(privacy.index_sets.joint_rdp(**sample, mechanism=silent), rel=1e-10)


def test_the_ends_of_the_range() -> None:
    for direction in DIRECTIONS:
        mu = (2.0 if direction == "replace" else 1.0) / 3.0
        orders = np.array([1.5, 40.0])
        assert renyi_divergences(Loss(direction, 3.0, 1.0), orders) == pytest.approx(orders * mu**2 / 2, rel=1e-14)
        assert renyi_divergences(Loss(direction, 3.0, 1 - 1e-15), orders) == pytest.approx(orders * mu**2 / 2, rel=1e-9)
        assert (renyi_divergences(Loss(direction, math.inf, 0.5), orders) == 0).all()
        # little noise: by hand, and by the quadrature
        for rate in (0.3, 1e-6):
            apart, near_one = Loss(direction, 0.011, rate), np.array([1 + 1e-7, *orders])
            inner = _sampled_renyi._Integrand(apart, near_one - 1).log_integral()
            assert _sampled_renyi._log_gain_apart(apart, near_one) == pytest.approx(inner, rel=1e-11)
        # much noise: the leading term, also where its square root underflows
        for noise in (1e8, 1e120):
            leading = orders * (0.3 * mu * 3.0 / noise) ** 2 / 2
            assert renyi_divergences(Loss(direction, noise, 0.3), orders) == pytest.approx(leading, rel=1e-6)
        assert (renyi_divergences(Loss(direction, 1e300, 1e-200), orders) == 0).all()


def test_the_example_more_is_the_larger_direction() -> None:
    """gip.lem1, step 3, at orders that are no whole numbers; and "worst" is that of replacement where that is asked for."""
    orders = [1.001, 1.3, 2.7, 30.5, 5e3]
    for rate, noise in ((0.01, 1.0), (0.5, 0.3), (1e-4, 30.0), (0.99, 4.0)):
        sample = {"orders": orders, "sampling_rate": rate, "noise_multiplier": noise}
        add, remove, worst, replace = (
            privacy.subsampled_gaussian_rdp(**sample, **options)
            for options in ({"direction": "add"}, {"direction": "remove"}, {}, {"adjacency": "replace-one"})
        )
        assert (add < remove).all() and (remove == worst).all() and (remove < replace).all()


def test_epsilon_is_never_above_dp_accountings() -> None:
    rdp = pytest.importorskip("dp_accounting.rdp")
    event = pytest.importorskip("dp_accounting.dp_event")
    above = []
    rng = np.random.default_rng(3)
    cases = [(0.5, 0.2, 10_000, 1e-5), (20.0, 1e-4, 100, 0.1)]
    for _ in range(8):
        sigma, rate = math.exp(rng.uniform(math.log(0.4), math.log(20))), 10 ** rng.uniform(-4, 0)
        cases.append((sigma, rate, int(10 ** rng.uniform(2, 6)), 10 ** rng.uniform(-15, -1)))
    for sigma, rate, steps, delta in cases:
        ours = privacy.rdp_epsilon(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=delta)
        one = event.PoissonSampledDpEvent(rate, event.GaussianDpEvent(sigma))
        theirs = rdp.RdpAccountant().compose(one, steps).get_epsilon(delta)
        if not ours <= theirs * (1 + 1e-9):
            above.append((sigma, rate, steps, delta, ours, theirs))
    assert above == []
    assert privacy.rdp_epsilon(noise_multiplier=0.5, sampling_rate=0.2, steps=10_000, delta=1e-5) == pytest.approx(
        2064.80919, rel=1e-8
    )


def test_epsilon_is_the_least_over_the_orders() -> None:
    """By a fine grid of orders; and at least the true epsilon."""
    run = {"noise_multiplier": 2.0, "sampling_rate": 0.1, "steps": 200, "delta": 1e-6}
    for adjacency in ("add-remove", "replace-one"):
        found = privacy.rdp_epsilon(**run, adjacency=adjacency)
        orders = 1 + np.geomspace(1.0, 60.0, 3000)
        curve = 200 * privacy.subsampled_gaussian_rdp(
            orders=orders, sampling_rate=0.1, noise_multiplier=2.0, adjacency=adjacency
        )
        least = privacy.epsilon_from_rdp(orders=orders, rdp=curve, delta=1e-6)
        assert least * (1 - 1e-6) <= found <= least * (1 + 1e-10)
        assert found > privacy.epsilon_bounds(**run, adjacency=adjacency).upper


def test_a_delta_above_the_distance_leaves_nothing() -> None:
    run = {"noise_multiplier": 10.0, "sampling_rate": 1e-4, "steps": 100}
    divergence = 100 * privacy.subsampled_gaussian_rdp(orders=[1 + 1e-7], sampling_rate=1e-4, noise_multiplier=10.0)[0]
    covered = math.sqrt(-math.expm1(-divergence))
    assert privacy.rdp_epsilon(**run, delta=1.001 * covered) == 0.0 < privacy.rdp_epsilon(**run, delta=0.5 * covered)
