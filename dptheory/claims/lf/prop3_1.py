import functools
import itertools
import math
import operator
from collections.abc import Iterator
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
    opposed_half_squares,
    signed_square_cosine,
    squares,
)
from dptheory.gradients import DistortionAngle


def _bias_falls(batch: Batch) -> bool:
    """Does the bias angle of a full batch that meets the assumptions not rise? In fractions."""
    if not batch.meets_the_assumptions():
        raise ValueError(f"batch must meet the assumptions, got {batch}")
    u = batch.direction()
    after, before = (signed_square_cosine(u, batch.clipped_sum(frozen)) for frozen in (True, False))
    return after >= before


def _stated_bias_falls(batch: Batch) -> bool:
    u = np.array(batch.direction(), dtype=np.float64)
    before = freezing.biased_signal(batch.rows, frozen_norms=batch.frozen_norms, clip_norm=1.0)
    after = freezing.biased_signal(batch.rows, frozen_norms=0.0, clip_norm=1.0)
    return freezing.bias_angle(direction=u, signal=after) <= freezing.bias_angle(direction=u, signal=before)


def _aimed(x: tuple[int, ...], w: tuple[int, ...], limit: Fraction, off: int) -> freezing.BiasAngleChange:
    """u = x + limit w and a part at right angles to x and w: the closest point of the ray is known."""
    u = [*(float(a + limit * b) for a, b in zip(x, w, strict=True)), float(off)]
    return freezing.bias_turn(direction=u, signal=[*x, 0], added=[*w, 0])


def _ray(u: Vector, x: Vector, w: Vector) -> tuple[Array, Array, Array]:
    return np.array(u, dtype=np.float64), np.array(x, dtype=np.float64), np.array(w, dtype=np.float64)


def _cosine_rate(u: Vector, x: Vector, w: Vector) -> float:
    """d cos(u, x + t w) / dt at t = 0 by a central difference, times |x| / |w|."""
    a, b, c = _ray(u, x, w)
    step = 1e-4
    ahead, behind = (float(a @ y / np.linalg.norm(a) / np.linalg.norm(y)) for y in (b + step * c, b - step * c))
    return float((ahead - behind) / (2 * step) * np.linalg.norm(b) / np.linalg.norm(c))


def _rays() -> Iterator[tuple[Vector, Vector, Vector]]:
    vectors: tuple[Vector, ...] = ((1, 0, 0), (2, 1, 0), (0, 1, 3), (-3, 1, 1))
    yield from itertools.permutations(vectors, 3)


def _closer_margin(u: Vector, x: Vector, w: Vector) -> float:
    """Wrong statement: cos(u, w) - cos(u, x), as if only a vector closer to u helped."""
    a, b, c = _ray(u, x, w)
    return math.cos(freezing.bias_angle(direction=a, signal=c)) - math.cos(freezing.bias_angle(direction=a, signal=b))


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


def _angle_by_hand(first: Block, second: Block, length: int) -> float:
    """By the complex quotient of the two, in whole numbers."""
    across, along = first[0] * second[1] - first[1] * second[0], first[0] * second[0] + first[1] * second[1]
    return math.atan2(abs(across), along)


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


def _block_rate(ray: tuple[Block, Block, Block]) -> float:
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
    return _stated_bias_falls(batch), _bias_falls(batch), True


@prop3_1_1.equal(
    lambda: itertools.product(((1, 0), (2, -1)), ((0, 1), (1, 3), (-1, 4)), (Fraction(1, 7), Fraction(2)), (0, 5)),
    tolerance=1e-12,
)
def _(x: tuple[int, ...], w: tuple[int, ...], limit: Fraction, off: int) -> Sides:
    """how far the angle falls, rays with a known closest point"""
    found = _aimed(x, w, limit, off)
    return found.limit, limit, found.margin


@prop3_1_1.equal(_rays, tolerance=1e-6)
def _(u: Vector, x: Vector, w: Vector) -> Sides:
    """the margin is the rate of the cosine"""
    direction, signal, added = _ray(u, x, w)
    found = freezing.bias_turn(direction=direction, signal=signal, added=added)
    return found.margin, _cosine_rate(u, x, w), _closer_margin(u, x, w)


