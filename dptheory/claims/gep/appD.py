import math
from fractions import Fraction

import numpy as np
import scipy

from dptheory import embedding, privacy
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _subspace_bounds


def _affine_line_rank(anchors: int) -> bool:
    """Points (t, 1): on a flat with probability 1, on no line through 0 twice."""
    return _subspace_bounds.rank([(t, 1) for t in range(1, anchors + 1)]) == 2


thmD_1 = new_row(
    id="gep.thmD.1",
    source=Source("gep", "Theorem D.1"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.recovery_probability,),
)


@thmD_1.equal(lambda: [(p, n) for p in (1, 2, 3, 4) for n in (1, 2, 3, 4, 6)])
def _(p: int, n: int) -> Sides:
    """general position spans, exact ranks"""
    return (
        embedding.recovery_probability(rank=p, anchors=n),
        Fraction(int(_subspace_bounds.rank(_subspace_bounds.moment_curve(n, p)) == p)),
        Fraction(int(n > p)),
    )


@thmD_1.equal(lambda: [(n,) for n in (2, 3, 5)])
def _(n: int) -> Sides:
    """a law on a line that misses 0: flats have mass, subspaces have none"""
    return n >= 2, lambda: _affine_line_rank(n), False


def printed_conversion(order: float, divergence: float, delta: float) -> float:
    """Lemma D.4."""
    return divergence + math.log(1 / delta) / (order - 1)


def better_conversion(order: float, divergence: float, delta: float) -> float:
    """The epsilon that step 4 of the page proves; it may be negative, and then 0 is enough."""
    return divergence + float(privacy.conversion(order=np.asarray(order), delta=delta))


def _divergence(order: float, *shifts: float) -> float:
    """Renyi divergence of products of N(shift, 1) from products of N(0, 1), factor by factor by quadrature."""

    def one(shift: float) -> float:
        value, _ = scipy.integrate.quad(
            lambda x: math.exp(-order * (x - shift) ** 2 / 2 - (1 - order) * x * x / 2) / math.sqrt(2 * math.pi),
            order * shift - 12,
            order * shift + 12,
            epsrel=1e-12,
        )
        return math.log(value) / (order - 1)

    return sum(map(one, shifts))


def _too_good_slack(mu: float, order: float, log_delta: float) -> float:
    """Wrong statement: with log(order) / (order - 1) taken off twice."""
    epsilon = better_conversion(order, order * mu**2 / 2, math.exp(log_delta)) - math.log(order) / (order - 1)
    return 1.0 if epsilon < 0 else log_delta - privacy.gaussian_log_delta(mu, epsilon)


lemD_2_4 = new_row(
    id="gep.lemD.2-4",
    source=Source("gep", "Lemmas D.2 to D.4"),
    verdict=Verdict.LOOSE,
    printed=printed_conversion,
    calculators=(privacy.gaussian_rdp_epsilon, embedding.joint_mu),
)


@lemD_2_4.equal(
    lambda: [(order, *shifts) for order in (1.25, 2.0, 5.0) for shifts in ((0.5,), (0.3, 1.0), (0.2, 0.4, 0.8))],
    tolerance=1e-9,
)
def _(order: float, *shifts: float) -> Sides:
    """divergence of Gaussians and of their products, by quadrature"""
    return (
        order * embedding.joint_mu([1 / shift for shift in shifts]) ** 2 / 2,
        lambda: _divergence(order, *shifts),
        order * sum(shifts) ** 2 / 2,
    )


@lemD_2_4.equal(lambda: [(mu, delta) for mu in (0.01, 1.0, 6.0) for delta in (1e-3, 1e-8)], tolerance=1e-12)
def _(mu: float, delta: float) -> Sides:
    """printed conversion at its best order, for the Gaussian mechanism"""
    order = 1 + math.sqrt(2 * math.log(1 / delta)) / mu
    return (
        privacy.gaussian_rdp_epsilon(mu, delta),
        printed_conversion(order, order * mu**2 / 2, delta),
        privacy.gaussian_epsilon(mu, delta),
    )


@lemD_2_4.inequality(
    {
        "mu": Range(1e-3, 30, log=True),
        "order": Range(1.001, 1000, log=True),
        "log_delta": Range(-60, -0.1),
    },
    wrong=_too_good_slack,
)
def conversion_slack(mu: float, order: float, log_delta: float) -> float:
    """better conversion, for the Gaussian mechanism

    log of delta over the delta that the Gaussian mechanism has at the better epsilon, the divergence being its own.
    """
    epsilon = better_conversion(order, order * mu**2 / 2, math.exp(log_delta))
    return 1.0 if epsilon < 0 else log_delta - privacy.gaussian_log_delta(mu, epsilon)
