import math
from fractions import Fraction

import numpy as np

from dptheory import gradients
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.rf._masked_vectors import Point, clipped

Law = tuple[tuple[Fraction, Point], ...]
_FIVE: Law = ((Fraction(3, 8), (5, 0)), (Fraction(5, 16), (-3, 4)), (Fraction(5, 16), (-3, -4)))
_LENGTHENED: Law = ((Fraction(1, 2), (9, 12)), (Fraction(1, 2), (3, 4)))
_MASKS: tuple[Point, ...] = ((1, 1), (1, 0), (0, 1))


def _squared_bias(law: Law, mask: Point, bound: int) -> Fraction:
    """|E clip(m*g) - m*E g|^2."""
    found = [(p, clipped(g, mask, bound), tuple(a * m for a, m in zip(g, mask, strict=True))) for p, g in law]
    return sum((sum((p * (c[j] - g[j]) for p, c, g in found), Fraction(0)) ** 2 for j in range(len(mask))), Fraction(0))


def _chance(law: Law, mask: Point, bound: int) -> Fraction:
    return sum((p for p, g in law if sum(a * a * m for a, m in zip(g, mask, strict=True)) > bound**2), Fraction(0))


def _bias_falls(law: Law, mask: Point, bound: int) -> bool:
    """Is the bias with the mask at most that without?"""
    return _squared_bias(law, mask, bound) <= _squared_bias(law, (1, 1), bound)


def _chance_falls(law: Law, mask: Point, bound: int) -> bool:
    return _chance(law, mask, bound) <= _chance(law, (1, 1), bound)


def _gaussian_bias(grad_norm: float, dim: int, deviation: float) -> float:
    """|E clip(g) - w| for g ~ N(w, s^2 I), C = 1."""
    return (
        gradients.gaussian_clip_moments(grad_norm=grad_norm, dim=dim, deviation=deviation, clip_norm=1.0).shortfall
        * grad_norm
    )


def _gaussian_bias_falls(
    dim: int, keep: int, energy: float, grad_norm: float, deviation: float, factor: float = 1.0
) -> bool:
    """Is the bias with the mask at most |m*w| / |w| times that without?"""
    full = _gaussian_bias(grad_norm, dim, deviation)
    masked = _gaussian_bias(energy**0.5 * grad_norm, keep, deviation)
    allowed: float = factor * energy**0.5 * full * (1 + 1e-9) + 1e-15
    return masked <= allowed


_GAUSSIAN = tuple(
    (dim, max(1, dim // part), energy, grad_norm, norm / math.sqrt(dim))
    for dim in (1, 2, 30, 10**4, 10**8)
    for part in (1, 2, 10)
    for energy, grad_norm, norm in (
        (0.0, 2.0, 1.0),
        (0.1, 0.7, 0.7),
        (0.5, 2.0, 0.01),
        (1.0, 1.1, 0.5),
        (0.9, 5.0, 20.0),
    )
)


row = new_row(
    id="rf.clip_bias",
    source=Source("rf", "section 2.3"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(gradients.gaussian_clip_moments, gradients.clip),
)


@row.equal(
    lambda: [(law, mask, c) for law in (_FIVE, _LENGTHENED) for mask in _MASKS for c in (2, 4, 6)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(law: Law, mask: Point, c: int) -> Sides:
    """the bias rises where the clipping probability falls

    the law of five: where all are clipped their mean stays 0, and with (1, 0) it does not
    """
    stated = law != _FIVE or mask != (1, 0) or c == 6
    return stated, lambda: _bias_falls(law, mask, c), lambda: True if _chance_falls(law, mask, c) else None


@row.equal(((1, 1),), ((1, 0),), ((0, 1),))
def _(mask: Point) -> Sides:
    """g = (5, 0), (-3, +-4), C = 4: squared bias of the clipped mean, in fractions"""
    return Fraction(9, 64) if mask == (1, 0) else Fraction(0), _squared_bias(_FIVE, mask, 4), Fraction(0)


@row.equal(lambda: _GAUSSIAN)
def _(dim: int, keep: int, energy: float, grad_norm: float, deviation: float) -> Sides:
    """Gaussian gradients up to dimension 1e8: the bias falls"""
    case = (dim, keep, energy, grad_norm, deviation)
    return _gaussian_bias_falls(*case), True, _gaussian_bias_falls(*case, factor=0.99)


def _nine_tenths(**point: float) -> float:
    """Wrong statement: nine tenths of the bound."""
    return bias_bound_slack(**point, factor=0.9)


@row.inequality(
    {
        "first": Range(-5, 5),
        "second": Range(-5, 5),
        "third": Range(-5, 5),
        "fourth": Range(-5, 5),
        "chance": Range(0, 1),
    },
    wrong=_nine_tenths,
    tolerance=1e-9,
)
def bias_bound_slack(
    first: float, second: float, third: float, fourth: float, chance: float, factor: float = 1.0
) -> float:
    """the bound E(|m*g| - C)_+ on the bias holds and is not raised

    E(|m*g| - C)_+ - |E clip(m*g) - m*E g| for two gradients and both masks of one entry, C = 1; and that it does not
    exceed E(|g| - C)_+.
    """
    rows, law = np.array([[first, second], [third, fourth]]), np.array([chance, 1 - chance])
    whole = float(law @ np.maximum(np.linalg.norm(rows, axis=1) - 1, 0.0))
    slacks = []
    for mask in ((1.0, 0.0), (0.0, 1.0)):
        kept = rows * np.array(mask)
        excess = float(law @ np.maximum(np.linalg.norm(kept, axis=1) - 1, 0.0))
        bias = float(np.linalg.norm(law @ (gradients.clip(kept, clip_norm=1.0) - kept)))
        slacks += [factor * excess - bias, factor * whole - excess]
    return min(slacks)
