import functools
import itertools
import math
import operator
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import freezing, gradients
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf._batches import (
    GROWING_LINE,
    IMPROVING,
    LENGTHS,
    LINE,
    TURNING,
    Batch,
    Block,
    Vector,
    angles_drawn,
    density_in_two_or_three,
    dot,
    half_squares,
    in_blocks,
    opposed_angles,
    private_cosines,
    signed_square_cosine,
    squares,
)
from dptheory.claims.rs._runs import spelled
from dptheory.gradients import DistortionAngle


def _bias_falls(batch: Batch) -> bool:
    """Does the bias angle of a full batch that meets the assumptions not rise? In fractions."""
    if not batch.meets_the_assumptions():
        raise ValueError(f"batch must meet the assumptions, got {batch}")
    u = batch.direction()
    after, before = (signed_square_cosine(u, batch.clipped_sum(frozen)) for frozen in (True, False))
    return after >= before


def _signals(batch: Batch, dim: int) -> tuple[Array, Array, Array]:
    """True direction, and sums of the clipped gradients before and after; embedded in R^dim."""
    u = np.array(batch.direction(), dtype=np.float64)
    before, after = (
        freezing.biased_signal(batch.rows, frozen_norms=norms, clip_norm=1.0) * len(batch.trainable)
        for norms in (batch.frozen_norms, 0.0)
    )
    pad = np.zeros(dim - batch.dim)
    return np.append(u, pad), np.append(before, pad), np.append(after, pad)


def _angle(a: Vector, b: Vector) -> float:
    return freezing.bias_angle(direction=in_blocks(a, 1), signal=in_blocks(b, 1))


_VECTORS: tuple[Block, ...] = ((1, 0, 0), (2, 1, 0), (0, 1, 3), (-3, 1, 1), (-1, -1, 2))


def _directions(lean: float, tilt: float, turn: float, length: float) -> tuple[Array, Array, Array]:
    """u, x of norm 1 at the angle lean, and w of norm length at the angle tilt to u, turned about u."""
    u, x = np.array([1.0, 0.0, 0.0]), np.array([math.cos(lean), math.sin(lean), 0.0])
    side = math.sin(tilt) * np.array([0.0, math.cos(turn), math.sin(turn)])
    return u, x, length * (math.cos(tilt) * u + side)


def _fall(u: Array, x: Array, y: Array) -> float:
    return (
        freezing.bias_angle(direction=u, signal=x) - freezing.bias_angle(direction=u, signal=y)
        if np.linalg.norm(y) > 1e-6
        else 0.0
    )


_BLOCK_ANGLES = tuple(
    (first, second) for first in ((1, 0), (3, 4), (-5, 12)) for second in ((1, 0), (8, 15), (-20, 21), (10**7, 1))
)


_BLOCK_RAYS: tuple[tuple[tuple[Block, Block, Block], float | Fraction], ...] = (
    # u, x, w and how long the angle between u and x + t w falls
    (((2, 3, 5), (1, 0, 0), (1, 3, 0)), Fraction(1)),  # u is at right angles to the plane but for x + w
    (((17, 49, 5), (3, 0, 0), (2, 7, 0)), Fraction(7)),
    (((1, 0, 0), (0, 1, 0), (1, 0, 0)), math.inf),  # towards u itself
    (((1, 2, 0), (1, 0, 0), (1, -1, 0)), 0.0),  # away from u
    (((1, 0, 0), (1, 0, 0), (0, 1, 0)), 0.0),  # x along u
    (((-1, 0, 0), (1, 0, 0), (0, 1, 0)), math.inf),  # x opposite to u
    (((1, 1, 0), (2, 0, 0), (3, 0, 0)), math.inf),  # parallel: nothing turns
    (((1, 1, 0), (7, 0, 0), (-2, 0, 0)), Fraction(7, 2)),  # the signal passes 0
    (((-1, 1, 0), (7, 0, 0), (-2, 0, 0)), math.inf),
)


def _block_turn(field: str, ray: tuple[Block, Block, Block], length: int) -> float:
    u, x, w = (in_blocks(vector, length) for vector in ray)
    return float(getattr(freezing.bias_turn(direction=u, signal=x, added=w), field))


def _rate(ray: tuple[Block, Block, Block]) -> float:
    """d cos(u, x + t w) / dt at t = 0 by a difference of fourth order, times |x| / |w|."""
    u, x, w = (in_blocks(vector, 1) for vector in ray)
    step = 1e-3 * float(np.linalg.norm(x) / np.linalg.norm(w))

    def cosine(t: float) -> float:
        y = x + t * w
        return float(u @ y / np.linalg.norm(u) / np.linalg.norm(y))

    rate = (8 * (cosine(step) - cosine(-step)) - cosine(2 * step) + cosine(-2 * step)) / (12 * step)
    return float(rate * np.linalg.norm(x) / np.linalg.norm(w))


