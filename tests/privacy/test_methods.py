"""Methods beside the saddle line: Gaussian, Renyi, batches of a fixed size, other units."""

import importlib
import itertools
import math
import random
import re
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy.stats import binom, norm

from dptheory import privacy
from dptheory.privacy import FixedSizeStep
from dptheory.privacy import epsilon as methods
from dptheory.privacy._bounds import Direction
from dptheory.privacy._parts import alike
from dptheory.privacy.methods import _fixed_size
from dptheory.privacy.methods._closed_forms import Participations, one_step_epsilon
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.lattice import _rising_loss
from dptheory.privacy.methods.lattice._sums import LatticeMasses, tilted_sum
from dptheory.privacy.methods.renyi import _sampled as _sampled_renyi
from dptheory.privacy.methods.renyi._sampled import renyi_divergences
from dptheory.privacy.samplers import _shuffled
from dptheory.pruning import SubsetMallows
from tests.calls import by_name

# --- The exact Gaussian trade-off against mpmath, its inverses, limits and order ---


MUS = st.floats(-6, 4).map(lambda u: 10.0**u)
LOG_DELTAS = st.floats(-300, -0.001)


def exact_log_delta(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(400):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)

        def phi(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

        return mpmath.log(phi(m / 2 - e / m) - mpmath.exp(e) * phi(-m / 2 - e / m))


def points(n: int) -> list[tuple[float, float]]:
    """(mu, epsilon) with delta from 1 - 1e-16 to 1e-300, at every size of mu."""
    rng = random.Random(0)
    found = []
    while len(found) < n:
        mu = 10 ** rng.uniform(-6, 4)
        offset = rng.uniform(-8, 37) if rng.random() < 0.8 else -mu / 2
        epsilon = mu * (offset + mu / 2)
        if offset >= -8 and 0 <= epsilon <= 1e6:
            found.append((mu, epsilon))
    return found


def test_delta_agrees_with_400_digits() -> None:
    for mu, epsilon in points(250):
        exact = exact_log_delta(mu, epsilon)
        assert abs(float(privacy.gaussian_log_delta(mu, epsilon) - exact)) < 1e-9, (mu, epsilon)
        if exact > -690:
            assert privacy.gaussian_delta(mu, epsilon) == pytest.approx(float(mpmath.exp(exact)), rel=1e-9)


@pytest.mark.parametrize(
    ("mu", "epsilon"), [(1.0, 0.0), (1e-6, 0.0), (1e4, 0.0), (12.0, 0.0), (1e-3, 1.0), (1e-6, 1e-5), (0.2, 1e3)]
)
def test_log_delta_where_delta_underflows_or_rounds_to_one(mu: float, epsilon: float) -> None:
    exact = exact_log_delta(mu, epsilon)
    assert privacy.gaussian_log_delta(mu, epsilon) == pytest.approx(float(exact), rel=1e-12, abs=0)


@given(mu=MUS)
def test_no_epsilon_is_total_variation(mu: float) -> None:
    assert privacy.gaussian_delta(mu, 0.0) == pytest.approx(math.erf(mu / math.sqrt(8)), rel=1e-13)


@given(mu=MUS, log10_delta=LOG_DELTAS)
def test_epsilon_and_back(mu: float, log10_delta: float) -> None:
    delta = 10.0**log10_delta
    epsilon = privacy.gaussian_epsilon(mu, delta)
    if epsilon > 0:
        assert privacy.gaussian_log_delta(mu, epsilon) == pytest.approx(math.log(delta), rel=1e-12, abs=1e-10)
    else:
        assert privacy.gaussian_delta(mu, 0.0) <= delta * (1 + 1e-12)
    assert epsilon <= privacy.gaussian_rdp_epsilon(mu, delta)


@given(log10_epsilon=st.floats(-12, 6), log10_delta=LOG_DELTAS)
def test_mu_and_back(log10_epsilon: float, log10_delta: float) -> None:
    epsilon, delta = 10.0**log10_epsilon, 10.0**log10_delta
    mu = privacy.gaussian_mu(epsilon, delta)
    assert privacy.gaussian_log_delta(mu, epsilon) == pytest.approx(math.log(delta), rel=1e-12, abs=1e-10)
    assert mu >= privacy.gaussian_rdp_mu(epsilon, delta)


@given(log10_epsilon=st.floats(-12, 6), log10_delta=LOG_DELTAS)
def test_rdp_and_back(log10_epsilon: float, log10_delta: float) -> None:
    epsilon, delta = 10.0**log10_epsilon, 10.0**log10_delta
    mu = privacy.gaussian_rdp_mu(epsilon, delta)
    assert privacy.gaussian_rdp_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-12)
    log_inverse = -math.log(delta)
    order = 1 + math.sqrt(2 * log_inverse) / mu
    assert epsilon == pytest.approx(order * mu**2 / 2 + log_inverse / (order - 1), rel=1e-9)


