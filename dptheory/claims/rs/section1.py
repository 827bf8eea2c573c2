import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row

sensitivity = new_row(
    id="rs.sensitivity",
    source=Source("rs", "section 1, before equation 4; RF, section 1"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
)


@sensitivity.equal(
    lambda: [(Fraction(c, 2), Fraction(s)) for c in (1, 8, 50) for s in (1, 3)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(clip: Fraction, sigma: Fraction) -> Sides:
    """squared distance of two neighbours over the variance of the noise"""
    gradients = (-clip, clip / 3, clip)
    whole = sum(gradients, Fraction(0))
    without = [sum(gradients[:i] + gradients[i + 1 :], Fraction(0)) for i in range(len(gradients))]
    furthest = max(abs(whole - one) for one in without)
    return 1 / sigma**2, lambda: furthest**2 / (clip * sigma) ** 2, furthest**2 / (furthest * sigma**2)


Batch = tuple[tuple[int, ...], ...]


def printed_noise_ratio(dim: int, keep: int) -> float:
    """sqrt(1 - r), the ratio of the root mean squares."""
    return math.sqrt(keep / dim)


fig1 = new_row(
    id="rs.fig1",
    source=Source("rs", "section 1.1, Fig. 1c and 1d"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    printed=printed_noise_ratio,
    calculators=(gradients.noise_norm_ratio, gradients.relaxed_gradient_ratio),
    figure="noise_norm_ratio",
)


def _ratio_by_angle(dim: int, keep: int) -> float:
    """E sin a over the density of a, sin^{K-1} a cos^{d-K-1} a on (0, pi/2): |m * xi|^2 / |xi|^2 = sin^2 a is a Beta variable."""

    def density(a: float, extra: int) -> float:
        return math.sin(a) ** (keep - 1 + extra) * math.cos(a) ** (dim - keep - 1)

    above, below = (scipy.integrate.quad(density, 0, math.pi / 2, (extra,), epsabs=0)[0] for extra in (1, 0))
    return float(above / below)


@fig1.equal((2, 1), (3, 1), (3, 2), (10, 3), (60, 30), (60, 59), tolerance=1e-9, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int) -> tuple[float, float]:
    """noise ratio, second method: angle"""
    return gradients.noise_norm_ratio(dim, keep), _ratio_by_angle(dim, keep)


def _noise_ratio(rng: np.random.Generator, n: int, dim: int, keep: int) -> Array:
    noise = rng.standard_normal((n, dim))
    return np.asarray(np.linalg.norm(noise[:, :keep], axis=1) / np.linalg.norm(noise, axis=1))


@fig1.mean(partial(_noise_ratio, dim=12, keep=3), wrong=lambda: printed_noise_ratio(12, 3), row_bytes=200)
def _() -> float:
    """noise ratio, 3 of 12 kept"""
    return gradients.noise_norm_ratio(12, 3)


def _kept_square(batch: Batch, mask: tuple[int, ...], clip_first: bool) -> Fraction:
    """Squared norm of the sum over the batch of clipped gradients (C = 1) on the one entry of d = 2 that is kept."""
    total = Fraction(0)
    for g in batch:
        entry = Fraction(sum(m * x for m, x in zip(mask, g, strict=True)))
        norm = Fraction(math.isqrt(sum(x * x for x in g))) if clip_first else abs(entry)
        total += entry / max(norm, Fraction(1))
    return total**2


@fig1.equal(
    lambda: [
        (g, mask)
        for g in ((3, 4), (5, -12), (1, 0))
        for mask in ((1, 0), (0, 1))
        if any(m * x for m, x in zip(mask, g, strict=True))
    ],
    tolerance=1e-14,
)
def _(g: tuple[int, ...], mask: tuple[int, ...]) -> Sides:
    """one example, in fractions"""
    kept = abs(sum(m * x for m, x in zip(mask, g, strict=True)))
    found = gradients.relaxed_gradient_ratio(grad_norm=math.hypot(*g), masked_norm=kept, clip_norm=1.0)
    square = _kept_square((g,), mask, False) / _kept_square((g,), mask, True)
    # wrong: |g| / |m * g| of a flat gradient, r = 1/2
    return found, Fraction(math.isqrt(int(square * 3600)), 60), math.sqrt(2.0)


_PAIRS: tuple[tuple[Batch, tuple[int, ...]], ...] = tuple(
    (batch, mask)
    for batch in (((1, 0), (-5, 12)), ((1, 0), (-3, 4)), ((1, 0), (5, 12)), ((-5, 12),), ((3, -4), (5, -12)))
    for mask in ((1, 0), (0, 1))
)


def _same_sign(batch: Batch, mask: tuple[int, ...]) -> bool:
    """No two examples pull the kept entry in opposite directions."""
    entries = [sum(m * x for m, x in zip(mask, g, strict=True)) for g in batch]
    return all(a * b >= 0 for a, b in itertools.combinations(entries, 2))


@fig1.equal(lambda: _PAIRS, kind=Kind.COUNTEREXAMPLE)
def _(batch: Batch, mask: tuple[int, ...]) -> Sides:
    """a batch can shrink"""
    square = partial(_kept_square, batch, mask)
    return _same_sign(batch, mask), lambda: square(False) >= square(True), True


def _ratio_by_beta(dim: int, keep: int) -> float:
    """|m * xi|^2 / |xi|^2 is Beta(K/2, (d-K)/2): the mean root of equally likely values."""
    values = scipy.special.betaincinv(keep / 2, (dim - keep) / 2, (np.arange(20_000) + 0.5) / 20_000)
    return float(np.sqrt(values).mean())


@fig1.equal((20_000, 2_000), (550_000, 165_000), tolerance=1e-6)
def _(dim: int, keep: int) -> Sides:
    """noise ratio, users' sizes: the root of a beta variable"""
    printed = printed_noise_ratio(dim, keep)
    return gradients.noise_norm_ratio(dim, keep), lambda: _ratio_by_beta(dim, keep), 1.01 * printed


fig1_range = new_row(
    id="rs.fig1.range",
    source=Source("rs", "Fig. 1, caption"),
    verdict=Verdict.CONDITIONAL,
    calculators=(gradients.relaxed_gradient_ratio,),
)


def _square_over_largest(g: tuple[int, ...]) -> Fraction:
    """Squared norm over the square of the largest entry, entry by entry."""
    return Fraction(sum(x * x for x in g), max(x * x for x in g))


@fig1_range.equal((4,), (100,), (10_000,), kind=Kind.COUNTEREXAMPLE)
def _(dim: int) -> Sides:
    """squared norm over the square of the largest entry, of (d, 1, ..., 1)"""
    return (
        1 + Fraction(dim - 1, dim * dim),
        lambda: _square_over_largest((dim, *[1] * (dim - 1))),
        lambda: _square_over_largest((1,) * dim),
    )


@fig1_range.equal(*itertools.product(((3, 4), (5, 12), (8, 15)), (4.0, 2.5, 0.5, 1e-3)), tolerance=1e-14)
def _(g: tuple[int, int], clip: float) -> Sides:
    """growth of the kept entry of two, the second, for clips down to 0: in fractions"""
    norm = Fraction(round(sum(x * x for x in g) ** 0.5))
    kept, limit = Fraction(g[1]), Fraction(clip)

    def grown() -> Fraction:
        return min(Fraction(1), limit / kept) / min(Fraction(1), limit / norm)

    found = gradients.relaxed_gradient_ratio(grad_norm=float(norm), masked_norm=float(kept), clip_norm=clip)
    return float(found), grown, 1.0


appF = new_row(
    id="rs.appF",
    source=Source("rs", "Appendix F, Figs 6 to 9"),
    verdict=Verdict.NOT_SHOWN,
    calculators=(gradients.projected_skewness,),
    figure="measured_deviations",
)


# Entries 3 with chance 1/4 and -1 with chance 3/4: mean 0, variance 3, third moment 6.
_ENTRY = ((3, Fraction(1, 4)), (-1, Fraction(3, 4)))


_SQUARE_SKEWNESS = Fraction(6**2, 3**3)


def _mean_square_skewness(dim: int) -> Fraction:
    """Mean over the sign vectors u of the squared skewness of <u, xi>, from the law of <u, xi> itself."""
    total = Fraction(0)
    for signs in itertools.product((-1, 1), repeat=dim):
        law = {Fraction(0): Fraction(1)}
        for sign in signs:
            law = _convolved(law, sign)
        second = sum((p * x * x for x, p in law.items()), Fraction(0))
        third = sum((p * x * x * x for x, p in law.items()), Fraction(0))
        total += third * third / (second * second * second)
    return total * Fraction(1, 2**dim)


def _convolved(law: dict[Fraction, Fraction], sign: int) -> dict[Fraction, Fraction]:
    grown: dict[Fraction, Fraction] = {}
    for (x, p), (value, chance) in itertools.product(law.items(), _ENTRY):
        grown[x + sign * value] = grown.get(x + sign * value, Fraction(0)) + p * chance
    return grown


@appF.equal(lambda: [(dim,) for dim in (1, 2, 3, 4, 6, 8)], kind=Kind.COUNTEREXAMPLE)
def _(dim: int) -> Sides:
    """projections on sign vectors, by enumeration"""
    # wrong: the projection shows the skewness of the law
    return _SQUARE_SKEWNESS / dim**2, lambda: _mean_square_skewness(dim), _SQUARE_SKEWNESS


def _overlap_with_mirror(dim: int) -> Fraction:
    """1 - total variation distance between the laws of xi and -xi."""
    law = {
        tuple(x for x, _ in entries): math.prod((p for _, p in entries), start=Fraction(1))
        for entries in itertools.product(_ENTRY, repeat=dim)
    }
    return sum((min(p, law.get(tuple(-x for x in point), Fraction(0))) for point, p in law.items()), Fraction(0))


@appF.equal(lambda: [(dim,) for dim in (1, 2, 4)], kind=Kind.COUNTEREXAMPLE)
def _(dim: int) -> Sides:
    """the same law has nothing in common with its mirror image"""
    # wrong: a symmetric law
    return Fraction(0), lambda: _overlap_with_mirror(dim), Fraction(1)


def _square_skewness(rng: np.random.Generator, n: int, dim: int) -> Array:
    """Squared skewness of <u, xi> for u uniform on the sphere and iid entries of skewness 1."""
    direction = rng.standard_normal((n, dim))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(np.square((direction**3).sum(axis=1)))


@appF.mean(partial(_square_skewness, dim=10), wrong=lambda: 1 / 10**2, row_bytes=240)
def _() -> float:
    """projections on uniform directions, d = 10"""
    # wrong: that of sign vectors
    return gradients.projected_skewness(dim=10, skewness=1.0) ** 2


@appF.equal(lambda: [(dim,) for dim in (2, 10, 550_000)], tolerance=1e-12)
def _(dim: int) -> Sides:
    """sixth moment of an entry of a direction, in fractions"""
    # u_1^2 is Beta(1/2, (d-1)/2)
    return (
        gradients.projected_skewness(dim=dim, skewness=1.0) ** 2,
        Fraction(dim) * Fraction(1 * 3 * 5, dim * (dim + 2) * (dim + 4)),
        1 / dim**2,
    )
