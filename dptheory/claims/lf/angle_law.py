import itertools
import math
from functools import partial

import numpy as np
import scipy
from scipy.special import gammaincinv, ndtr

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.lf._angle_samples import angle_bins, density_in_two_or_three


def _noncentral_t(dim: int, snr: float, angle: float, freedom: int = 1) -> float:
    """P(angle <= ``angle``) as an upper tail of noncentral t."""
    return float(scipy.stats.nct.sf(math.sqrt(dim - 1) / math.tan(angle), dim - freedom, snr))


def _noncentral_t_above(dim: int, snr: float, angle: float, freedom: int = 1) -> float:
    return float(scipy.stats.nct.cdf(math.sqrt(dim - 1) / math.tan(angle), dim - freedom, snr))


def _moment_by_quadrature(dim: int, snr: float, power: int, centre: float = 0.0) -> float:
    """E (angle - centre)^power in two or three dimensions."""
    found = scipy.integrate.quad(
        lambda x: (x - centre) ** power * density_in_two_or_three(dim, snr, x),
        0,
        math.pi,
        points=[min(1 / max(snr, 0.1), 3.0)],
        epsabs=0,
        epsrel=1e-12,
        limit=200,
    )
    return float(found[0])


def _variance_without_signal(dim: int) -> float:
    """Variance of the angle to a fixed direction, by the recursion in steps of two dimensions."""
    start = math.pi**2 / 12 if dim % 2 == 0 else math.pi**2 / 4 - 2
    return start - sum(2 / k**2 for k in range(2 + dim % 2, dim, 2))


_EDGES = (0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.1)


def _normal_bin_law() -> Array:
    """Normal law with the asymptotic mean and variance."""
    angle = gradients.DistortionAngle(5, snr=2.0)
    found = scipy.stats.norm.cdf(_EDGES, angle.asymptotic_mean(), math.sqrt(angle.asymptotic_var()))
    return np.diff(np.concatenate([[0.0], found, [1.0]]))


def _change_of_law(dim: int, share: float, factor: float) -> Array:
    """Relative change of P(angle <= x) as snr = share sqrt(dim) rises, at the mean and up to 8 spreads about it."""
    low, high = (gradients.DistortionAngle(dim, snr=f * share * math.sqrt(dim)) for f in (1.0, factor))
    mean, spread = low.asymptotic_mean(), math.sqrt(low.asymptotic_var())
    x = np.clip(mean + spread * np.arange(-8.0, 9.0), 1e-3 * mean, math.pi)
    return np.asarray(high.cdf(x) / low.cdf(x) - 1)


def _mean_error(dim: float, share: float) -> float:
    """(d - 1) times the relative error of the asymptotic mean."""
    d = round(dim)
    angle = gradients.DistortionAngle(d, snr=share * math.sqrt(d))
    return (d - 1) * (angle.asymptotic_mean() / angle.mean() - 1)


def _var_error(dim: float, share: float) -> float:
    """d times the relative error of the asymptotic variance."""
    d = round(dim)
    angle = gradients.DistortionAngle(d, snr=share * math.sqrt(d))
    return d * (angle.asymptotic_var() / angle.var() - 1)


def _within(low: float, high: float, error: float) -> float:
    return min(error - low, high - error)


def _tighter_asymptotic_slack(dim: float, share: float) -> float:
    """Wrong statement: the bounds on the errors a little closer to 0."""
    return min(_within(-0.08, 0.25, _mean_error(dim, share)), _within(-1.12, 0.74, _var_error(dim, share)))


def _near_mode(dim: int, share: float, turn: float) -> float:
    """A typical angle at snr = share sqrt(dim): ``turn`` standard deviations beside arctan(1 / share)."""
    return math.atan2(1.0, share) + turn * math.sqrt((1 + share**2 / 2) / dim) / (1 + share**2)


def _across(dim: int, snr: float, what: str, x: float) -> float:
    """P(angle > x) = E Phi(r cot x - snr), r the length of the noise across the signal, by equally likely values of r."""
    r = np.sqrt(2.0 * gammaincinv((dim - 1) / 2, (np.arange(20_000) + 0.5) / 20_000))
    at = r / math.tan(x) - snr
    if what == "density":
        return float((np.exp(-(at**2) / 2) * r).mean()) / math.sqrt(2 * math.pi) / math.sin(x) ** 2
    return float(ndtr(at if what == "sf" else -at).mean())


row = new_row(
    id="lf.angle_law",
    source=Source("lf", "new, on Definition 3.2"),
    verdict=Verdict.HOLDS,
    calculators=(
        gradients.DistortionAngle.cdf,
        gradients.DistortionAngle.sf,
        gradients.DistortionAngle.density,
        gradients.DistortionAngle.mean,
        gradients.DistortionAngle.var,
        gradients.DistortionAngle.asymptotic_mean,
        gradients.DistortionAngle.asymptotic_var,
    ),
    figure="angle_law",
)


