"""LF: the law of the distortion angle, exact and monotone."""

import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import gammaincinv, gammaln, hyp1f1, ndtr
from scipy.stats import nct, norm

from dptheory import gradients
from dptheory.checks import ExactCheck, Kind, LawCheck, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.lf import _noise_angle
from dptheory.claims.lf._angle_samples import angle_bins, density_in_two_or_three, private_cosines

Array = NDArray[np.float64]

# --- lf.def3.2 --------------------------------------------------------------------------------------------------------


def printed_angle(bias_angle: float, noise_angle: float) -> float:
    """The decomposition of Definition 3.2."""
    return bias_angle + noise_angle


_PYTHAGOREAN = tuple(
    (Fraction(cosine, size), Fraction(sine, size))
    for cosine, sine, size in ((4, 3, 5), (12, 5, 13), (15, 8, 17), (-12, 35, 37))
)


def _angle_of(point: tuple[Fraction, Fraction]) -> float:
    return math.atan2(point[1], point[0])


def _folded_back(bias: tuple[Fraction, Fraction], noise: tuple[Fraction, Fraction]) -> Fraction:
    """Cosine of the angle of s^P with the first axis: the noise turns s^B back towards it, in the plane."""
    return bias[0] * noise[0] + bias[1] * noise[1]


def _angle_at(bias: float, noise: float, twist: float) -> float:
    """Angle of e_1 with a vector at angle ``noise`` from one at angle ``bias``, turned out of their plane by ``twist``."""
    first = np.array([1.0, 0.0, 0.0])
    along, across = np.array([math.cos(bias), math.sin(bias), 0.0]), np.array([-math.sin(bias), math.cos(bias), 0.0])
    side = math.cos(twist) * across + math.sin(twist) * np.array([0.0, 0.0, 1.0])
    private = math.cos(noise) * along + math.sin(noise) * side
    return 2 * math.atan2(float(np.linalg.norm(private - first)), float(np.linalg.norm(private + first)))


def _range_slack(bias: float, noise: float, twist: float) -> float:
    low, high = gradients.angle_range(bias, noise)
    found = _angle_at(bias, noise, twist)
    return min(found - float(low), float(high) - found)


def _sum_slack(bias: float, noise: float, twist: float) -> float:
    """The printed statement."""
    return -abs(_angle_at(bias, noise, twist) - printed_angle(bias, noise))


def _end_slack(bias: float, noise: float) -> float:
    """Both ends are taken, in the plane."""
    low, high = gradients.angle_range(bias, noise)
    return -max(abs(_angle_at(bias, noise, math.pi) - float(low)), abs(_angle_at(bias, noise, 0.0) - float(high)))


def _printed_end_slack(bias: float, noise: float) -> float:
    """The printed statement where the noise turns the signal away from the gradient."""
    return -abs(_angle_at(bias, noise, 0.0) - printed_angle(bias, noise))


def _kummer(dim: int, snr: float) -> float:
    scale = math.exp(gammaln((dim + 1) / 2) - gammaln(dim / 2 + 1)) / math.sqrt(2)
    return snr * scale * float(hyp1f1(0.5, dim / 2 + 1, -(snr**2) / 2))


_ANGLE = Range(0.0, math.pi)


