import itertools
import math
from fractions import Fraction

import numpy as np

from dptheory import gradients
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rf._masked_vectors import Point, clipped

Deviations = tuple[tuple[Fraction, Point], ...]
_CANCELLING: Deviations = ((Fraction(2, 7), (5, 0)), (Fraction(5, 14), (-2, 3)), (Fraction(5, 14), (-2, -3)))
"""Deviations of mean zero from w = (2, 0) whose asymmetries cancel without a mask at C = 3."""


def _bias_term(mask: Point) -> Fraction:
    """b = E<m*w, clip(m*(w + xi))> under this law less that under its symmetrisation, w = (2, 0), C = 3."""

    def kept(sign: int) -> Fraction:
        return sum((2 * p * clipped((2 + sign * x, sign * y), mask, 3)[0] for p, (x, y) in _CANCELLING), Fraction(0))

    return (kept(1) - kept(-1)) / 2


def _pushed_bias(entry: int, dim: int, keep: int, share: Fraction) -> Fraction:
    """E_m b for w = (entry, 0, ...), C = 1, xi = +-100 in that entry: +100 with chance 1/2 - share against 1/2."""
    masks = list(itertools.combinations(range(dim), keep))
    with_first = Fraction(sum(0 in kept for kept in masks), len(masks))
    return with_first * entry * ((Fraction(1, 2) - share) - (Fraction(1, 2) + share))


row = new_row(
    id="rf.masked_bias",
    source=Source("rf", "after Theorem 2"),
    verdict=Verdict.HOLDS,
    calculators=(gradients.clip,),
)


def _smaller_factor(**point: float) -> float:
    """Wrong statement: 1.9 in place of 2."""
    return total_variation_slack(**point, factor=1.9)


@row.inequality(
    {
        "first": Range(-3, 3),
        "second": Range(-3, 3),
        "turn": Range(0, math.pi),
        "skew": Range(-0.5, 0.5),
        "size": Range(0.01, 100, log=True),
    },
    wrong=_smaller_factor,
    tolerance=1e-9,
)
def total_variation_slack(
    first: float, second: float, turn: float, skew: float, size: float, factor: float = 2.0
) -> float:
    """the bound by total variation, two-point laws

    factor C E_m|m*w| TV(p, p~) - |E_m b| for xi = +-v with chances 1/2 +- skew, p~ its symmetrisation, C = 1, one of
    two entries kept.
    """
    w, v = np.array([first, second]), size * np.array([math.cos(turn), math.sin(turn)])
    total, length = 0.0, 0.0
    for j in range(2):
        up, down = (float(gradients.clip([[w[j] + sign * v[j]]], clip_norm=1.0)[0, 0]) for sign in (1, -1))
        total += 0.5 * float(w[j]) * skew * (up - down)
        length += 0.5 * abs(float(w[j]))
    return (factor * length * abs(skew) - abs(total)) / max(length, 1e-9)


@row.equal(lambda: [(e, d, k, Fraction(s, 20)) for e in (1, 3) for d, k in ((1, 1), (4, 1), (5, 3)) for s in (1, 4)])
def _(entry: int, dim: int, keep: int, share: Fraction) -> Sides:
    """attained: one large entry, deviations far outside the ball"""
    kept = Fraction(keep, dim)
    return -2 * kept * entry * share, lambda: _pushed_bias(entry, dim, keep, share), -2 * kept**2 * entry * share


@row.equal(((1, 1),), ((1, 0),), ((0, 1),), kind=Kind.COUNTEREXAMPLE)
def _(mask: Point) -> Sides:
    """no bias without a mask, some with it"""
    return Fraction(-3, 7) if mask == (1, 0) else Fraction(0), lambda: _bias_term(mask), Fraction(0)