prop3_1_1 = new_row(
    id="lf.prop3.1.1",
    source=Source("lf", "Proposition 3.1 (1)"),
    verdict=Verdict.FALSE,
    severity=Severity.SERIOUS,
    kernel_theorems=("printed_is_false",),
    calculators=(freezing.bias_turn, freezing.bias_angle, freezing.biased_signal),
)


@prop3_1_1.equal(lambda: [(batch,) for batch in (TURNING, IMPROVING, LINE)], kind=Kind.COUNTEREXAMPLE)
def _(batch: Batch) -> Sides:
    """does the bias angle fall? full batches that meet every assumption, in fractions"""
    u, *signals = _signals(batch, batch.dim)
    before, after = (freezing.bias_angle(direction=u, signal=signal) for signal in signals)
    return after <= before, _bias_falls(batch), True


@prop3_1_1.equal(
    lambda: itertools.product(((1, 0), (2, -1)), ((0, 1), (1, 3), (-1, 4)), (Fraction(1, 7), Fraction(2)), (0, 5)),
    tolerance=1e-12,
)
def _(x: tuple[int, ...], w: tuple[int, ...], limit: Fraction, off: int) -> Sides:
    """how far the angle falls, rays with a known closest point"""
    # u = x + limit w and a part at right angles to x and w
    u = [*(float(a + limit * b) for a, b in zip(x, w, strict=True)), float(off)]
    found = freezing.bias_turn(direction=u, signal=[*x, 0], added=[*w, 0])
    return found.limit, limit, found.margin


@prop3_1_1.equal(lambda: itertools.permutations(_VECTORS[:4], 3), tolerance=1e-6)
def _(u: Block, x: Block, w: Block) -> Sides:
    """the margin is the rate of the cosine"""
    only_a_closer_vector_helps = math.cos(_angle(u, w)) - math.cos(_angle(u, x))
    return _block_turn("margin", (u, x, w), 1), _rate((u, x, w)), only_a_closer_vector_helps


@prop3_1_1.equal(lambda: [(*pair, length) for pair in _BLOCK_ANGLES for length in LENGTHS], tolerance=1e-12)
def _(first: Block, second: Block, length: int) -> Sides:
    """bias angle in blocks, by a complex quotient"""
    across, along = first[0] * second[1] - first[1] * second[0], first[0] * second[0] + first[1] * second[1]
    by_hand = math.atan2(abs(across), along)
    stated = freezing.bias_angle(direction=in_blocks(first, length), signal=in_blocks(second, length))
    return stated, by_hand, math.pi - by_hand


@prop3_1_1.equal(lambda: [(*ray, length) for ray in _BLOCK_RAYS for length in LENGTHS], tolerance=1e-12)
def _(ray: tuple[Block, Block, Block], limit: float | Fraction, length: int) -> Sides:
    """how far the angle falls, in blocks, on every branch"""
    return _block_turn("limit", ray, length), limit, limit / 2 + 1


@prop3_1_1.equal(
    lambda: [(ray, length) for ray, _ in _BLOCK_RAYS if abs(_rate(ray)) > 1e-6 for length in LENGTHS],
    tolerance=1e-9,
)
def _(ray: tuple[Block, Block, Block], length: int) -> Sides:
    """margin in blocks, by differences of the cosine"""
    return _block_turn("margin", ray, length), _rate(ray), -_rate(ray)


def _limit_slack(lean: float, tilt: float, turn: float, length: float, share: float, factor: float = 1.0) -> float:
    """the angle does not rise up to the limit"""
    u, x, w = _directions(lean, tilt, turn, length)
    limit = min(freezing.bias_turn(direction=u, signal=x, added=w).limit, 10.0)
    return _fall(u, x, x + share * factor * limit * w)


prop3_1_1.inequality(
    {
        "lean": Range(0.01, 3.1),
        "tilt": Range(0.01, 3.1),
        "turn": Range(0.0, math.pi),
        "length": Range(0.1, 10.0, log=True),
        "share": Range(0.01, 1.0),
    },
    wrong=partial(_limit_slack, factor=10.0),  # up to ten times the limit
    tolerance=1e-9,
)(_limit_slack)


def _cone_slack(lean: float, share: float, turn: float, length: float) -> float:
    """the cone about the true direction"""
    u, x, w = _directions(lean, share * lean, turn, length)
    return _fall(u, x, x + w)


prop3_1_1.inequality(
    {
        "lean": Range(0.01, math.pi / 2),
        "share": Range(0.0, 1.0),
        "turn": Range(0.0, math.pi),
        "length": Range(0.01, 100.0, log=True),
    },
    # wrong: a vector a tenth further away will do
    wrong=lambda share, **point: _cone_slack(share=1.1 * share, **point),
    tolerance=1e-9,
)(_cone_slack)


# The slope of the variance of the distortion angle for a real dimension d > 1, by quadrature.
#
# With eta = pi / 2 - angle, p ~ cos^{d-2} Psi_d and rho ~ cos^{d-1} Psi_{d-1} in kappa sin(eta), folded at 0 into the even and
# odd parts of Psi: dVar / dkappa = -2 Q (E_p eta - E_rho eta) with Q > 0.