def _mean_cos(dim: int, snr: float) -> float:
    """E (snr + z) / sqrt((snr + z)^2 + r^2), z normal and r the length of the noise across the signal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    r2 = 2.0 * gammaincinv((dim - 1) / 2, (np.arange(4000) + 0.5) / 4000)
    along = (snr + nodes)[:, None]
    return float((weights / weights.sum()) @ (along / np.sqrt(along**2 + r2)).mean(axis=1))


_DEF32 = Claim(
    id="lf.def3.2",
    title="decomposition of the angle",
    source=Source("lf", "Definition 3.2"),
    statement=r"The angle between $\nabla f$ and $s^P = s^B + z$ is the sum of that between $\nabla f$ and $s^B$ and that between "
    r"$s^B$ and $s^P$: $\gamma = \gamma^B + \gamma^{BP}$.",
    verdict=Verdict.FALSE,
    conditions=("no vector is 0", "z ~ N(0, tau^2 I) given the batch, for the mean"),
    correction=r"$|\gamma^B-\gamma^{BP}|\le\gamma\le\min(\gamma^B+\gamma^{BP}, 2\pi-\gamma^B-\gamma^{BP})$, and both ends are taken. "
    r"For $0<\gamma^B<\pi$, $d\ge3$ the printed sum has probability 0. Exactly, given the batch: "
    r"$E\cos\gamma = \cos\gamma^B A_d(\kappa)$, $\kappa = \|s^B\|/\tau$, "
    r"$A_d(\kappa) = \kappa\frac{\Gamma((d+1)/2)}{\sqrt2\Gamma(d/2+1)}{}_1F_1(\frac12;\frac d2+1;-\frac{\kappa^2}2)$.",
    printed=printed_angle,
    calculators=(gradients.angle_range, gradients.batch_expected_cos),
    checks=(
        ExactCheck(
            name="noise that turns the signal back: cosines in fractions",
            cases=lambda: [(b, n) for b in _PYTHAGOREAN for n in _PYTHAGOREAN],
            truth=_folded_back,
            statement=lambda b, n: math.cos(gradients.angle_range(_angle_of(b), _angle_of(n))[0]),
            wrong=lambda b, n: b[0] * n[0] - b[1] * n[1],  # cosine of the sum
            tolerance=1e-12,
            kind=Kind.COUNTEREXAMPLE,
        ),
        SearchCheck(
            name="range of the angle",
            box={"bias": _ANGLE, "noise": _ANGLE, "twist": _ANGLE},
            slack=_range_slack,
            wrong=_sum_slack,
        ),
        SearchCheck(
            name="both ends of the range are taken",
            box={"bias": _ANGLE, "noise": _ANGLE},
            slack=_end_slack,
            wrong=_printed_end_slack,
        ),
        MeanCheck(
            name="E cos given the batch, d = 20, snr = 4",
            sampler=partial(private_cosines, dim=20, snr=4.0, cos_bias=0.6),
            claimed=lambda: float(gradients.batch_expected_cos(0.6, 20, 4.0)),
            wrong=lambda: math.cos(printed_angle(math.acos(0.6), gradients.DistortionAngle(20, 4.0).mean())),
            row_bytes=480,
        ),
        ExactCheck(
            name="A_d as a confluent hypergeometric function",
            cases=lambda: [(dim, snr) for dim in (1, 2, 7, 100) for snr in (0.01, 1.0, 5.0)],
            truth=_kummer,
            statement=lambda dim, snr: float(gradients.batch_expected_cos(1.0, dim, snr)),
            wrong=lambda dim, snr: _kummer(dim + 1, snr),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="E cos given the batch at users' sizes: quadrature over both parts of the noise",
            cases=lambda: [
                (c, d, share) for c in (1.0, 0.3, -0.5) for d in (20_000, 10**6) for share in (0.01, 0.5, 3.0)
            ],
            truth=lambda c, d, share: c * _mean_cos(d, share * math.sqrt(d)),
            statement=lambda c, d, share: float(gradients.batch_expected_cos(c, d, share * math.sqrt(d))),
            wrong=lambda c, d, share: c * _mean_cos(d, 1.01 * share * math.sqrt(d)),
            tolerance=1e-5,
        ),
    ),
    proved=True,
)

# --- lf.angle_law -----------------------------------------------------------------------------------------------------


def _noncentral_t(dim: int, snr: float, angle: float, freedom: int = 1) -> float:
    """P(angle <= ``angle``) as an upper tail of noncentral t."""
    return float(nct.sf(math.sqrt(dim - 1) / math.tan(angle), dim - freedom, snr))


def _noncentral_t_above(dim: int, snr: float, angle: float, freedom: int = 1) -> float:
    return float(nct.cdf(math.sqrt(dim - 1) / math.tan(angle), dim - freedom, snr))


def _moment_by_quadrature(dim: int, snr: float, power: int, centre: float = 0.0) -> float:
    """E (angle - centre)^power in two or three dimensions."""
    found = quad(
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


def _bin_law() -> Array:
    found = np.concatenate([[0.0], gradients.DistortionAngle(5, 2.0).cdf(_EDGES), [1.0]])
    return np.diff(found)


def _normal_bin_law() -> Array:
    """Normal law with the asymptotic mean and variance."""
    angle = gradients.DistortionAngle(5, 2.0)
    found = norm.cdf(_EDGES, angle.asymptotic_mean(), math.sqrt(angle.asymptotic_var()))
    return np.diff(np.concatenate([[0.0], found, [1.0]]))


def _change_of_law(dim: int, share: float, factor: float) -> Array:
    """Relative change of P(angle <= x) as snr = share sqrt(dim) rises, at the mean and up to 8 spreads about it."""
    low, high = (gradients.DistortionAngle(dim, f * share * math.sqrt(dim)) for f in (1.0, factor))
    mean, spread = low.asymptotic_mean(), math.sqrt(low.asymptotic_var())
    x = np.clip(mean + spread * np.arange(-8.0, 9.0), 1e-3 * mean, math.pi)
    return np.asarray(high.cdf(x) / low.cdf(x) - 1)


def _mean_error(dim: float, share: float) -> float:
    """(d - 1) times the relative error of the asymptotic mean."""
    d = round(dim)
    angle = gradients.DistortionAngle(d, share * math.sqrt(d))
    return (d - 1) * (angle.asymptotic_mean() / angle.mean() - 1)


def _var_error(dim: float, share: float) -> float:
    """d times the relative error of the asymptotic variance."""
    d = round(dim)
    angle = gradients.DistortionAngle(d, share * math.sqrt(d))
    return d * (angle.asymptotic_var() / angle.var() - 1)


def _within(low: float, high: float, error: float) -> float:
    return min(error - low, high - error)


def _asymptotic_slack(dim: float, share: float) -> float:
    return min(_within(-0.09, 0.26, _mean_error(dim, share)), _within(-1.13, 0.76, _var_error(dim, share)))


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


_LAW = Claim(
    id="lf.angle_law",
    title="law of the noise angle",
    source=Source("lf", "new, on Definition 3.2"),
    ours=True,
    statement=r"Ours: for $d\ge2$, $\kappa = \|s^B\|/\tau$, $\sqrt{d-1}\cot\gamma^{BP}$ is noncentral $t$ with $d-1$ degrees of freedom and "
    r"noncentrality $\kappa$; its density is $\propto\sin^{d-2}\gamma\,\Psi_d(\kappa\cos\gamma)$, "
    r"$\Psi_n(c) = \int_0^\infty r^{n-1}e^{-r^2/2+rc}dr$. It falls in law as $\kappa$ rises. With relative error $O(1/d)$ uniformly in $\kappa$: "
    r"$E\gamma^{BP}\approx\arctan(\sqrt{d-1}/\kappa)$, $\mathrm{Var}\approx(1+\kappa^2/2d)/(d(1+\kappa^2/d)^2)$.",
    verdict=Verdict.HOLDS,
    conditions=("the batch, and so s^B, is fixed; z ~ N(0, tau^2 I)",),
    calculators=(
        gradients.DistortionAngle.cdf,
        gradients.DistortionAngle.sf,
        gradients.DistortionAngle.density,
        gradients.DistortionAngle.mean,
        gradients.DistortionAngle.var,
        gradients.DistortionAngle.asymptotic_mean,
        gradients.DistortionAngle.asymptotic_var,
    ),
    checks=(
        ExactCheck(
            name="noncentral t, lower tail",
            cases=lambda: [(d, k, x) for d in (2, 3, 12, 60) for k in (0.1, 1.0, 6.0) for x in (0.3, 0.9, 1.4, 2.0)],
            truth=_noncentral_t,
            statement=lambda d, k, x: float(gradients.DistortionAngle(d, k).cdf(x)),
            wrong=lambda d, k, x: _noncentral_t(d + 1, k, x, 2),
            tolerance=1e-7,  # SciPy's
        ),
        ExactCheck(
            name="noncentral t, upper tail",
            cases=lambda: [(d, k, x) for d in (2, 3, 12, 60) for k in (0.1, 1.0, 2.0) for x in (0.3, 0.9, 1.4, 1.6)],
            truth=_noncentral_t_above,
            statement=lambda d, k, x: float(gradients.DistortionAngle(d, k).sf(x)),
            wrong=lambda d, k, x: _noncentral_t_above(d + 1, k, x, 2),
            tolerance=1e-7,
        ),
        ExactCheck(
            name="density in the plane and in space",
            cases=lambda: [(d, k, x) for d in (2, 3) for k in (0.0, 0.5, 3.0, 10.0) for x in (0.05, 0.7, 1.5)],
            truth=density_in_two_or_three,
            statement=lambda d, k, x: float(gradients.DistortionAngle(d, k).density(x)),
            wrong=lambda d, k, x: density_in_two_or_three(5 - d, k, x),
            tolerance=1e-12,
        ),
        LawCheck(
            name="d = 5, snr = 2: nine bins",
            sampler=partial(angle_bins, dim=5, snr=2.0, edges=_EDGES),
            law=_bin_law,
            wrong=_normal_bin_law,
            row_bytes=120,
        ),
        ExactCheck(
            name="mean in the plane and in space",
            cases=lambda: [(d, k) for d in (2, 3) for k in (0.0, 0.3, 2.0, 15.0)],
            truth=lambda d, k: _moment_by_quadrature(d, k, 1),
            statement=lambda d, k: gradients.DistortionAngle(d, k).mean(),
            wrong=lambda d, k: gradients.DistortionAngle(d, k).asymptotic_mean(),
            tolerance=1e-10,
        ),
        ExactCheck(
            name="variance in the plane and in space",
            cases=lambda: [(d, k) for d in (2, 3) for k in (0.0, 0.3, 2.0, 15.0)],
            truth=lambda d, k: _moment_by_quadrature(d, k, 2, _moment_by_quadrature(d, k, 1)),
            statement=lambda d, k: gradients.DistortionAngle(d, k).var(),
            wrong=lambda d, k: gradients.DistortionAngle(d, k).asymptotic_var(),
            tolerance=1e-10,
        ),
        ExactCheck(
            name="variance without a signal",
            cases=lambda: [(d,) for d in (2, 3, 10, 11, 50)],
            truth=_variance_without_signal,
            statement=lambda d: gradients.DistortionAngle(d, 0.0).var(),
            wrong=lambda d: 1 / d,
            tolerance=1e-11,
        ),
        ExactCheck(
            name="asymptotic forms at some sizes",
            cases=lambda: [(float(d), s) for d in (2, 10, 1000, 10**6) for s in (0.01, 0.3, 1.0, 3.0, 100.0)],
            truth=lambda d, s: True,
            statement=lambda d, s: _asymptotic_slack(d, s) >= 0,
            wrong=lambda d, s: _tighter_asymptotic_slack(d, s) >= 0,
        ),
        ExactCheck(
            name="falls in law as snr rises",
            cases=lambda: itertools.product(
                (2, 3, 10, 1000, 10**6, 10**9), (1e-3, 0.03, 0.3, 1.0, 3.0, 30.0, 1e3), (1.01, 1.5)
            ),
            truth=lambda *case: True,
            statement=lambda *case: bool(_change_of_law(*case).min() >= -1e-9),
            wrong=lambda *case: bool(_change_of_law(*case).max() <= 1e-9),  # it rises
        ),
        SearchCheck(
            name="errors of the asymptotic forms",
            box={"dim": Range(2, 1e8, log=True), "share": Range(1e-4, 1e4, log=True)},
            slack=_asymptotic_slack,
            wrong=_tighter_asymptotic_slack,
        ),
        ExactCheck(
            name="both tails and the density at users' sizes: quadrature over the noise across the signal",
            cases=lambda: [
                (d, share, what, turn)
                for d in (20_000, 10**6)
                for share in (0.1, 1.0, 4.0)
                for what in ("cdf", "sf", "density")
                for turn in (-0.7, 0.0, 0.7)
            ],
            truth=lambda d, share, what, turn: _across(d, share * math.sqrt(d), what, _near_mode(d, share, turn)),
            statement=lambda d, share, what, turn: float(
                getattr(gradients.DistortionAngle(d, share * math.sqrt(d)), what)(_near_mode(d, share, turn))
            ),
            wrong=lambda d, share, what, turn: _across(
                d, 1.01 * share * math.sqrt(d), what, _near_mode(d, share, turn)
            ),
            tolerance=2e-3,
        ),
    ),
    proved=True,
    figure="angle_law",
)

CLAIMS: tuple[Claim, ...] = (_DEF32, _LAW, *_noise_angle.CLAIMS)