@given(mu=MUS, epsilon=st.floats(0, 1e6), factor=st.floats(1.001, 3))
def test_delta_rises_with_mu_and_falls_with_epsilon(mu: float, epsilon: float, factor: float) -> None:
    here = privacy.gaussian_log_delta(mu, epsilon)
    assert privacy.gaussian_log_delta(mu * factor, epsilon) >= here
    assert privacy.gaussian_log_delta(mu, epsilon * factor) <= here


def test_both_branches_meet() -> None:
    """The difference of the two Mills ratios and its integral take over from each other at mu = 1 + x; the tail at x = -1."""
    for x, mu in ((0.5, 1.5), (3.0, 4.0), (-0.9, 1.9), (-1.0, 3.0), (30.0, 31.0)):
        for step in (1 - 1e-9, 1 + 1e-9):
            epsilon = mu * step * (x + mu * step / 2)
            exact = float(exact_log_delta(mu * step, epsilon))
            assert privacy.gaussian_log_delta(mu * step, epsilon) == pytest.approx(exact, rel=1e-13)


def test_extremes_are_numbers() -> None:
    assert privacy.gaussian_delta(0.0, 0.0) == 0.0 and privacy.gaussian_log_delta(0.0, 1.0) == -math.inf
    assert privacy.gaussian_delta(1e300, 1.0) == 1.0 and privacy.gaussian_delta(1e-300, 1e300) == 0.0
    assert privacy.gaussian_epsilon(0.0, 1e-5) == 0.0 and privacy.gaussian_epsilon(1e-7, 1e-5) == 0.0
    assert privacy.gaussian_epsilon(1e100, 0.5) == pytest.approx(5e199)
    assert privacy.gaussian_mu(0.0, 1e-5) == pytest.approx(1e-5 * math.sqrt(2 * math.pi), rel=1e-9)
    assert privacy.gaussian_mu(1e100, 0.5) == pytest.approx(math.sqrt(2) * 1e50)
    assert privacy.gaussian_rdp_mu(0.0, 1e-5) == 0.0 and privacy.gaussian_rdp_epsilon(0.0, 1e-5) == 0.0
    for delta in (5e-324, 1 - 2**-53):
        for size in (5e-324, 1e-5, 1.0, 1e6):
            assert privacy.gaussian_mu(size, delta) > 0 and privacy.gaussian_epsilon(size, delta) >= 0


# The Renyi curve of a sampled Gaussian step at real orders: against high precision, limits, closed forms and dp-
# accounting


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


# --- Batches of a fixed size: brute force over small populations, and the two orders in which the bounds dominate ---


GAMMAS = np.exp(np.linspace(-3.0, 6.0, 31))
OPTIONS = {"adjacency": "replace-one", "sampling": "without replacement"}


def _remove_profile(shift: float, rate: float, gammas: np.ndarray) -> np.ndarray:
    """sup P(S) - gamma Q(S) of remove, S a half-line."""
    odds = (gammas - 1 + rate) / rate
    z = np.where(odds > 0, np.log(np.maximum(odds, 1e-300)) / shift + shift / 2, -np.inf)
    return (1 - rate) * norm.sf(z) + rate * norm.sf(z - shift) - gammas * norm.sf(z)


def _profile(shift: float, rate: float, gammas: np.ndarray) -> np.ndarray:
    """Of the dominating pair."""
    mirrored = 1 - gammas + gammas * _remove_profile(shift, rate, 1 / gammas)
    return np.where(gammas >= 1, _remove_profile(shift, rate, gammas), mirrored)


def _lattice_profile(law: LatticeMasses, gammas: np.ndarray) -> np.ndarray:
    return np.array([law.masses @ np.maximum(1 - g * np.exp(-law.losses), 0.0) for g in gammas])