@prop3_1_1.equal(lambda: [(*pair, length) for pair in _BLOCK_ANGLES for length in LENGTHS], tolerance=1e-12)
def _(first: Block, second: Block, length: int) -> Sides:
    """bias angle in blocks, by a complex quotient"""
    by_hand = _angle_by_hand(first, second, length)
    return (
        freezing.bias_angle(direction=in_blocks(first, length), signal=in_blocks(second, length)),
        by_hand,
        math.pi - by_hand,
    )


@prop3_1_1.equal(lambda: [(*ray, length) for ray in _BLOCK_RAYS for length in LENGTHS], tolerance=1e-12)
def _(ray: tuple[Block, Block, Block], limit: float | Fraction, length: int) -> Sides:
    """how far the angle falls, in blocks, on every branch"""
    return _block_turn("limit", ray, length), limit, limit / 2 + 1


@prop3_1_1.equal(
    lambda: [(ray, length) for ray, _ in _BLOCK_RAYS if abs(_block_rate(ray)) > 1e-6 for length in LENGTHS],
    tolerance=1e-9,
)
def _(ray: tuple[Block, Block, Block], length: int) -> Sides:
    """margin in blocks, by differences of the cosine"""
    return _block_turn("margin", ray, length), _block_rate(ray), -_block_rate(ray)


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
    """the cone about the true direction

    Adding a vector that is no further from u than the signal is.
    """
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


@prop3_1_2.mean(partial(half_squares, dim=20, snr=3.0), wrong=lambda: printed_variance(20, 3.0), row_bytes=960)
def _() -> float:
    """variance given the batch, d = 20, snr = 3"""
    return gradients.DistortionAngle(20, snr=3.0).var()


@prop3_1_2.mean(partial(angles_drawn, dim=20, snr=3.0), wrong=lambda: 0.0, row_bytes=480)
def _() -> float:
    """mean given the batch, d = 20, snr = 3"""
    return gradients.DistortionAngle(20, snr=3.0).mean()


def _slope_slack(excess: float, snr: float) -> float:
    """the slope of the variance, real dimensions

    dVar / dkappa < 0 for every real d = 1 + excess.
    """
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


Sample = tuple[Fraction, Fraction, Fraction]
"""Trainable x and y, and the squared norm of the frozen part."""


def _clipped_sum(samples: tuple[Sample, ...], frozen: bool) -> Fraction:
    """Squared norm of the sum of clipped trainable gradients, C = 1."""
    x, y = Fraction(0), Fraction(0)
    for first, second, rest in samples:
        square = first**2 + second**2 + (0 if frozen else rest)
        size = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
        assert size**2 == square
        scale = min(1 / size, Fraction(1))
        x, y = x + scale * first, y + scale * second
    return x**2 + y**2


_CANCELLING = ((Fraction(1), Fraction(0), Fraction(0)), (Fraction(-48, 25), Fraction(14, 25), Fraction(12)))
_ALIGNED = ((Fraction(1), Fraction(0), Fraction(0)), (Fraction(48, 25), Fraction(14, 25), Fraction(12)))


def _second_moment_falls(samples: tuple[Sample, ...], snr: float) -> bool:
    """E angle^2 after freezing against before, at snr = ``snr`` times the norm of the sum; d = 2."""
    before, after = (
        gradients.DistortionAngle(2, snr=snr * math.sqrt(_clipped_sum(samples, frozen))).second_moment()
        for frozen in (False, True)
    )
    return after < before


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


@appC_second_moment.equal(
    lambda: [(samples, snr) for samples in (_CANCELLING, _ALIGNED) for snr in (0.1, 5.0)], kind=Kind.COUNTEREXAMPLE
)
def _(samples: tuple[Sample, ...], snr: float) -> Sides:
    """two samples, norms in fractions: rises where the clipped gradients cancel"""
    return _second_moment_falls(samples, snr), _clipped_sum(samples, True) > _clipped_sum(samples, False), True


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


def _pairs() -> Iterator[tuple[Vector, Vector, Fraction]]:
    """v1, v2 at acute, right and obtuse angles, and k > 1."""
    vectors: tuple[Vector, ...] = ((1, 0, 0), (2, 1, 0), (0, 1, 3), (-3, 1, 1), (-1, -1, 2))
    for v1, v2 in itertools.permutations(vectors, 2):
        for factor in (Fraction(11, 10), Fraction(2), Fraction(40)):
            yield v1, v2, factor


