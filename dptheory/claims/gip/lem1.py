import math

import numpy as np

from dptheory import privacy
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _mixture
from dptheory.claims.gip._mixture import RATES, gaussian_log_delta, values_curve


def _gaussian_epsilon(mu: float, log_delta: float) -> float:
    orders = [1 + 1.1**i / 100 for i in range(120)]
    return privacy.epsilon_from_rdp(orders=orders, rdp=[a * mu * mu / 2 for a in orders], delta=math.exp(log_delta))


def _largest_share(order: float) -> float:
    """max over u in (0, 1) of u^(a-1) (1 - u), by evaluation."""
    best = (order - 1) / order
    return max(math.pow(u, order - 1) * (1 - u) for u in (best, 0.999 * best, 1.001 * best))


row = new_row(
    id="gip.lem1",
    source=Source("gip", "Lemma 1"),
    verdict=Verdict.CONDITIONAL,
    calculators=(privacy.subsampled_gaussian_rdp, privacy.epsilon_from_rdp, privacy.conversion),
)


_REAL = ((1.001, 0.3, 2.0), (1.5, 0.01, 1.0), (2.7, 0.5, 0.7), (40.3, 0.02, 4.0))


@row.equal(lambda: (*RATES, *_REAL), tolerance=1e-8)
def _(order: float, rate: float, sigma: float) -> Sides:
    """curve of one step by quadrature"""
    return (
        values_curve(order, rate, sigma),
        lambda: _mixture.divergence(order, rate, sigma),
        rate * order / (2 * sigma**2),
    )


@row.equal(lambda: _REAL, tolerance=1e-8)
def _(order: float, rate: float, sigma: float) -> Sides:
    """curve of the other direction by quadrature"""
    curve = privacy.subsampled_gaussian_rdp(orders=[order], sampling_rate=rate, noise_multiplier=sigma, direction="add")
    return curve[0], lambda: _mixture.divergence(order, rate, sigma, sign=-1), values_curve(order, rate, sigma)


@row.equal((2, 3.0), (7, 5.0), tolerance=1e-9, kind=Kind.COUNTEREXAMPLE)
def _(order: int, sigma: float) -> Sides:
    """replacing an example, no sampling"""
    curve = privacy.subsampled_gaussian_rdp(
        orders=[order], sampling_rate=1.0, noise_multiplier=sigma, adjacency="replace-one"
    )
    return (
        curve[0],
        lambda: _mixture.divergence(order, 1.0, sigma, shift=2.0),
        values_curve(order, 1.0, sigma),
    )


@row.inequality(
    {
        "order": Range(1.05, 16),
        "rate": Range(0.02, 1),
        "sigma": Range(0.7, 6, log=True),
    },
    wrong=lambda order, rate, sigma: (
        0.5 - _mixture.divergence(order, rate, sigma, sign=-1) / values_curve(order, rate, sigma)
    ),
    tolerance=1e-7,
)
def _reverse_slack(order: float, rate: float, sigma: float) -> float:
    """the other direction is no larger

    Relative gap of D_a(base, mixture) below the formula for D_a(mixture, base).
    """
    return 1 - _mixture.divergence(order, rate, sigma, sign=-1) / values_curve(order, rate, sigma)


@row.inequality(
    {"mu": Range(0.05, 5, log=True), "log_delta": Range(-34, -3)},
    wrong=lambda mu, log_delta: log_delta - gaussian_log_delta(mu, 0.9 * _gaussian_epsilon(mu, log_delta)),
    tolerance=1e-9,
)
def _conversion_slack(mu: float, log_delta: float) -> float:
    """conversion against the exact Gaussian"""
    return log_delta - gaussian_log_delta(mu, _gaussian_epsilon(mu, log_delta))


def _covered(rdp: float) -> float:
    """A delta above sqrt(1 - e^-rdp), by hand."""
    return math.sqrt(1 - math.exp(-rdp))


@row.inequality({"mu": Range(0.01, 5, log=True)}, wrong=lambda mu: _covered(mu * mu / 2) ** 2 - math.erf(mu / 8**0.5))
def _distance_slack(mu: float) -> float:
    """the distance of two Gaussians below sqrt(1 - e^-R)

    R is the Kullback-Leibler divergence, the least of the curve.
    """
    return _covered(mu * mu / 2) - math.erf(mu / 8**0.5)


@row.equal((2.0, 0.3, 1e-5), (11.0, 2.0, 1e-9), tolerance=1e-12)
def _(order: float, rdp: float, delta: float) -> Sides:
    """conversion, one order"""
    return (
        privacy.epsilon_from_rdp(orders=[order], rdp=[rdp], delta=delta),
        lambda: -math.log(_largest_share(order) ** -1 * delta) / (order - 1) + rdp,
        rdp - math.log(delta) / (order - 1),
    )


@row.equal((1.5, 0.3), (2.0, 1e-5), (64.0, 1e-9), tolerance=1e-12)
def _(order: float, delta: float) -> Sides:
    """what the conversion adds at an order"""
    return (
        privacy.conversion(order=np.asarray(order), delta=delta),
        lambda: -math.log(_largest_share(order) ** -1 * delta) / (order - 1),
        -math.log(delta) / (order - 1),
    )