def _batch_law(records: np.ndarray, batch: int, sigma: float, grid: np.ndarray) -> np.ndarray:
    """Density of the noisy sum of a batch, all batches enumerated; one or two coordinates."""
    sums = [records[list(chosen)].sum(axis=0) for chosen in itertools.combinations(range(len(records)), batch)]
    cell = np.prod([axis[1] - axis[0] for axis in (np.unique(grid[:, j]) for j in range(grid.shape[1]))])
    return sum(np.exp(-((grid - s) ** 2).sum(axis=1) / (2 * sigma**2)) for s in sums) * (
        cell / (len(sums) * (sigma * math.sqrt(2 * math.pi)) ** grid.shape[1])
    )


def _divergences(p: np.ndarray, q: np.ndarray, gammas: np.ndarray) -> np.ndarray:
    return np.array([np.maximum(p - g * q, 0.0).sum() for g in gammas])


@pytest.mark.parametrize("dim", [1, 2])
def test_no_small_population_is_worse_than_the_dominating_pair(dim: int) -> None:
    """All batches of b of n records, a record replaced, at every gamma; records alike attain it."""
    rng = np.random.default_rng(dim)
    slack = np.inf
    for n, batch, sigma in ((3, 1, 1.0), (4, 2, 0.7), (5, 2, 1.5)):
        axis = np.linspace(-batch - 6 * sigma, batch + 6 * sigma, 1501 if dim == 1 else 301)
        grid = np.stack(np.meshgrid(*[axis] * dim), axis=-1).reshape(-1, dim)
        bound = _profile(2 / sigma, batch / n, GAMMAS)
        for draw in range(4):
            records = rng.standard_normal((n + 1, dim))
            records /= np.maximum(np.linalg.norm(records, axis=1, keepdims=True), 1.0 if draw % 2 else 1e-9)
            if draw == 0:
                records[:] = np.eye(1, dim)
                records[0] *= -1
            first, second = records[:-1], np.concatenate([records[-1:], records[1:-1]])
            p, q = (_batch_law(each, batch, sigma, grid) for each in (first, second))
            for one, other in ((p, q), (q, p)):
                excess = _divergences(one, other, GAMMAS) - bound
                assert excess.max() <= 1e-4
                if draw == 0:
                    above = (GAMMAS >= 1) == (one is p)
                    slack = min(slack, float(np.abs(excess[above]).max()))
    assert slack <= 1e-4


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.02), (0.3, 0.5), (20.0, 0.3)])
def test_the_lattice_law_of_the_dominating_pair(sigma: float, rate: float) -> None:
    """No divergence is below the exact one, none is far above."""
    step = Loss("remove", sigma / 2, rate)
    largest = _fixed_size._largest(step, 1e-9)
    cells = _fixed_size._cells(step, largest / 2000, largest)
    law = _fixed_size._dominating(cells)
    gammas = np.exp(np.linspace(-0.9, 0.9, 61) * largest)
    gap = _lattice_profile(law, gammas) - _profile(2 / sigma, rate, gammas)
    assert gap.min() >= -1e-12 and gap.max() <= 1e-3 * largest
    assert law.masses.sum() == pytest.approx(1.0, abs=1e-8)
    below = _fixed_size._with_divergence(cells, _fixed_size.largest_divergence(sigma / 2, rate))
    assert below is not None and below.masses.sum() == pytest.approx(1.0, abs=1e-8)
    above = gammas >= 1
    assert (_lattice_profile(below, gammas[above]) >= _remove_profile(2 / sigma, rate, gammas[above]) - 1e-12).all()