def _combined(v1: Vector, v2: Vector, factor: Fraction) -> Vector:
    return tuple(factor * y + x for x, y in zip(v1, v2, strict=True))


def _angle(a: Vector, b: Vector) -> float:
    return freezing.bias_angle(direction=[float(x) for x in a], signal=[float(x) for x in b])


def _falls(seen_from: Vector, v1: Vector, v2: Vector, factor: Fraction) -> bool:
    """Does the angle between a vector and k v2 + v1 fall between 1 and k = factor? In fractions."""
    one = _combined(v1, v2, Fraction(1))
    return signed_square_cosine(seen_from, _combined(v1, v2, factor)) > signed_square_cosine(seen_from, one)


def _root(signed_square: Fraction) -> float:
    """x of x |x|."""
    return math.copysign(math.sqrt(abs(signed_square)), signed_square)


appC_cos = new_row(
    id="lf.appC.cos",
    source=Source("lf", "Appendix C"),
    verdict=Verdict.FALSE,
    severity=Severity.SERIOUS,
    kernel_theorems=("printed_is_false",),
    printed=printed_cosine,
    calculators=(freezing.bias_angle,),
)


@appC_cos.equal(_pairs, kind=Kind.COUNTEREXAMPLE)
def _(v1: Vector, v2: Vector, factor: Fraction) -> Sides:
    """which angle falls? in fractions"""
    return (
        _angle(v2, _combined(v1, v2, factor)) < _angle(v2, _combined(v1, v2, Fraction(1))),
        _falls(v2, v1, v2, factor),
        _falls(v1, v1, v2, factor),
    )


@appC_cos.equal(_pairs, tolerance=1e-12)
def _(v1: Vector, v2: Vector, factor: Fraction) -> Sides:
    """cosine of the angle with the longer vector"""
    return (
        math.cos(_angle(v2, _combined(v1, v2, factor))),
        _root(signed_square_cosine(v2, _combined(v1, v2, factor))),
        printed_cosine(float(dot(v2, v2)), float(dot(v1, v2)), float(dot(v1, v1)), float(factor)),
    )


# Mean and variance of the angle gamma between u and s + z, z ~ N(0, I), by densities and quadrature: the second methods.
#
# snr = |s|; bias is the angle between u and s.


def _projected_normal(angle: float, snr: float) -> float:
    """Density of the angle between s and s + z in the plane."""
    c = snr * math.cos(angle)
    tail = float(scipy.special.ndtr(c)) * math.exp(0.5 * (c * c - snr * snr)) * math.sqrt(2 * math.pi)
    return (math.exp(-0.5 * snr * snr) + c * tail) / (2 * math.pi)


