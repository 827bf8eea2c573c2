import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
import scipy

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

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

    def integral(extra: int) -> float:
        return float(
            scipy.integrate.quad(
                lambda a: math.sin(a) ** (keep - 1 + extra) * math.cos(a) ** (dim - keep - 1), 0, math.pi / 2, epsabs=0
            )[0]
        )

    return integral(1) / integral(0)


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
    # wrong: |g| / |m * g| of a flat gradient, r = 1/2
    return (
        gradients.relaxed_gradient_ratio(
            grad_norm=math.hypot(*g), masked_norm=abs(sum(m * x for m, x in zip(mask, g, strict=True))), clip_norm=1.0
        ),
        lambda: Fraction(math.isqrt(int(_kept_square((g,), mask, False) / _kept_square((g,), mask, True) * 3600)), 60),
        math.sqrt(2.0),
    )


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
    return (
        _same_sign(batch, mask),
        lambda: _kept_square(batch, mask, False) >= _kept_square(batch, mask, True),
        True,
    )


def _ratio_by_beta(dim: int, keep: int) -> float:
    """|m * xi|^2 / |xi|^2 is Beta(K/2, (d-K)/2): the mean root of equally likely values."""
    values = scipy.special.betaincinv(keep / 2, (dim - keep) / 2, (np.arange(20_000) + 0.5) / 20_000)
    return float(np.sqrt(values).mean())


@fig1.equal((20_000, 2_000), (550_000, 165_000), tolerance=1e-6)
def _(dim: int, keep: int) -> Sides:
    """noise ratio, users' sizes: the root of a beta variable"""
    return (
        gradients.noise_norm_ratio(dim, keep),
        lambda: _ratio_by_beta(dim, keep),
        1.01 * printed_noise_ratio(dim, keep),
    )


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


def _small_clips() -> Iterator[tuple[tuple[int, int], float]]:
    for g in ((3, 4), (5, 12), (8, 15)):
        for clip in (4.0, 2.5, 0.5, 1e-3):
            yield g, clip


def _kept_entry(entry: Fraction, norm: Fraction, clip: Fraction) -> Fraction:
    return entry * min(Fraction(1), clip / norm)


@fig1_range.equal(_small_clips, tolerance=1e-14)
def _(g: tuple[int, int], clip: float) -> Sides:
    """growth of the kept entry of two, the second, for clips down to 0: in fractions"""
    norm = Fraction(round(sum(x * x for x in g) ** 0.5))
    kept, limit = Fraction(g[1]), Fraction(clip)

    def grown() -> Fraction:
        return _kept_entry(kept, kept, limit) / _kept_entry(kept, norm, limit)

    found = gradients.relaxed_gradient_ratio(grad_norm=float(norm), masked_norm=float(kept), clip_norm=clip)
    return float(found), grown, 1.0