def _triple(shift: float, rate: float, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Masses on a grid of (1-q) N(0) + q N(g) and the same with g', three places in the unit disc; ``shift``: of its radius."""
    points = shift * (places - places[0])
    low, high = points.min(axis=0) - 8.0, points.max(axis=0) + 8.0
    axes = [np.arange(a, b, 0.05) for a, b in zip(low, high, strict=True)]
    u, v = np.meshgrid(*axes, indexing="ij")
    normal = [np.exp(-((u - x) ** 2 + (v - y) ** 2) / 2) * 0.0025 / (2 * math.pi) for x, y in points]
    return (1 - rate) * normal[0] + rate * normal[1], (1 - rate) * normal[0] + rate * normal[2]


def _truncated_divergence(p: np.ndarray, q: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """G of step 7: the integral of the divergence's excess from log s on is E_P[log(l/s) - 1 + s/l; l > s], less at s < 1."""
    ratio = np.log(p / q)
    found = []
    for level in levels:
        over = np.maximum(ratio - level, 0.0)
        found.append(float((p * (over + np.expm1(-over))).sum()) - (math.expm1(level) - level if level < 0 else 0.0))
    return np.array(found)


PLACES = [np.array([[math.cos(a), math.sin(a)] for a in angles]) for angles in (
    (0.0, math.pi, 0.0), (0.0, 0.0, math.pi), (0.3, 0.0, math.pi), (math.pi / 2, 0.0, math.pi), (0.0, 2.1, 4.2),
    (0.0, math.pi, 1.0), (0.0, 2.8, 6.0), (1.0, 1.0, 4.0),
)]  # fmt: skip


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.02), (0.5, 0.3), (4.0, 0.1), (1.0, 0.9)])
def test_no_triple_exceeds_the_pair_with_the_largest_divergence(sigma: float, rate: float) -> None:
    rng = np.random.default_rng(0)
    inside = [rng.uniform(-0.7, 0.7, (3, 2)) for _ in range(4)]
    step = Loss("remove", sigma / 2, rate)
    largest = _fixed_size._largest(step, 1e-12)
    divergence = _fixed_size.largest_divergence(sigma / 2, rate)
    law = _fixed_size._with_divergence(_fixed_size._cells(step, largest / 20_000, largest), divergence)
    assert law is not None
    levels = np.linspace(-6.0, 0.5 * largest, 16)
    q_masses = law.masses * np.exp(-law.losses)
    bound = _truncated_divergence(law.masses[law.masses > 0], q_masses[law.masses > 0], levels)
    reached = 0.0
    for places in PLACES + inside:
        found = _truncated_divergence(*_triple(1 / sigma, rate, places), levels)
        assert (found <= bound * (1 + 5e-4) + 1e-12).all()  # the grid's own error is half of that
        reached = max(reached, float((found / bound)[levels < -5].max()))
    assert reached > 0.98


def _worst_choice(sigma: float, rate: float, steps: int, epsilon: float, directions: tuple[str, ...]) -> float:
    """A lower bound of delta for a chooser among these pairs by the outputs so far: losses are rounded down."""
    h = 4e-3
    x = np.arange(-4000, 4001) * h
    value = np.maximum(-np.expm1(x), 0.0)
    laws = []
    for direction in directions:
        z = np.linspace(-9.0, 9.0 + 2 / sigma, 40_001)
        loss = Loss(direction, sigma / 2, rate)
        weights = (
            sum(w * np.exp(-((z - m) ** 2) / 2) for w, m in loss.components) * (z[1] - z[0]) / math.sqrt(2 * math.pi)
        )
        places = np.clip(np.floor(loss.at(z) / h), -1500, 1500).astype(int)
        laws.append(np.bincount(places + 1500, weights, 3001))
    for _ in range(steps):
        padded = np.concatenate([-np.expm1(x[0] + h * np.arange(-1500, 0)), value, np.zeros(1500)])
        value = np.max([np.convolve(padded, law, mode="valid") for law in laws], axis=0)
    return float(np.interp(epsilon, x, value))


def test_who_chooses_by_the_outputs_stays_below() -> None:
    """The choice gains over remove alone, so that a bound that forgot it would be refused."""
    sigma, rate, steps = 2.0, 0.3, 6
    for epsilon in (0.2, 1.0):
        chosen = _worst_choice(sigma, rate, steps, epsilon, ("remove", "add"))
        assert chosen > 1.01 * _worst_choice(sigma, rate, steps, epsilon, ("remove",))
        step = FixedSizeStep(noise_multiplier=sigma, sampling_rate=rate, count=steps)
        upper = _fixed_size.fixed_size_epsilon(alike(step), chosen).upper
        assert upper >= epsilon


