import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf._batches import angle_bins, density_in_two_or_three, private_cosines


def printed_mean_factor(batch_size: int) -> Fraction:
    """E s^U over the mean gradient as Definition 3.1 is printed: B + 1 terms over B."""
    return Fraction(batch_size + 1, batch_size)


def _mean_signal(gradients: tuple[int, ...], batch_size: int, terms: int) -> Fraction:
    """E of 1/B times the sum of ``terms`` gradients, over all ordered draws with replacement."""
    draws = list(itertools.product(gradients, repeat=terms))
    return Fraction(sum(sum(draw) for draw in draws), len(draws) * batch_size)


def _mean(values: tuple[int, ...]) -> Fraction:
    return Fraction(sum(values), len(values))


def3_1 = new_row(
    id="lf.def3.1",
    source=Source("lf", "Definition 3.1"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_mean_factor,
)


@def3_1.equal(lambda: [(values, size) for values in ((1, 2), (3, -1, 4), (-2, 5)) for size in (1, 2, 4)])
def _(values: tuple[int, ...], size: int) -> Sides:
    """mean over all batches, in fractions"""
    return _mean(values), _mean_signal(values, size, size), printed_mean_factor(size) * _mean(values)


@def3_1.equal(
    lambda: [(values, size) for values in ((1, 2), (3, -1, 4)) for size in (1, 2, 4)], kind=Kind.COUNTEREXAMPLE
)
def _(values: tuple[int, ...], size: int) -> Sides:
    """what the printed sum estimates"""
    return printed_mean_factor(size) * _mean(values), _mean_signal(values, size, size + 1), _mean(values)


Plane = tuple[Fraction, Fraction]


def _decrease(signal: Plane, eta: Fraction, tau: Fraction) -> Fraction:
    """f(theta) - E f(theta - eta (s + z)) for f = |theta|^2 / 2 at theta = (1, 0), z = +-tau in each coordinate."""
    total = Fraction(0)
    for first, second in itertools.product((tau, -tau), repeat=2):
        total += ((1 - eta * (signal[0] + first)) ** 2 + (eta * (signal[1] + second)) ** 2) / 2
    return Fraction(1, 2) - total / 4


def _smaller_angle_helps(first: Plane, second: Plane, eta: Fraction, tau: Fraction) -> bool:
    """Does the signal with the smaller angle to (1, 0) give the larger decrease?"""
    closer, other = sorted((first, second), key=lambda signal: signal[0] ** 2 / _norm2(signal), reverse=True)
    return _decrease(closer, eta, tau) >= _decrease(other, eta, tau)


_SIGNALS = tuple(
    ((Fraction(a), Fraction(b)), (Fraction(c), Fraction(d)), Fraction(1, 2), tau)
    for a, b, c, d in (
        # of one norm
        ("1", "0", "3/5", "4/5"),
        ("4/5", "3/5", "3/5", "4/5"),
        ("12/13", "5/13", "3/5", "4/5"),
        # of two
        ("1/100", "0", "9/10", "3/10"),
        ("1/10", "0", "1/2", "1/4"),
    )
    for tau in (Fraction(0), Fraction(1, 3))
)
"""Pairs of signals, eta and tau."""


def _norm2(signal: Plane) -> Fraction:
    return signal[0] ** 2 + signal[1] ** 2


angle_metric = new_row(
    id="lf.angle_metric",
    source=Source("lf", "Section 3.3, after Lemma 3.1"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
)


@angle_metric.equal(lambda: _SIGNALS, kind=Kind.COUNTEREXAMPLE)
def _(first: Plane, second: Plane, eta: Fraction, tau: Fraction) -> Sides:
    """smaller angle, larger decrease? In fractions"""
    return _norm2(first) == _norm2(second), lambda: _smaller_angle_helps(first, second, eta, tau), True


@angle_metric.equal(lambda: [(first, eta, tau) for first, _, eta, tau in _SIGNALS])
def _(s: Plane, eta: Fraction, tau: Fraction) -> Sides:
    """decrease from angle, norm and noise, in fractions"""
    second_moment_of_appendix_a = tau**2
    return (
        eta * s[0] - eta**2 / 2 * (_norm2(s) + 2 * tau**2),
        lambda: _decrease(s, eta, tau),
        eta * s[0] - eta**2 / 2 * second_moment_of_appendix_a,
    )


def printed_angle(bias_angle: float, noise_angle: float) -> float:
    """The decomposition of Definition 3.2."""
    return bias_angle + noise_angle


_PYTHAGOREAN = tuple(
    (Fraction(cosine, size), Fraction(sine, size))
    for cosine, sine, size in ((4, 3, 5), (12, 5, 13), (15, 8, 17), (-12, 35, 37))
)


def _angle_at(bias: float, noise: float, twist: float) -> float:
    """Angle of e_1 with a vector at angle ``noise`` from one at angle ``bias``, turned out of their plane by ``twist``."""
    first = np.array([1.0, 0.0, 0.0])
    along, across = np.array([math.cos(bias), math.sin(bias), 0.0]), np.array([-math.sin(bias), math.cos(bias), 0.0])
    side = math.cos(twist) * across + math.sin(twist) * np.array([0.0, 0.0, 1.0])
    private = math.cos(noise) * along + math.sin(noise) * side
    return 2 * math.atan2(float(np.linalg.norm(private - first)), float(np.linalg.norm(private + first)))


def _kummer(dim: int, snr: float) -> float:
    scale = math.exp(scipy.special.gammaln((dim + 1) / 2) - scipy.special.gammaln(dim / 2 + 1)) / math.sqrt(2)
    return snr * scale * float(scipy.special.hyp1f1(0.5, dim / 2 + 1, -(snr**2) / 2))


_ANGLE = Range(0.0, math.pi)


def _mean_cos(dim: int, snr: float) -> float:
    """E (snr + z) / sqrt((snr + z)^2 + r^2), z normal and r the length of the noise across the signal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    r2 = 2.0 * scipy.special.gammaincinv((dim - 1) / 2, (np.arange(4000) + 0.5) / 4000)
    along = (snr + nodes)[:, None]
    return float((weights / weights.sum()) @ (along / np.sqrt(along**2 + r2)).mean(axis=1))


def3_2 = new_row(
    id="lf.def3.2",
    source=Source("lf", "Definition 3.2"),
    verdict=Verdict.FALSE,
    severity=Severity.SERIOUS,
    kernel_theorems=("printed_is_false",),
    printed=printed_angle,
    calculators=(gradients.angle_range, gradients.batch_expected_cos),
)


@def3_2.equal(lambda: [(b, n) for b in _PYTHAGOREAN for n in _PYTHAGOREAN], tolerance=1e-12, kind=Kind.COUNTEREXAMPLE)
def _(b: tuple[Fraction, Fraction], n: tuple[Fraction, Fraction]) -> Sides:
    """noise that turns the signal back: cosines in fractions"""
    folded_back, cosine_of_the_sum = b[0] * n[0] + b[1] * n[1], b[0] * n[0] - b[1] * n[1]
    found = gradients.angle_range(bias_angle=math.atan2(b[1], b[0]), noise_angle=math.atan2(n[1], n[0]))
    return math.cos(found[0]), folded_back, cosine_of_the_sum


@def3_2.inequality(
    {"bias": _ANGLE, "noise": _ANGLE, "twist": _ANGLE},
    # wrong: The printed statement
    wrong=lambda bias, noise, twist: -abs(_angle_at(bias, noise, twist) - printed_angle(bias, noise)),
)
def _range_slack(bias: float, noise: float, twist: float) -> float:
    """range of the angle"""
    low, high = gradients.angle_range(bias_angle=bias, noise_angle=noise)
    found = _angle_at(bias, noise, twist)
    return min(found - float(low), float(high) - found)


@def3_2.inequality(
    {"bias": _ANGLE, "noise": _ANGLE},
    # wrong: The printed statement where the noise turns the signal away from the gradient
    wrong=lambda bias, noise: -abs(_angle_at(bias, noise, 0.0) - printed_angle(bias, noise)),
)
def _end_slack(bias: float, noise: float) -> float:
    """both ends of the range are taken"""
    low, high = gradients.angle_range(bias_angle=bias, noise_angle=noise)
    return -max(abs(_angle_at(bias, noise, math.pi) - float(low)), abs(_angle_at(bias, noise, 0.0) - float(high)))


@def3_2.mean(
    partial(private_cosines, dim=20, snr=4.0, cos_bias=0.6),
    wrong=lambda: math.cos(printed_angle(math.acos(0.6), gradients.DistortionAngle(20, snr=4.0).mean())),
    row_bytes=480,
)
def _() -> float:
    """E cos given the batch, d = 20, snr = 4"""
    return float(gradients.batch_expected_cos(cos_bias=0.6, dim=20, snr=4.0))


@def3_2.equal(lambda: [(dim, snr) for dim in (1, 2, 7, 100) for snr in (0.01, 1.0, 5.0)], tolerance=1e-12)
def _(dim: int, snr: float) -> Sides:
    """A_d as a confluent hypergeometric function"""
    return gradients.batch_expected_cos(cos_bias=1.0, dim=dim, snr=snr), _kummer(dim, snr), _kummer(dim + 1, snr)


@def3_2.equal(
    lambda: [(c, d, share) for c in (1.0, 0.3, -0.5) for d in (20_000, 10**6) for share in (0.01, 0.5, 3.0)],
    tolerance=1e-5,
)
def _(c: float, d: int, share: float) -> Sides:
    """E cos given the batch at users' sizes: quadrature over both parts of the noise"""
    return (
        gradients.batch_expected_cos(cos_bias=c, dim=d, snr=share * math.sqrt(d)),
        lambda: c * _mean_cos(d, share * math.sqrt(d)),
        lambda: c * _mean_cos(d, 1.01 * share * math.sqrt(d)),
    )


def _noncentral_t(dim: int, snr: float, angle: float, freedom: int = 1, above: bool = False) -> float:
    """P(angle <= ``angle``), or of the angle above it, as an upper or lower tail of noncentral t."""
    tail = scipy.stats.nct.cdf if above else scipy.stats.nct.sf
    return float(tail(math.sqrt(dim - 1) / math.tan(angle), dim - freedom, snr))


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


def _near_mode(dim: int, share: float, turn: float) -> float:
    """A typical angle at snr = share sqrt(dim): ``turn`` standard deviations beside arctan(1 / share)."""
    return math.atan2(1.0, share) + turn * math.sqrt((1 + share**2 / 2) / dim) / (1 + share**2)


def _across(dim: int, snr: float, what: str, x: float) -> float:
    """P(angle > x) = E Phi(r cot x - snr), r the length of the noise across the signal, by equally likely values of r."""
    r = np.sqrt(2.0 * scipy.special.gammaincinv((dim - 1) / 2, (np.arange(20_000) + 0.5) / 20_000))
    at = r / math.tan(x) - snr
    if what == "density":
        return float((np.exp(-(at**2) / 2) * r).mean()) / math.sqrt(2 * math.pi) / math.sin(x) ** 2
    return float(scipy.special.ndtr(at if what == "sf" else -at).mean())


angle_law = new_row(
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


@angle_law.equal(
    lambda: [(d, k, x) for d in (2, 3, 12, 60) for k in (0.1, 1.0, 6.0) for x in (0.3, 0.9, 1.4, 2.0)],
    tolerance=1e-7,  # SciPy's
)
def _(d: int, k: float, x: float) -> Sides:
    """noncentral t, lower tail"""
    return gradients.DistortionAngle(d, snr=k).cdf(x), lambda: _noncentral_t(d, k, x), _noncentral_t(d + 1, k, x, 2)


@angle_law.equal(
    lambda: [(d, k, x) for d in (2, 3, 12, 60) for k in (0.1, 1.0, 2.0) for x in (0.3, 0.9, 1.4, 1.6)], tolerance=1e-7
)
def _(d: int, k: float, x: float) -> Sides:
    """noncentral t, upper tail"""
    above = partial(_noncentral_t, above=True)
    return gradients.DistortionAngle(d, snr=k).sf(x), lambda: above(d, k, x), above(d + 1, k, x, 2)


@angle_law.equal(
    lambda: [(d, k, x) for d in (2, 3) for k in (0.0, 0.5, 3.0, 10.0) for x in (0.05, 0.7, 1.5)], tolerance=1e-12
)
def _(d: int, k: float, x: float) -> Sides:
    """density in the plane and in space"""
    stated = gradients.DistortionAngle(d, snr=k).density(x)
    return stated, density_in_two_or_three(d, k, x), density_in_two_or_three(5 - d, k, x)


@angle_law.law(partial(angle_bins, dim=5, snr=2.0, edges=_EDGES), wrong=_normal_bin_law, row_bytes=120)
def _() -> Array:
    """d = 5, snr = 2: nine bins"""
    return np.diff(np.concatenate([[0.0], gradients.DistortionAngle(5, snr=2.0).cdf(_EDGES), [1.0]]))


@angle_law.equal(lambda: [(d, k) for d in (2, 3) for k in (0.0, 0.3, 2.0, 15.0)], tolerance=1e-10)
def _(d: int, k: float) -> Sides:
    """mean in the plane and in space"""
    angle = gradients.DistortionAngle(d, snr=k)
    return angle.mean(), lambda: _moment_by_quadrature(d, k, 1), angle.asymptotic_mean()


@angle_law.equal(lambda: [(d, k) for d in (2, 3) for k in (0.0, 0.3, 2.0, 15.0)], tolerance=1e-10)
def _(d: int, k: float) -> Sides:
    """variance in the plane and in space"""
    angle = gradients.DistortionAngle(d, snr=k)
    found = partial(_moment_by_quadrature, d, k)
    return angle.var(), lambda: found(2, found(1)), angle.asymptotic_var()


@angle_law.equal(lambda: [(d,) for d in (2, 3, 10, 11, 50)], tolerance=1e-11)
def _(d: int) -> Sides:
    """variance without a signal"""
    start = math.pi**2 / 4 - 2 if d % 2 else math.pi**2 / 12
    by_two_dimensions = start - sum(2 / k**2 for k in range(2 + d % 2, d, 2))
    return gradients.DistortionAngle(d, snr=0.0).var(), by_two_dimensions, 1 / d


@angle_law.equal(lambda: [(float(d), s) for d in (2, 10, 1000, 10**6) for s in (0.01, 0.3, 1.0, 3.0, 100.0)])
def _(d: float, s: float) -> Sides:
    """asymptotic forms at some sizes"""
    return _asymptotic_slack(d, s) >= 0, True, lambda: _asymptotic_slack(d, s, **_TIGHTER) >= 0


@angle_law.equal(
    lambda: itertools.product((2, 3, 10, 1000, 10**6, 10**9), (1e-3, 0.03, 0.3, 1.0, 3.0, 30.0, 1e3), (1.01, 1.5))
)
def _(dim: int, share: float, factor: float) -> Sides:
    """falls in law as snr rises"""
    change = _change_of_law(dim, share, factor)
    it_rises = bool(change.max() <= 1e-9)
    return bool(change.min() >= -1e-9), True, it_rises


_Ends = tuple[float, float]
_TIGHTER: dict[str, _Ends] = {"of_mean": (-0.08, 0.25), "of_variance": (-1.12, 0.74)}
"""Wrong statement: errors a little closer to 0."""


def _asymptotic_slack(
    dim: float, share: float, of_mean: _Ends = (-0.09, 0.26), of_variance: _Ends = (-1.13, 0.76)
) -> float:
    """errors of the asymptotic forms"""
    mean, variance = _mean_error(dim, share), _var_error(dim, share)
    return min(mean - of_mean[0], of_mean[1] - mean, variance - of_variance[0], of_variance[1] - variance)


angle_law.inequality(
    {"dim": Range(2, 1e8, log=True), "share": Range(1e-4, 1e4, log=True)},
    wrong=lambda dim, share: _asymptotic_slack(dim, share, **_TIGHTER),
)(_asymptotic_slack)


@angle_law.equal(
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
