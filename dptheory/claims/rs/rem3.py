import math
from fractions import Fraction

import numpy as np
import scipy

from dptheory import sparsification
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.rs.tuned import least_over_rates

row = new_row(
    id="rs.rem3",
    source=Source("rs", "Remark 3"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    calculators=(sparsification.least_kappa, sparsification.tuned_bound),
    figure="tradeoff",
)


def _noise_reduced(size: int, threshold: int, keep: int) -> bool:
    """(1 - r) / kappa < 1 for four entries of this size, c = threshold, no deviation; keep 1 or 4, so norms are whole."""

    def part(length: int) -> int:
        return min(length, threshold) * length

    kappa = Fraction(part(size * math.isqrt(keep)), part(2 * size))
    return Fraction(keep, 4) / kappa < 1


def _noise_reduced_by_calculator(size: int, threshold: int, keep: int) -> bool:
    found = sparsification.kappa(np.full(4, float(size)), clip_norm=4.0 * threshold, drop_rate=1 - keep / 4)
    return found.lower / found.value < 1 - 1e-12


@row.equal(
    lambda: [(size, c, keep) for size in (1, 2, 5) for c in (1, 3, 10) for keep in (1, 4)], kind=Kind.COUNTEREXAMPLE
)
def _(size: int, threshold: int, keep: int) -> Sides:
    """is noise saved?"""
    return (
        _noise_reduced_by_calculator(size, threshold, keep),
        lambda: _noise_reduced(size, threshold, keep),
        True if keep < 4 else None,
    )


def _tuned(rate: float, kappa: float, noise: Fraction) -> float:
    """Tuned bound for Delta_L = 1, T = 9, A = 1, D = noise."""
    return sparsification.tuned_bound(
        drop_rate=rate, kappa=kappa, objective_gap=1.0, steps=9.0, curvature_term=1.0, noise_term=float(noise)
    ).bound


def _searched(x: Fraction, kappa: Fraction, noise: Fraction) -> float:
    """The same by a search over the learning rate."""
    return least_over_rates(float(1 + x * noise), 1.0, 9.0) / float(kappa)


@row.equal(lambda: [(Fraction(n),) for n in (0, 1, 10, 1000, 10**6)], tolerance=1e-9)
def _(n: Fraction) -> Sides:
    """kappa = sqrt x = 1/2: squared ratio of the tuned bounds, by search over the learning rate"""
    return (
        (_tuned(0.75, 0.5, n) / _tuned(0.0, 1.0, n)) ** 2,
        lambda: (_searched(Fraction(1, 4), Fraction(1, 2), n) / _searched(Fraction(1), Fraction(1), n)) ** 2,
        ((1 + n / 4) / (1 + n) * 2) ** 2,
    )


@row.equal(
    lambda: [(x, k, Fraction(n)) for x, k in ((1, 1), (Fraction(1, 4), Fraction(1, 2))) for n in (0, 1, 1000)],
    tolerance=1e-9,
)
def _(x: Fraction, kappa: Fraction, noise: Fraction) -> Sides:
    """the tuned bounds themselves, by search over the learning rate"""
    return (
        _tuned(float(1 - x), float(kappa), noise),
        lambda: _searched(x, kappa, noise),
        lambda: _tuned(0.0, 1.0, noise) / float(kappa),
    )


@row.equal(lambda: [(Fraction(j, 4), Fraction(n)) for j in (1, 2, 3) for n in (0, 1, 10)], tolerance=1e-12)
def _(x: Fraction, n: Fraction) -> Sides:
    """threshold of a fixed rate: where the bounds with and without the mask meet, by root finding"""
    return (
        sparsification.least_kappa(drop_rate=float(1 - x), delta_c=1.0, step_noise=float(n)),
        lambda: float(
            scipy.optimize.brentq(lambda k: float(1 + x * n) / k - float(1 + n), float(x) / 2, 2.0, xtol=1e-15)
        ),
        x,
    )