@pytest.mark.parametrize(
    ("setting", "method"),
    [
        ((1.0, 0.02, 1000, 1e-5), "divergence"),
        ((4.0, 0.1, 1000, 1e-5), "divergence"),
        ((1.0, 0.5, 5, 1e-5), "dominating pair"),
        ((4.0, 0.01, 2000, 1e-10), "divergence"),
    ],
)
def test_both_ends_are_near(setting, method: str) -> None:
    noise, rate, steps, delta = setting
    found = privacy.epsilon_bounds(noise_multiplier=noise, sampling_rate=rate, steps=steps, delta=delta, **OPTIONS)
    assert 1.002 * found.lower < found.upper < 1.04 * found.lower
    assert found.method.endswith(method)


def test_an_upper_bound_of_poisson_batches_is_none_of_batches_of_a_fixed_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is attained where the other records are alike bounds from below alone, whichever method bounded it."""
    monkeypatch.setattr(methods, "value_methods", lambda rtol, schedule, rare: (Participations(),))
    run = (FixedSizeStep(noise_multiplier=4.0, sampling_rate=0.1, count=100),)
    found = methods.epsilon_of(run, ("remove", "add"), 1e-5)
    assert found.lower == 0.0 and found.above in ("divergence", "dominating pair")
    assert methods.delta_of(run, ("remove", "add"), found.upper).above in ("divergence", "dominating pair")


@pytest.mark.parametrize("count", [1, 10, 10**6])
def test_who_takes_part_always(count: int) -> None:
    """The method by itself at rate 1: one Gaussian mechanism; at the next rate, next to it."""
    for epsilon in (0.0, 1.0, 30.0):
        exact = privacy.gaussian_delta(math.sqrt(count) / 2, epsilon)
        for rate in (1.0, math.nextafter(1.0, 0.0)):
            found = Participations().delta(
                (privacy.Step(noise_multiplier=2.0, sampling_rate=rate, count=count),), "remove", epsilon
            )
            assert exact <= found.upper <= exact * (1 + 2e-8) + 3e-40


PAGE = Path(__file__).parents[2] / "proofs" / "privacy" / "fixed_size_batches.md"
TABLE = PAGE.read_text(encoding="utf-8").partition("apart, % |")[2].partition("\n\n")[0].splitlines()[2:]


@pytest.mark.parametrize("row", TABLE)
def test_how_far_the_ends_are_apart(row: str) -> None:
    """The page's table, small epsilon by rare sampling and large delta among its rows."""
    noise, rate, steps, delta, lower, upper, apart = (cell.strip() for cell in row.strip("|").split("|"))
    found = privacy.epsilon_bounds(
        noise_multiplier=float(noise), sampling_rate=float(rate), steps=int(steps), delta=float(delta), **OPTIONS
    )
    assert found.lower == pytest.approx(float(lower), rel=5e-4)
    assert found.upper == pytest.approx(float(upper), rel=5e-4)
    if apart:
        assert 100 * (found.upper / found.lower - 1) == pytest.approx(float(apart), abs=0.06)
    else:
        assert found.lower == 0.0 < found.upper


def test_the_table_covers_where_the_ends_are_far() -> None:
    assert len(TABLE) == 13


def test_one_step_is_exact() -> None:
    found = privacy.epsilon_bounds(noise_multiplier=1.0, sampling_rate=0.2, steps=1, delta=1e-5, **OPTIONS)
    assert found.method == "one step" and found.upper - found.lower < 1e-6
    at = _profile(2.0, 0.2, np.exp(np.array([found.estimate])))
    assert at[0] == pytest.approx(1e-5, rel=1e-5)


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.02), (4.0, 0.5)])
def test_a_box_of_triangles_has_a_divergence_of_at_most_its_bound(sigma: float, rate: float) -> None:
    """A box that is a point has the divergence of that triangle, a wider one no less."""
    step = _fixed_size._Step(2 / sigma, rate)
    angles = np.array([[1.2, 0.9], [0.8, 1.5], [math.pi / 2, 0.3], [1.0, 1.1], [0.2, 1.45]])  # at x' and at x

    def bound_of(low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return step.bound(np.stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]], axis=1))

    points = bound_of(angles, angles)
    for side in ([0.05, 0.0], [0.0, 0.05], [0.05, 0.05]):
        far = np.minimum(angles + side, math.pi / 2)
        assert (bound_of(angles, far) >= np.maximum(points, bound_of(far, far))).all()
    for (at_other, at_first), bound in zip(angles, points, strict=True):
        arcs = (0.0, 2 * at_other, -2 * at_first)  # a chord is seen from the circle under half its arc
        places = np.array([[math.cos(arc), math.sin(arc)] for arc in arcs])
        p, q = _triple(1 / sigma, rate, places)
        assert (p * np.log(p / q)).sum() == pytest.approx(bound, rel=1e-5)