def _plane_mean(snr: float, bias: float) -> float:
    """E gamma in the plane, by its density."""

    def part(angle: float) -> float:
        turned = abs(bias + angle)
        return min(turned, 2 * math.pi - turned) * _projected_normal(angle, snr)

    breaks = sorted({-math.pi, -bias, math.pi - bias, math.pi, -0.1, 0.0, 0.1})
    return float(
        sum(scipy.integrate.quad(part, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in itertools.pairwise(breaks))
    )


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
    return _plane_mean(snr, bias) if dim == 2 else _space_mean(snr, bias)


def _plane_variance(snr: float, bias: float) -> float:
    """Var gamma in the plane, by its density."""
    mean = _plane_mean(snr, bias)

    def part(angle: float) -> float:
        turned = abs(bias + angle)
        return (min(turned, 2 * math.pi - turned) - mean) ** 2 * _projected_normal(angle, snr)

    breaks = sorted({-math.pi, -bias, math.pi - bias, math.pi, -0.1, 0.0, 0.1})
    return float(
        sum(scipy.integrate.quad(part, a, b, epsabs=1e-13, epsrel=1e-12)[0] for a, b in itertools.pairwise(breaks))
    )


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
    return _plane_variance(snr, bias) if dim == 2 else _variance_by_tails(dim, snr, bias)


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


def _signals(batch: Batch, dim: int) -> tuple[Array, Array, Array]:
    """True direction, and sums of the clipped gradients before and after; embedded in R^dim."""
    pad = np.zeros(dim - batch.dim)
    u = np.array(batch.direction(), dtype=np.float64)
    before = freezing.biased_signal(batch.rows, frozen_norms=batch.frozen_norms, clip_norm=1.0) * len(batch.trainable)
    after = freezing.biased_signal(batch.rows, frozen_norms=0.0, clip_norm=1.0) * len(batch.trainable)
    return np.append(u, pad), np.append(before, pad), np.append(after, pad)


def _stated_fall(batch: Batch, dim: int, sigma: Fraction) -> bool:
    u, before, after = _signals(batch, dim)
    means = [
        freezing.expected_angle(
            dim, snr=float(np.linalg.norm(s)) / float(sigma), bias_angle=freezing.bias_angle(direction=u, signal=s)
        )
        for s in (before, after)
    ]
    return means[1] <= means[0]


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


def _fall_cases() -> list[tuple[Batch, int, Fraction]]:
    return [
        *(
            (batch, dim, Fraction(1))
            for batch, dim in ((LINE, 1), (LINE, 2), (LINE, 10), (GROWING_LINE, 1), (GROWING_LINE, 50))
        ),
        (TURNING, 2, Fraction(1, 100)),
    ]


def _line_variance(batch: Batch, frozen: bool) -> float:
    """Var gamma in one dimension, sigma = 1: the angle is 0 or pi."""
    norms = np.zeros_like(batch.frozen_norms) if frozen else batch.frozen_norms
    snr = float(freezing.biased_signal(batch.rows, frozen_norms=norms, clip_norm=1.0)[0]) * len(batch.trainable)
    return math.pi**2 * float(scipy.special.ndtr(snr) * scipy.special.ndtr(-snr))


def _angles(rng: np.random.Generator, n: int, dim: int, snr: float, bias: float) -> Array:
    noisy = rng.standard_normal((n, dim))
    noisy[:, 0] += snr * math.cos(bias)
    noisy[:, 1] += snr * math.sin(bias)
    return np.asarray(np.arccos(noisy[:, 0] / np.linalg.norm(noisy, axis=1)))


def _low_cases() -> Iterator[tuple[int, float, float]]:
    yield from itertools.product((1, 3), (0.1, 2.0), (0.0, math.pi))
    yield from itertools.product((2,), (0.1, 2.0), (0.0, 0.7, math.pi / 2, 2.5))


def _variance_cases() -> Iterator[tuple[int, float, float]]:
    yield from itertools.product((2,), (0.1, 2.0, 10.0), (0.3, math.pi / 2, 2.5))
    yield from itertools.product((3, 5, 20, 200), (0.5, 5.0), (0.0, 0.3, 2.5))


def _half_squares(rng: np.random.Generator, n: int, dim: int, snr: float, bias: float) -> Array:
    return (_angles(rng, n, dim, snr, bias) - _angles(rng, n, dim, snr, bias)) ** 2 / 2


def _line_cases() -> Iterator[tuple[float, float]]:
    yield from itertools.product((0.0, 0.5, 3.0, math.inf), (0.0, math.pi))


def _falling_variance(dim: int, snr: float, bias: float) -> float:
    """Wrong statement: the bias angle changes nothing."""
    return DistortionAngle(dim, snr=snr).var()


def _large_variance(dim: int, snr: float, bias: float) -> float:
    """Var gamma to first order where all is steep: gamma - bias is minus the noise along one direction at right angles to s.

    gamma = bias + z_1 / snr, up to a share of dim / snr^2.
    """
    return 1 / snr**2


_SNRS = ((12, 0.5), (12, 8.0), (20_000, 0.5), (20_000, 150.0), (10**6, 300.0), (10**8, 2e5))
_LAYERS = ((7, 2, 1), (7, 2, 30), (70_000, 20_000, 9000), (10**7, 200, 300_000))


def _effect(sizes: Block, clip: int, alignment: Fraction) -> freezing.FreezingEffect:
    """Two samples, the first of three layers frozen, sigma = 2, B = 10."""
    norms = [[4, 0, 3], [12, 3, 4]]
    if alignment == 1:
        return freezing.freezing_effect(
            sizes, layer_norms=norms, frozen_layers=1, clip_norm=clip, noise_multiplier=2.0, batch_size=10
        )
    return freezing.freezing_effect(
        sizes,
        layer_norms=norms,
        frozen_layers=1,
        clip_norm=clip,
        noise_multiplier=2.0,
        batch_size=10,
        alignment=float(alignment),
    )


def _effect_by_hand(field: str, sizes: Block, clip: int, alignment: Fraction) -> float | Fraction:
    """Trainable norms 3 and 5, whole norms 5 and 13."""
    when, _, name = field.partition(".")
    norms = {
        at: sum(
            (
                min(Fraction(kept), Fraction(kept * clip, whole_norm))
                for kept, whole_norm in zip((3, 5), whole, strict=True)
            ),
            Fraction(0),
        )
        / 2
        for at, whole in {"before": (5, 13), "after": (3, 5)}.items()
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


@prop3_1_3.equal(_fall_cases, kind=Kind.COUNTEREXAMPLE)
def _(batch: Batch, dim: int, sigma: Fraction) -> Sides:
    """does the mean angle fall? full batches, in fractions"""
    return _stated_fall(batch, dim, sigma), _certified_fall(batch, dim, sigma), True


@prop3_1_3.equal((LINE,), (GROWING_LINE,), kind=Kind.COUNTEREXAMPLE)
def _(batch: Batch) -> Sides:
    """does the variance fall? one dimension, in fractions"""
    before, after = (abs(Fraction(batch.clipped_sum(frozen)[0])) for frozen in (False, True))
    return _line_variance(batch, True) <= _line_variance(batch, False), after >= before, True


@prop3_1_3.equal(_low_cases, tolerance=1e-8)
def _(dim: int, snr: float, bias: float) -> Sides:
    """mean angle by densities, up to three dimensions"""
    return freezing.expected_angle(dim, snr=snr, bias_angle=bias), lambda: mean_by_density(dim, snr, bias), bias


@prop3_1_3.mean(partial(_angles, dim=20, snr=3.0, bias=0.6), wrong=lambda: 0.6, row_bytes=500)
def _() -> float:
    """mean angle, d = 20, snr = 3, bias 0.6"""
    return freezing.expected_angle(20, snr=3.0, bias_angle=0.6)


@prop3_1_3.equal(_variance_cases, tolerance=1e-7)
def _(dim: int, snr: float, bias: float) -> Sides:
    """variance with a bias angle, by densities and by tail probabilities"""
    return (
        gradients.angle_variance(dim, snr=snr, bias_angle=bias),
        lambda: variance_by_density(dim, snr, bias),
        _falling_variance(dim, snr, bias),
    )


@prop3_1_3.equal((10**6, 1e9, 0.7), (10**6, 1e9, 2.0), (10**9, 1e30, 1.0), (7, 1e40, 1e-3), tolerance=1e-6)
def _(dim: int, snr: float, bias: float) -> Sides:
    """variance with a bias angle, little noise in many dimensions"""
    return (
        gradients.angle_variance(dim, snr=snr, bias_angle=bias),
        _large_variance(dim, snr, bias),
        _falling_variance(dim, snr, bias),
    )


@prop3_1_3.equal(_line_cases, tolerance=1e-9)
def _(snr: float, bias: float) -> Sides:
    """variance on a line"""
    return (
        gradients.angle_variance(1, snr=snr, bias_angle=bias),
        math.pi**2 * (0.25 - (0.5 - float(scipy.stats.norm.sf(snr))) ** 2),
        math.pi**2 / 4,
    )


@prop3_1_3.mean(
    partial(_half_squares, dim=20, snr=3.0, bias=0.6), wrong=lambda: DistortionAngle(20, snr=3.0).var(), row_bytes=1000
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
    return min(
        freezing.expected_angle(d, snr=snr, bias_angle=bias) - after, after - turn * bias, cosines[0] - cosines[1]
    )


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
    lambda: [(dim, snr, bias) for dim, snr in _SNRS for bias in (0.0, 0.7, math.pi / 2, 2.5)],
    tolerance=1e-9,
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


def _opposed_variance(dim: int, snr: float) -> float:
    """Var gamma where s^B points along or against the gradient with equal chances and has one norm."""
    angle = gradients.DistortionAngle(dim, snr=snr)
    return angle.var() + (math.pi / 2 - angle.mean()) ** 2


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
    partial(opposed_half_squares, dim=10, snr=2.0), wrong=lambda: printed_sum(math.pi**2 / 4, 10, 2.0), row_bytes=560
)
def _() -> float:
    """s^B along or against the gradient, d = 10, snr = 2"""
    return _opposed_variance(10, 2.0)
