import math

import numpy as np
import scipy
from scipy.special import ndtr

from dptheory import privacy
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rf import _ranked_release as ranked
from dptheory.privacy import gaussian_delta


def _two_releases_by_grid(first: float, second: float, epsilon: float) -> float:
    """delta of two independent Gaussian releases of a sum that one example moves by 1, by a double integral."""
    u = np.linspace(-9.0, 9.0, 1401)
    x, y = first * (u + 0.5 / first)[:, None], second * (u + 0.5 / second)[None, :]
    joined = scipy.stats.norm.pdf(x, 1.0, first) * scipy.stats.norm.pdf(y, 1.0, second)
    without = scipy.stats.norm.pdf(x, 0.0, first) * scipy.stats.norm.pdf(y, 0.0, second)
    step = float(u[1] - u[0]) ** 2 * first * second
    return float(np.maximum(joined - math.exp(epsilon) * without, 0.0).sum() * step)


def _gaussian_excess(p: float, q: float, mu: float, epsilon: float) -> float:
    """E of (p dP - e^epsilon q dQ)_+ for P, Q normal laws mu apart."""
    if p == 0.0 or q == 0.0:
        return p
    level = epsilon + math.log(q / p)
    return p * float(ndtr(mu / 2 - level / mu)) - math.exp(epsilon) * q * float(ndtr(-mu / 2 - level / mu))


def ranked_delta(sigma: float, epsilon: float, angle: float, gap: float) -> float:
    """delta of a release and the order of two entries by a second, fresh draw of the same noise.

    The example adds (cos, sin) of the angle to the sum, C = 1; the entries are ``gap`` apart without it.
    """
    p = float(ndtr((gap + math.cos(angle) - math.sin(angle)) / (math.sqrt(2) * sigma)))
    q = float(ndtr(gap / (math.sqrt(2) * sigma)))
    pairs = ((p, q), (1 - p, 1 - q))
    return sum(_gaussian_excess(first, second, 1 / sigma, epsilon) for first, second in pairs)


def _account_slack(releases: int, sigma: float, epsilon: float, angle: float, gap: float) -> float:
    mu = 1.0 / privacy.combined_multiplier(noise_multipliers=[sigma] * releases)
    return gaussian_delta(mu, epsilon) - ranked_delta(sigma, epsilon, angle, gap)


row = new_row(
    id="rf.alg2",
    source=Source("rf", "Appendix C, Algorithm 2"),
    verdict=Verdict.CONDITIONAL,
    calculators=(privacy.combined_multiplier,),
)


@row.equal((1.0, 1.0, 0.5), (1.0, 1.0, 0.0), (2.0, 2.0, 0.1), (0.8, 3.0, 1.0), (5.0, 1.0, 0.3), tolerance=1e-5)
def _(s: float, t: float, eps: float) -> Sides:
    """two releases of one sum, by integration"""
    return (
        gaussian_delta(1 / privacy.combined_multiplier(noise_multipliers=(s, t)), eps),
        lambda: _two_releases_by_grid(s, t, eps),
        gaussian_delta(1 / s, eps),
    )


row.add(ranked.mask_adds_nothing("RF: mask and release tell what the release tells, by enumeration"))


@row.inequality(
    {
        "sigma": Range(0.3, 5.0, log=True),
        "epsilon": Range(0.0, 3.0),
        "angle": Range(-math.pi, math.pi),
        "gap": Range(-3.0, 3.0),
    },
    # wrong: by that of one
    wrong=lambda **point: _account_slack(1, **point),
)
def _twice_slack(**point: float) -> float:
    """a second draw costs more than one release, and at most two

    A second draw is covered by the account of two releases.
    """
    return _account_slack(2, **point)


row.add(ranked.printed_velocity("RF: one step of the printed velocity"))
