import itertools
import math
from collections.abc import Mapping
from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import gradients
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row

Vector = tuple[int | Fraction, ...]


def printed_split_bound(grad_norm: float, bound: float, deviation_norm: float) -> float:
    """Right side of equation 7 for xi of one norm: P(|xi| < 3C/4) min(|w|, C/4) |w|."""
    return min(grad_norm, bound / 4) * grad_norm if deviation_norm < 3 * bound / 4 else 0.0


row = new_row(
    id="rs.lem3.2",
    source=Source("rs", "Lemma 3.2", (7,)),
    verdict=Verdict.LOOSE,
    printed=printed_split_bound,
    calculators=(gradients.symmetric_clip_lower_bound, gradients.clip),
)


# (w, xi, C): the norms of w, xi, w + xi and w - xi are whole numbers, so clipping stays in rational arithmetic.
_PAIRS: tuple[tuple[Vector, Vector], ...] = (
    ((3,), (2,)),
    ((1,), (5,)),
    ((25, 0), (7, 24)),
    ((24, 0), (0, 7)),
    ((0, 0, 25), (24, 0, 7)),
)


def _norm(vector: Vector) -> Fraction:
    square = Fraction(sum(x * x for x in vector))
    root = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    if root * root != square:
        raise ValueError(f"the norm of {vector} is not rational")
    return root


def _kept(w: Vector, outcomes: Mapping[Vector, Fraction], bound: int | Fraction) -> Fraction:
    """E<w, clip(w + xi)> over the outcomes of xi, in rational arithmetic."""
    total = Fraction(0)
    for xi, chance in outcomes.items():
        g = tuple(a + b for a, b in zip(w, xi, strict=True))
        norm = _norm(g)
        scale = Fraction(1) if norm <= bound else bound / norm
        total += chance * scale * sum(a * b for a, b in zip(w, g, strict=True))
    return total


def _two_point(xi: Vector) -> dict[Vector, Fraction]:
    return {xi: Fraction(1, 2), tuple(-x for x in xi): Fraction(1, 2)}


_CASES = tuple((w, xi, bound) for w, xi in _PAIRS for bound in (1, 4, 29, 60))


@row.equal(*(case for case in _CASES if _norm(case[0]) + _norm(case[1]) <= case[2]), tolerance=1e-14)
def _(w: tuple[int, ...], xi: tuple[int, ...], bound: int) -> Sides:
    """equality where nothing is clipped"""
    return (
        gradients.symmetric_clip_lower_bound(
            grad_norm=float(_norm(w)), clip_norm=float(bound), deviation_norms=[float(_norm(xi))]
        ).integral,
        lambda: _kept(w, _two_point(xi), bound),
        printed_split_bound(float(_norm(w)), float(bound), float(_norm(xi))),
    )


@row.equal(*_CASES, tolerance=1e-14)
def _(w: tuple[int, ...], xi: tuple[int, ...], bound: int) -> Sides:
    """two-point laws in rational arithmetic"""
    center, shift = np.array(w, dtype=np.float64), np.array(xi, dtype=np.float64)
    clipped = gradients.clip(np.array([center + shift, center - shift]), clip_norm=float(bound))
    truth = partial(_kept, w, _two_point(xi))
    return float(clipped.mean(axis=0) @ center), lambda: truth(bound), lambda: truth(bound * Fraction(101, 100))


_LAWS = (((0, 1), (-4, 6), (8, 3)), ((0, 4), (-4, 3), (4, 3)), ((-1, 5), (1, 5)))
"""Laws of 2 xi as (value, tenths), d = 1, C = 1, mean zero."""


def _inequality_holds(w: Fraction, law: tuple[tuple[int, int], ...]) -> bool:
    outcomes: dict[Vector, Fraction] = {(Fraction(value, 2),): Fraction(tenths, 10) for value, tenths in law}
    chance = sum((p for xi, p in outcomes.items() if xi[0] ** 2 < Fraction(9, 16)), Fraction(0))
    return _kept((w,), outcomes, 1) >= chance * min(w, Fraction(1, 4)) * w


def _is_symmetric(law: tuple[tuple[int, int], ...]) -> bool:
    chances = dict(law)
    return all(chances.get(-value) == tenths for value, tenths in law)


@row.equal(*itertools.product((Fraction(1, 4), Fraction(1, 2)), _LAWS), kind=Kind.COUNTEREXAMPLE)
def _(w: Fraction, law: tuple[tuple[int, int], ...]) -> Sides:
    """symmetry is needed, zero mean is not enough"""
    return _is_symmetric(law), lambda: _inequality_holds(w, law), True


def _plane(grad_norm: float, deviation: float, angle: float) -> float:
    """E<w, clip(w + xi)> / |w| for xi = +-v, C = 1: w and v span a plane, so two entries are enough for every dimension."""
    shift = deviation * np.array([math.cos(angle), math.sin(angle)])
    center = np.array([grad_norm, 0.0])
    return float(gradients.clip(np.array([center + shift, center - shift]), clip_norm=1.0).mean(axis=0)[0])


@row.inequality(
    {
        "grad_norm": Range(1e-3, 100.0, log=True),
        "deviation": Range(1e-3, 100.0, log=True),
        "angle": Range(0.0, math.pi),
        "split": Range(0.01, 0.99),
    },
    # wrong: A bound with five per cent more room, min(|w|, 1.05 (C - |xi|)_+), which is not true
    wrong=lambda grad_norm, deviation, angle, split: (
        _plane(grad_norm, deviation, angle) - min(grad_norm, 1.05 * max(1.0 - deviation, 0.0))
    ),
)
def _slack(grad_norm: float, deviation: float, angle: float, split: float) -> float:
    """two-point symmetric laws

    Both steps: E<w, clip> >= the integral form >= the split form.
    """
    bounds = gradients.symmetric_clip_lower_bound(
        grad_norm=grad_norm, clip_norm=1.0, deviation_norms=[deviation], deviation_share=split
    )
    kept = _plane(grad_norm, deviation, angle)
    scale = min(grad_norm, 1.0)
    return min(kept - bounds.integral / grad_norm, (bounds.integral - bounds.split) / grad_norm) / scale


@row.equal(
    lambda: [(dim, bound) for dim in (5, 20_000) for bound in (Fraction(1), Fraction(13, 2), Fraction(20))],
    tolerance=1e-14,
)
def _(dim: int, bound: Fraction) -> Sides:
    """the clip operator on long rows"""
    # entries 3, 4, 12: norm 13
    return (
        gradients.clip([[3.0, 4.0, *[0.0] * (dim - 3), 12.0]], clip_norm=float(bound))[0, -1],
        12 * min(Fraction(1), bound / 13),
        12.0,
    )