def _even_part(n: float, y: Array) -> Array:
    """int r^{n-1} e^{-r^2/2} cosh(r y) dr over that at y = 0."""
    return np.asarray(scipy.special.hyp1f1(n / 2, 0.5, y**2 / 2))


def _odd_part(n: float, y: Array) -> Array:
    """int r^{n-1} e^{-r^2/2} sinh(r y) dr over the even part at y = 0."""
    mean_norm = math.sqrt(2) * math.exp(scipy.special.gammaln((n + 1) / 2) - scipy.special.gammaln(n / 2))
    return np.asarray(mean_norm * y * scipy.special.hyp1f1((n + 1) / 2, 1.5, y**2 / 2))


def folded_means(dim: float, snr: float) -> tuple[float, float]:
    """(E_rho eta, E_p eta), for dim in (1, 100] and snr up to 30.

    sin(eta) = tanh(t) makes the integrands analytic, with exponential decay: the trapezoidal rule is exact to rounding.
    """
    end = 38 / (dim - 1) + math.log(1 + snr) + 3
    t = np.linspace(0.0, end, 1 + math.ceil(end / min(0.1, 0.4 / math.sqrt(dim))))
    eta, y, log_cos = np.arctan(np.sinh(np.minimum(t, 700.0))), snr * np.tanh(t), math.log(2) - np.logaddexp(t, -t)
    trapezoid = np.where(t == 0, 0.5, 1.0)

    def mean(n: float, power: float) -> float:
        weight = trapezoid * np.exp(power * log_cos)
        return float((weight * eta * _odd_part(n, y)).sum() / (weight * _even_part(n, y)).sum())

    # d eta = cos(eta) dt adds one to the powers.
    return mean(dim - 1, dim), mean(dim, dim - 1)


def printed_variance(dim: int, snr: float) -> float:
    """Var = E angle^2, from the printed E angle = 0."""
    return gradients.DistortionAngle(dim, snr=snr).second_moment()


def _variance_over_batches(dim: int, snrs: tuple[float, ...]) -> float:
    """Variance over equally likely batches and the noise."""
    found = [gradients.DistortionAngle(dim, snr=snr) for snr in snrs]
    means = np.array([angle.mean() for angle in found])
    return float(np.mean([angle.var() for angle in found]) + means.var())


def _rises_by_fractions(before: Fraction, after: Fraction) -> bool:
    """d = 10, two batches at snr ``before`` each; then one at ``after``: lower bound after against upper bound before.

    Before: at most the variance without a signal, pi^2 / 12 - (1 + 1/4 + 1/9 + 1/16) / 2. After: at least a quarter of the
    squared difference of the means; that at snr k is at least pi / 2 - k sqrt(pi / 2) and, for k >= 20, at most 6 / k + 1e-20.
    """
    assert after >= 20
    below, above = Fraction(31415, 10000), Fraction(31416, 10000)  # pi
    most_before = above**2 / 12 - (1 + Fraction(1, 4) + Fraction(1, 9) + Fraction(1, 16)) / 2
    apart = below / 2 - before * Fraction(126, 100) - 6 / after - Fraction(1, 10**20)
    return apart > 0 and apart**2 / 4 > most_before


def _variance_slack(dim: float, share: float, factor: float) -> float:
    d = round(dim)
    low, high = (gradients.DistortionAngle(d, snr=f * share * math.sqrt(d)).var() for f in (1.0, factor))
    return low / high - 1