@row.equal(
    lambda: [(d, k, x) for d in (2, 3, 12, 60) for k in (0.1, 1.0, 6.0) for x in (0.3, 0.9, 1.4, 2.0)],
    tolerance=1e-7,  # SciPy's
)
def _(d: int, k: float, x: float) -> Sides:
    """noncentral t, lower tail"""
    return gradients.DistortionAngle(d, snr=k).cdf(x), lambda: _noncentral_t(d, k, x), _noncentral_t(d + 1, k, x, 2)


@row.equal(
    lambda: [(d, k, x) for d in (2, 3, 12, 60) for k in (0.1, 1.0, 2.0) for x in (0.3, 0.9, 1.4, 1.6)], tolerance=1e-7
)
def _(d: int, k: float, x: float) -> Sides:
    """noncentral t, upper tail"""
    return (
        gradients.DistortionAngle(d, snr=k).sf(x),
        lambda: _noncentral_t_above(d, k, x),
        _noncentral_t_above(d + 1, k, x, 2),
    )


@row.equal(
    lambda: [(d, k, x) for d in (2, 3) for k in (0.0, 0.5, 3.0, 10.0) for x in (0.05, 0.7, 1.5)], tolerance=1e-12
)
def _(d: int, k: float, x: float) -> Sides:
    """density in the plane and in space"""
    return (
        gradients.DistortionAngle(d, snr=k).density(x),
        density_in_two_or_three(d, k, x),
        density_in_two_or_three(5 - d, k, x),
    )


@row.law(partial(angle_bins, dim=5, snr=2.0, edges=_EDGES), wrong=_normal_bin_law, row_bytes=120)
def _() -> Array:
    """d = 5, snr = 2: nine bins"""
    return np.diff(np.concatenate([[0.0], gradients.DistortionAngle(5, snr=2.0).cdf(_EDGES), [1.0]]))


@row.equal(lambda: [(d, k) for d in (2, 3) for k in (0.0, 0.3, 2.0, 15.0)], tolerance=1e-10)
def _(d: int, k: float) -> Sides:
    """mean in the plane and in space"""
    return (
        gradients.DistortionAngle(d, snr=k).mean(),
        lambda: _moment_by_quadrature(d, k, 1),
        gradients.DistortionAngle(d, snr=k).asymptotic_mean(),
    )


@row.equal(lambda: [(d, k) for d in (2, 3) for k in (0.0, 0.3, 2.0, 15.0)], tolerance=1e-10)
def _(d: int, k: float) -> Sides:
    """variance in the plane and in space"""
    return (
        gradients.DistortionAngle(d, snr=k).var(),
        lambda: _moment_by_quadrature(d, k, 2, _moment_by_quadrature(d, k, 1)),
        gradients.DistortionAngle(d, snr=k).asymptotic_var(),
    )


@row.equal(lambda: [(d,) for d in (2, 3, 10, 11, 50)], tolerance=1e-11)
def _(d: int) -> Sides:
    """variance without a signal"""
    return gradients.DistortionAngle(d, snr=0.0).var(), _variance_without_signal(d), 1 / d


@row.equal(lambda: [(float(d), s) for d in (2, 10, 1000, 10**6) for s in (0.01, 0.3, 1.0, 3.0, 100.0)])
def _(d: float, s: float) -> Sides:
    """asymptotic forms at some sizes"""
    return _asymptotic_slack(d, s) >= 0, True, lambda: _tighter_asymptotic_slack(d, s) >= 0


@row.equal(
    lambda: itertools.product((2, 3, 10, 1000, 10**6, 10**9), (1e-3, 0.03, 0.3, 1.0, 3.0, 30.0, 1e3), (1.01, 1.5))
)
def _(dim: int, share: float, factor: float) -> Sides:
    """falls in law as snr rises"""
    change = _change_of_law(dim, share, factor)
    it_rises = bool(change.max() <= 1e-9)
    return bool(change.min() >= -1e-9), True, it_rises


@row.inequality({"dim": Range(2, 1e8, log=True), "share": Range(1e-4, 1e4, log=True)}, wrong=_tighter_asymptotic_slack)
def _asymptotic_slack(dim: float, share: float) -> float:
    """errors of the asymptotic forms"""
    return min(_within(-0.09, 0.26, _mean_error(dim, share)), _within(-1.13, 0.76, _var_error(dim, share)))


@row.equal(
    lambda: itertools.product((20_000, 10**6), (0.1, 1.0, 4.0), ("cdf", "sf", "density"), (-0.7, 0.0, 0.7)),
    tolerance=2e-3,
)
def _(d: int, share: float, what: str, turn: float) -> Sides:
    """both tails and the density at users' sizes: quadrature over the noise across the signal"""
    return (
        getattr(gradients.DistortionAngle(d, snr=share * math.sqrt(d)), what)(_near_mode(d, share, turn)),
        lambda: _across(d, share * math.sqrt(d), what, _near_mode(d, share, turn)),
        lambda: _across(d, 1.01 * share * math.sqrt(d), what, _near_mode(d, share, turn)),
    )