def test_the_tilted_sum_of_two_losses() -> None:
    """By hand: masses 1/4 and 3/4 at -1 and 2, three times; the excess over 1 at the sums 3 and 6."""
    masses = np.array([0.25, 0.0, 0.0, 0.75])
    total = tilted_sum(LatticeMasses(1.0, -1, masses), 3, 0.4)
    value, wrong = total.expectation(lambda over: np.maximum(over, 0.0), 0.0, 1.0)
    assert value == pytest.approx(2 * 3 * 0.75**2 * 0.25 + 5 * 0.75**3, rel=1e-10)
    assert wrong < 1e-9


def test_little_noise_has_bounds() -> None:
    """Probabilities that a double does not hold beside their likelihood ratio are left where they are."""
    asked = {
        "adjacency": "replace-one",
        "sampling": "without replacement",
        "delta": 1e-5,
        "sampling_rate": 0.01,
        "steps": 2,
    }
    before = math.inf
    for noise in (0.05, 0.055, 0.06, 0.065, 0.1):
        found = privacy.epsilon_bounds(noise_multiplier=noise, **asked)
        assert 0.0 < found.lower <= found.upper < min(before, found.lower * 1.01)
        before = found.upper


def test_delta_of_one_step_is_the_integral() -> None:
    asked = {
        "adjacency": "replace-one",
        "sampling": "without replacement",
        "noise_multiplier": 1.0,
        "sampling_rate": 0.02,
    }
    spent = privacy.epsilon_bounds(delta=1e-5, steps=1, **asked).upper
    found = privacy.delta_bounds(epsilon=spent, steps=1, **asked)
    assert found.upper == pytest.approx(1e-5, rel=1e-9)


# Shuffled batches, users with several records, batches cut to a size, the best of several runs: brute force and
# witnesses


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


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_shuffled_batches_whose_order_is_told_are_one_gaussian_mechanism_an_epoch(adjacency: str) -> None:
    """Attained by one batch an epoch, and above what the attack on many proves."""
    run: dict[str, Any] = {"noise_multiplier": 0.8, "epochs": 30, "delta": 1e-6, "adjacency": adjacency}
    most = privacy.samplers.shuffled_epsilon_upper_bound(**run)
    told = privacy.epsilon_bounds(noise_multiplier=0.8, sampling_rate=1.0, steps=30, delta=1e-6, adjacency=adjacency)
    assert told.upper <= most <= told.upper * (1 + 1e-8)
    assert 0.9 * most <= privacy.samplers.shuffled_epsilon_lower_bound(**run, batches=1) <= most
    assert privacy.samplers.shuffled_epsilon_lower_bound(**run, batches=98) <= most


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


def test_the_map_knows_its_files() -> None:
    """``privacy/epsilon.py`` names what bounds a run as "name, file.py"."""
    named = re.findall(r"(\w+), ([\w/]+)\.py\.", str(methods.__doc__))
    assert len(named) >= 14
    for name, file in named:
        assert hasattr(importlib.import_module("dptheory.privacy.methods." + file.replace("/", ".")), name)


@pytest.mark.parametrize(("noise", "count"), [(1.8e-7, 1), (4.46e-3, 10**8), (1.3e-3, 10**12), (1.3e-15, 10**12)])
def test_delta_is_enclosed_where_the_loss_has_more_digits_than_a_double(noise: float, count: int) -> None:
    """epsilon / mu - mu / 2 rounds by mu 2^-53: a fixed margin gave brackets that lay beside delta from mu = 1e6 on."""
    with mp.workdps(150):
        mu = mp.sqrt(count) / mpf(noise)
        epsilon = float(mu * (mu / 2 + 5))
        x = epsilon / mu - mu / 2
        exact = mp.ncdf(-x) - mp.exp(epsilon) * mp.ncdf(-x - mu)
        stated = privacy.Composition([privacy.Step(noise_multiplier=noise, sampling_rate=1.0, count=count)]).delta(
            epsilon
        )
        assert stated.lower <= exact <= stated.upper