prop3_1_2 = new_row(
    id="lf.prop3.1.2",
    source=Source("lf", "Proposition 3.1 (2)"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    printed=printed_variance,
    calculators=(gradients.DistortionAngle.var, gradients.DistortionAngle.mean),
)


@prop3_1_2.equal((Fraction(1, 50), Fraction(20)), kind=Kind.COUNTEREXAMPLE)
def _(before: Fraction, after: Fraction) -> Sides:
    """d = 10, two batches: snr 1/50 and 1/50 before, 1/50 and 20 after"""
    return (
        _variance_over_batches(10, (float(before), float(after)))
        > _variance_over_batches(10, (float(before), float(before))),
        _rises_by_fractions(before, after),
        False,
    )


@prop3_1_2.mean(
    partial(half_squares, draw=angles_drawn, dim=20, snr=3.0), wrong=lambda: printed_variance(20, 3.0), row_bytes=960
)
def _() -> float:
    """variance given the batch, d = 20, snr = 3"""
    return gradients.DistortionAngle(20, snr=3.0).var()


@prop3_1_2.mean(partial(angles_drawn, dim=20, snr=3.0), wrong=lambda: 0.0, row_bytes=480)
def _() -> float:
    """mean given the batch, d = 20, snr = 3"""
    return gradients.DistortionAngle(20, snr=3.0).mean()


def _slope_slack(excess: float, snr: float) -> float:
    """the slope of the variance, real dimensions"""
    rho, p = folded_means(1 + excess, snr)
    return p / rho - 1


prop3_1_2.inequality(
    {"excess": Range(0.05, 99.0, log=True), "snr": Range(1e-3, 30.0, log=True)},
    wrong=lambda excess, snr: _slope_slack(excess, snr) - 0.05,  # with a margin of 5 %
)(_slope_slack)


@prop3_1_2.equal(
    lambda: itertools.product((2, 3, 10, 1000, 10**6, 10**9), (0.01, 0.1, 0.5, 1.0, 3.0, 30.0, 1e4), (1.001, 1.1, 2.0))
)
def _(dim: int, share: float, factor: float) -> Sides:
    """the variance falls as snr rises"""
    return (
        _variance_slack(dim, share, factor) >= -1e-10,
        True,
        lambda: (1 + _variance_slack(dim, share, factor)) / factor**2 - 1 >= -1e-10,  # like 1 / snr^2 or faster
    )


_TWO = tuple(
    Batch(f"(1, 0; 0), ({first}, 14/25; sqrt 12)", ((1, 0), (Fraction(first), Fraction(14, 25))), (0, 12))
    for first in ("-48/25", "48/25")
)


def _mean_square_angle(dim: int, snr: float) -> float:
    """E of the squared angle between e and snr e + noise, from the normal part along e and the length across it."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    across = np.sqrt(2.0 * scipy.special.gammaincinv((dim - 1) / 2, (np.arange(4000) + 0.5) / 4000))
    return float((weights / weights.sum()) @ np.square(np.arctan2(across, (snr + nodes)[:, None])).mean(axis=1))


appC_second_moment = new_row(
    id="lf.appC.second_moment",
    source=Source("lf", "Appendix C, the mean squared angle"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    calculators=(gradients.DistortionAngle.second_moment,),
)


@appC_second_moment.mean(
    partial(squares, dim=30, snr=2.0), wrong=lambda: gradients.DistortionAngle(30, snr=2.0).mean() ** 2, row_bytes=720
)
def _() -> float:
    """mean squared angle, d = 30, snr = 2"""
    return gradients.DistortionAngle(30, snr=2.0).second_moment()


def _second_moment_slack(dim: float, share: float, factor: float) -> float:
    """falls as snr rises"""
    d = round(dim)
    low, high = (gradients.DistortionAngle(d, snr=f * share * math.sqrt(d)).second_moment() for f in (1.0, factor))
    return low / high - 1


appC_second_moment.inequality(
    {"dim": Range(2, 1e9, log=True), "share": Range(1e-3, 1e6, log=True), "factor": Range(1.0, 2.0)},
    # wrong: like 1 / snr^2 or faster
    wrong=lambda dim, share, factor: (_second_moment_slack(dim, share, factor) + 1) / factor**2 - 1,
    tolerance=1e-11,
)(_second_moment_slack)


@appC_second_moment.equal(lambda: itertools.product(_TWO, (0.1, 5.0)), kind=Kind.COUNTEREXAMPLE)
def _(batch: Batch, snr: float) -> Sides:
    """two samples, norms in fractions: rises where the clipped gradients cancel"""
    shorter, longer = (dot(s, s) for s in (batch.clipped_sum(False), batch.clipped_sum(True)))
    before, after = (gradients.DistortionAngle(2, snr=snr * math.sqrt(s)).second_moment() for s in (shorter, longer))
    return after < before, longer > shorter, True


@appC_second_moment.equal(lambda: [(d, share) for d in (20_000, 10**6) for share in (0.1, 1.0, 4.0)], tolerance=1e-5)
def _(d: int, share: float) -> Sides:
    """users' sizes, by quadrature over both parts of the noise"""
    return (
        gradients.DistortionAngle(d, snr=share * math.sqrt(d)).second_moment(),
        lambda: _mean_square_angle(d, share * math.sqrt(d)),
        lambda: _mean_square_angle(d, 1.01 * share * math.sqrt(d)),
    )


def printed_cosine(a: float, b: float, c: float, factor: float) -> float:
    """cos(v2, k v2 + v1) as the appendix simplifies it, with a = |v2|^2, b = <v1, v2>, c = |v1|^2, k = factor."""
    return (factor**2 * a + factor * b) / (factor * math.sqrt(a) + math.sqrt(factor**2 * a + c + 2 * factor * b))


_PAIRS = tuple(
    (v1, v2, factor)
    for v1, v2 in itertools.permutations(_VECTORS, 2)
    for factor in (Fraction(11, 10), Fraction(2), Fraction(40))
)
"""v1, v2 at acute, right and obtuse angles, and k > 1."""


def _combined(v1: Vector, v2: Vector, factor: Fraction) -> Vector:
    return tuple(factor * y + x for x, y in zip(v1, v2, strict=True))


appC_cos = new_row(
    id="lf.appC.cos",
    source=Source("lf", "Appendix C"),
    verdict=Verdict.FALSE,
    severity=Severity.SERIOUS,
    kernel_theorems=("printed_is_false",),
    printed=printed_cosine,
    calculators=(freezing.bias_angle,),
)


@appC_cos.equal(lambda: _PAIRS, kind=Kind.COUNTEREXAMPLE)
def _(v1: Vector, v2: Vector, factor: Fraction) -> Sides:
    """which angle falls? in fractions"""
    one, longer = _combined(v1, v2, Fraction(1)), _combined(v1, v2, factor)
    falls, other_falls = (signed_square_cosine(v, longer) > signed_square_cosine(v, one) for v in (v2, v1))
    return _angle(v2, longer) < _angle(v2, one), falls, other_falls


@appC_cos.equal(lambda: _PAIRS, tolerance=1e-12)
def _(v1: Vector, v2: Vector, factor: Fraction) -> Sides:
    """cosine of the angle with the longer vector"""
    longer = _combined(v1, v2, factor)
    signed_square = signed_square_cosine(v2, longer)
    return (
        math.cos(_angle(v2, longer)),
        math.copysign(math.sqrt(abs(signed_square)), signed_square),
        printed_cosine(float(dot(v2, v2)), float(dot(v1, v2)), float(dot(v1, v1)), float(factor)),
    )


# Mean and variance of the angle gamma between u and s + z, z ~ N(0, I), by densities and quadrature: the second methods.
#
# snr = |s|; bias is the angle between u and s.


def _plane_moment(snr: float, bias: float, power: int = 1, centre: float = 0.0) -> float:
    """E (gamma - centre)^power in the plane, by the density of the angle between s and s + z on both sides of s."""

    def part(angle: float) -> float:
        turned = abs(bias + angle)
        return (min(turned, 2 * math.pi - turned) - centre) ** power * density_in_two_or_three(2, snr, angle) / 2

    breaks = sorted({-math.pi, -bias, math.pi - bias, math.pi, -0.1, 0.0, 0.1})
    pieces = itertools.pairwise(breaks)
    return float(sum(scipy.integrate.quad(part, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in pieces))


def _space_mean(snr: float, bias: float) -> float:
    """E gamma in three dimensions for a signal along or against u: P(cos < x) from the noise along u and its plane."""
    sign = 1.0 if bias == 0.0 else -1.0

    def tail(angle: float) -> float:
        """P(gamma > angle) = P(k + z < |rest| cot angle), |rest| of density r exp(-r^2/2)."""
        cot = 1 / math.tan(angle)
        return float(
            scipy.integrate.quad(
                lambda r: r * math.exp(-r * r / 2) * scipy.special.ndtr(r * cot - sign * snr), 0, 12, epsabs=1e-12
            )[0]
        )

    return float(scipy.integrate.quad(tail, 1e-12, math.pi - 1e-12, epsabs=1e-10)[0])


def mean_by_density(dim: int, snr: float, bias: float) -> float:
    """E gamma up to three dimensions; in one and three the signal points along u or against it."""
    if dim == 1:
        return math.pi * float(scipy.special.ndtr(-snr if bias == 0.0 else snr))
    return _plane_moment(snr, bias) if dim == 2 else _space_mean(snr, bias)


_gauss_rule = functools.cache(np.polynomial.legendre.leggauss)
"""Nodes and weights, which cost more than the sums that take them."""


def _variance_by_tails(dim: int, snr: float, bias: float) -> float:
    """Var gamma from P(gamma <= x) = E Phi(k cos bias - R cot x), R noncentral chi of dim - 1 and k sin bias."""
    freedom, centre = dim - 1, (snr * math.sin(bias)) ** 2
    nodes, weights = _gauss_rule(200)
    top = math.sqrt(freedom + centre) + 12
    radius = 0.5 * top * (nodes + 1)
    law = (
        (scipy.stats.ncx2.pdf(radius**2, freedom, centre) if centre else scipy.stats.chi2.pdf(radius**2, freedom))
        * 2
        * radius
    )
    chances = 0.5 * top * weights * law
    at = 0.5 * math.pi * (nodes + 1)
    above = np.array([chances @ scipy.special.ndtr(radius / math.tan(x) - snr * math.cos(bias)) for x in at])
    mean, square = (float(0.5 * math.pi * weights @ (factor * above)) for factor in (1.0, 2 * at))
    return square - mean**2


def variance_by_density(dim: int, snr: float, bias: float) -> float:
    """Var gamma by the density in the plane, by tail probabilities beyond it."""
    if dim == 2:
        return _plane_moment(snr, bias, 2, _plane_moment(snr, bias))
    return _variance_by_tails(dim, snr, bias)


def mean_over_noise(dim: int, snr: float, bias: float, cosine: bool = False) -> float:
    """E gamma, or E cos gamma, over the noise along the signal's plane and the length of the rest, chi of dim - 2 >= 3.

    The angle of (snr cos(bias) + y, snr sin(bias) + z, rest) with the first axis, by products of Gauss rules.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    freedom = dim - 2
    middle = math.sqrt(freedom)
    low, high = max(0.0, middle - 9), middle + 9
    points, widths = _gauss_rule(120)
    rest = low + (high - low) / 2 * (points + 1)
    log_density = (freedom - 1) * np.log(rest / middle) - (rest**2 - middle**2) / 2
    chances = widths * np.exp(log_density)
    chances /= chances.sum()
    along = snr * math.cos(bias) + nodes[:, None, None]
    across = np.hypot(snr * math.sin(bias) + nodes[:, None], rest)
    gamma = np.arctan2(across, along)
    return float(weights @ ((np.cos(gamma) if cosine else gamma) @ chances) @ weights)


def mean_in_space(dim: int, snr: float, bias: float, cosine: bool) -> float:
    """E gamma, or E cos gamma, without bias in three dimensions, by the density that is elementary there."""

    def part(angle: float) -> float:
        return (math.cos(angle) if cosine else angle) * density_in_two_or_three(dim, snr, angle)

    return float(scipy.integrate.quad(part, 0, math.pi, epsabs=0, epsrel=1e-12, limit=200)[0])


def _stated_fall(batch: Batch, dim: int, sigma: Fraction) -> bool:
    u, *signals = _signals(batch, dim)
    turns = [(np.linalg.norm(s) / float(sigma), freezing.bias_angle(direction=u, signal=s)) for s in signals]
    before, after = (freezing.expected_angle(dim, snr=float(snr), bias_angle=bias) for snr, bias in turns)
    return after <= before


def _certified_fall(batch: Batch, dim: int, sigma: Fraction) -> bool:
    """Does E gamma fall? In fractions.

    On a line through u the signal points along u before and after, and the longer one is closer to u for every draw of the noise
    (lf.appC.cos). In the plane |gamma - gamma^B| is at most the noise angle, whose mean is at most pi E|z| / |s|; a rise of
    gamma^B by more than both means makes E gamma rise. Other batches are not decided.
    """
    if not batch.meets_the_assumptions():
        raise ValueError(f"batch must meet the assumptions, got {batch}")
    u, before, after = batch.direction(), batch.clipped_sum(False), batch.clipped_sum(True)
    if all(dot(s, s) * dot(u, u) == dot(s, u) ** 2 and dot(s, u) > 0 for s in (before, after)):
        return dot(after, after) >= dot(before, before)
    tangents = [abs(dot(s, (u[1], -u[0]))) / dot(s, u) for s in (before, after)]
    q = (tangents[1] - tangents[0]) / (1 + tangents[0] * tangents[1])
    noise = (
        Fraction(22, 7) * Fraction(3, 2) * sigma * sum(1 / max(abs(Fraction(x)) for x in s) for s in (before, after))
    )
    if dim != 2 or not q / (1 + q * q) > noise:
        raise ValueError(f"batch must be decided by the noise, got {batch}")
    return False


def _angles(rng: np.random.Generator, n: int, dim: int, snr: float, bias: float) -> Array:
    return np.asarray(np.arccos(private_cosines(rng, n, dim, snr, math.cos(bias))))


_SNRS = ((12, 0.5), (12, 8.0), (20_000, 0.5), (20_000, 150.0), (10**6, 300.0), (10**8, 2e5))
_LAYERS = ((7, 2, 1), (7, 2, 30), (70_000, 20_000, 9000), (10**7, 200, 300_000))


def _effect(sizes: Block, clip: int, alignment: Fraction) -> freezing.FreezingEffect:
    """Two samples, the first of three layers frozen, sigma = 2, B = 10."""
    run = spelled(C=clip, sigma=2.0, B=10) | ({} if alignment == 1 else {"alignment": float(alignment)})
    return freezing.freezing_effect(sizes, layer_norms=[[4, 0, 3], [12, 3, 4]], frozen_layers=1, **run)


def _effect_by_hand(field: str, sizes: Block, clip: int, alignment: Fraction) -> float | Fraction:
    """Trainable norms 3 and 5, whole norms 5 and 13."""
    when, _, name = field.partition(".")
    norms = {
        at: (3 * min(Fraction(1), Fraction(clip, first)) + 5 * min(Fraction(1), Fraction(clip, second))) / 2
        for at, (first, second) in {"before": (5, 13), "after": (3, 5)}.items()
    }
    if field == "growth":
        return norms["after"] / norms["before"]
    dim = sizes[1] + sizes[2]
    variance = Fraction(2 * clip, 10) ** 2
    snr = alignment * Fraction(norms[when]) / Fraction(2 * clip, 10)
    if name in ("noise_cos", "noise_angle"):
        mean = mean_in_space if dim == 3 else mean_over_noise
        return mean(dim, float(snr), 0.0, name == "noise_cos")
    return {
        "dim": Fraction(dim),
        "clipped_norm": Fraction(norms[when]),
        "snr": snr,
        "noise_energy": dim * variance,
        "update_noise": (sum(sizes) if when == "before" else dim) * variance,
    }[name]


def _stated_effect(field: str, sizes: Block, clip: int, alignment: Fraction) -> float:
    return float(operator.attrgetter(field)(_effect(sizes, clip, alignment)))


_OTHER = {"before": "after", "after": "before"}


def _other_half(field: str, sizes: Block, clip: int, alignment: Fraction) -> float:
    """Wrong statement: before and after exchanged."""
    when, _, name = field.partition(".")
    if not name:
        return 1 / _stated_effect(field, sizes, clip, alignment)
    return _stated_effect(f"{_OTHER[when]}.{name}", sizes, clip, alignment)


def _effect_cases(*names: str) -> list[tuple[str, Block, int, Fraction]]:
    return [
        (field, sizes, clip, alignment)
        for field in dict.fromkeys(name if name == "growth" else f"{when}.{name}" for name in names for when in _OTHER)
        for sizes in _LAYERS
        for clip, alignment in ((1, Fraction(1, 2)), (4, Fraction(1)), (20, Fraction(1, 2)))
    ]


prop3_1_3 = new_row(
    id="lf.prop3.1.3",
    source=Source("lf", "Proposition 3.1 (3)"),
    verdict=Verdict.FALSE,
    severity=Severity.SERIOUS,
    calculators=(freezing.expected_angle, freezing.freezing_effect, gradients.angle_variance),
)


@prop3_1_3.equal(
    *((batch, dim, Fraction(1)) for batch, dims in ((LINE, (1, 2, 10)), (GROWING_LINE, (1, 50))) for dim in dims),
    (TURNING, 2, Fraction(1, 100)),
    kind=Kind.COUNTEREXAMPLE,
)
def _(batch: Batch, dim: int, sigma: Fraction) -> Sides:
    """does the mean angle fall? full batches, in fractions"""
    return _stated_fall(batch, dim, sigma), _certified_fall(batch, dim, sigma), True


@prop3_1_3.equal((LINE,), (GROWING_LINE,), kind=Kind.COUNTEREXAMPLE)
def _(batch: Batch) -> Sides:
    """does the variance fall? one dimension, in fractions"""
    before, after = (abs(Fraction(batch.clipped_sum(frozen)[0])) for frozen in (False, True))
    # sigma = 1; the angle is 0 or pi
    variances = [math.pi**2 * float(scipy.special.ndtr(s) * scipy.special.ndtr(-s)) for (s,) in _signals(batch, 1)[1:]]
    return variances[1] <= variances[0], after >= before, True


@prop3_1_3.equal(
    *itertools.product((1, 3), (0.1, 2.0), (0.0, math.pi)),
    *itertools.product((2,), (0.1, 2.0), (0.0, 0.7, math.pi / 2, 2.5)),
    tolerance=1e-8,
)
def _(dim: int, snr: float, bias: float) -> Sides:
    """mean angle by densities, up to three dimensions"""
    return freezing.expected_angle(dim, snr=snr, bias_angle=bias), lambda: mean_by_density(dim, snr, bias), bias


@prop3_1_3.mean(partial(_angles, dim=20, snr=3.0, bias=0.6), wrong=lambda: 0.6, row_bytes=500)
def _() -> float:
    """mean angle, d = 20, snr = 3, bias 0.6"""
    return freezing.expected_angle(20, snr=3.0, bias_angle=0.6)


@prop3_1_3.equal(
    *itertools.product((2,), (0.1, 2.0, 10.0), (0.3, math.pi / 2, 2.5)),
    *itertools.product((3, 5, 20, 200), (0.5, 5.0), (0.0, 0.3, 2.5)),
    tolerance=1e-7,
)
def _(dim: int, snr: float, bias: float) -> Sides:
    """variance with a bias angle, by densities and by tail probabilities"""
    without_bias = DistortionAngle(dim, snr=snr).var()
    return (
        gradients.angle_variance(dim, snr=snr, bias_angle=bias),
        lambda: variance_by_density(dim, snr, bias),
        without_bias,
    )


@prop3_1_3.equal((10**6, 1e9, 0.7), (10**6, 1e9, 2.0), (10**9, 1e30, 1.0), (7, 1e40, 1e-3), tolerance=1e-6)
def _(dim: int, snr: float, bias: float) -> Sides:
    """variance with a bias angle, little noise in many dimensions"""
    # gamma = bias + z_1 / snr, up to a share of dim / snr^2, with the noise z_1 along one direction at right angles to s
    first_order = 1 / snr**2
    without_bias = DistortionAngle(dim, snr=snr).var()
    return gradients.angle_variance(dim, snr=snr, bias_angle=bias), first_order, without_bias


@prop3_1_3.equal(*itertools.product((0.0, 0.5, 3.0, math.inf), (0.0, math.pi)), tolerance=1e-9)
def _(snr: float, bias: float) -> Sides:
    """variance on a line"""
    return (
        gradients.angle_variance(1, snr=snr, bias_angle=bias),
        math.pi**2 * (0.25 - (0.5 - float(scipy.stats.norm.sf(snr))) ** 2),
        math.pi**2 / 4,
    )


@prop3_1_3.mean(
    partial(half_squares, draw=partial(_angles, bias=0.6), dim=20, snr=3.0),
    wrong=lambda: DistortionAngle(20, snr=3.0).var(),
    row_bytes=1000,
)
def _() -> float:
    """variance with a bias angle, d = 20, snr = 3, bias 0.6"""
    return gradients.angle_variance(20, snr=3.0, bias_angle=0.6)


def _fall_slack(dim: float, snr: float, gain: float, bias: float, turn: float) -> float:
    """mean angle falls with the bias angle and the noise

    A longer signal, no further from u: the mean angle falls to no less than the bias angle, the mean cosine rises.
    """
    d = round(dim)
    after = freezing.expected_angle(d, snr=gain * snr, bias_angle=turn * bias)
    cosines = [
        math.cos(angle) * DistortionAngle(d, snr=ratio).expected_cos()
        for angle, ratio in ((turn * bias, gain * snr), (bias, snr))
    ]
    before = freezing.expected_angle(d, snr=snr, bias_angle=bias)
    return min(before - after, after - turn * bias, cosines[0] - cosines[1])


prop3_1_3.inequality(
    {
        "dim": Range(2, 1e8, log=True),
        "snr": Range(1e-3, 1e4, log=True),
        "gain": Range(1.0, 10.0),
        "bias": Range(0.0, math.pi / 2),
        "turn": Range(0.0, 1.0),
    },
    # wrong: also where the signal points away from u
    wrong=lambda bias, **point: _fall_slack(bias=bias + math.pi / 2, **point),
    tolerance=1e-11,
)(_fall_slack)


@prop3_1_3.equal(
    lambda: [(dim, snr, bias) for dim, snr in _SNRS for bias in (0.0, 0.7, math.pi / 2, 2.5)], tolerance=1e-9
)
def _(dim: int, snr: float, bias: float) -> Sides:
    """mean angle, over noise in the plane and length of the rest"""
    return freezing.expected_angle(dim, snr=snr, bias_angle=bias), lambda: mean_over_noise(dim, snr, bias), bias


@prop3_1_3.equal(
    lambda: _effect_cases("dim", "clipped_norm", "snr", "noise_energy", "update_noise", "growth"), tolerance=1e-13
)
def _(field: str, sizes: Block, clip: int, alignment: Fraction) -> Sides:
    """forecast for two samples of three layers, in fractions"""
    case = (field, sizes, clip, alignment)
    return _stated_effect(*case), _effect_by_hand(*case), lambda: _other_half(*case)


@prop3_1_3.equal(lambda: _effect_cases("noise_cos", "noise_angle"), tolerance=1e-9)
def _(field: str, sizes: Block, clip: int, alignment: Fraction) -> Sides:
    """forecast of angle and cosine, by quadrature"""
    case = (field, sizes, clip, alignment)
    return _stated_effect(*case), lambda: _effect_by_hand(*case), lambda: _other_half(*case)


def printed_sum(bias_variance: float, dim: int, snr: float) -> float:
    """Var gamma as the sum of the variances."""
    return bias_variance + gradients.DistortionAngle(dim, snr=snr).var()


def _variance_of_two(chance: Fraction) -> Fraction:
    """Variance of an angle that is pi with this chance and 0 otherwise, in units of pi^2."""
    return chance * (1 - chance)


def _flipped(against: Fraction, flip: Fraction) -> Fraction:
    """Chance that s^P points against the gradient on a line, by enumeration."""
    chances = {(b, n): (against if b else 1 - against) * (flip if n else 1 - flip) for b in (0, 1) for n in (0, 1)}
    return sum((p for (b, n), p in chances.items() if b != n), Fraction(0))


prop3_1_3_sum = new_row(
    id="lf.prop3.1.3.sum",
    source=Source("lf", "Proposition 3.1 (3), proof"),
    verdict=Verdict.FALSE,
    severity=Severity.SERIOUS,
    printed=printed_sum,
    calculators=(gradients.DistortionAngle.var, gradients.DistortionAngle.mean),
    part_of="lf.def3.2",
)


@prop3_1_3_sum.equal(lambda: [(Fraction(1, 2), Fraction(1, n)) for n in (3, 4, 10)], kind=Kind.COUNTEREXAMPLE)
def _(against: Fraction, flip: Fraction) -> Sides:
    """on a line, in fractions of pi^2"""
    return (
        _variance_of_two(against * (1 - flip) + (1 - against) * flip),
        _variance_of_two(_flipped(against, flip)),
        _variance_of_two(against) + _variance_of_two(flip),
    )


@prop3_1_3_sum.mean(
    partial(half_squares, draw=opposed_angles, dim=10, snr=2.0),
    wrong=lambda: printed_sum(math.pi**2 / 4, 10, 2.0),
    row_bytes=560,
)
def _() -> float:
    """s^B along or against the gradient, d = 10, snr = 2"""
    angle = gradients.DistortionAngle(10, snr=2.0)
    return angle.var() + (math.pi / 2 - angle.mean()) ** 2
