import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

row = new_row(
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


@row.equal(lambda: [(dim,) for dim in (1, 2, 3, 4, 6, 8)], kind=Kind.COUNTEREXAMPLE)
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


@row.equal(lambda: [(dim,) for dim in (1, 2, 4)], kind=Kind.COUNTEREXAMPLE)
def _(dim: int) -> Sides:
    """the same law has nothing in common with its mirror image"""
    # wrong: a symmetric law
    return Fraction(0), lambda: _overlap_with_mirror(dim), Fraction(1)


def _square_skewness(rng: np.random.Generator, n: int, dim: int) -> Array:
    """Squared skewness of <u, xi> for u uniform on the sphere and iid entries of skewness 1."""
    direction = rng.standard_normal((n, dim))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(np.square((direction**3).sum(axis=1)))


@row.mean(partial(_square_skewness, dim=10), wrong=lambda: 1 / 10**2, row_bytes=240)
def _() -> float:
    """projections on uniform directions, d = 10"""
    # wrong: that of sign vectors
    return gradients.projected_skewness(dim=10, skewness=1.0) ** 2


@row.equal(lambda: [(dim,) for dim in (2, 10, 550_000)], tolerance=1e-12)
def _(dim: int) -> Sides:
    """sixth moment of an entry of a direction, in fractions"""
    # u_1^2 is Beta(1/2, (d-1)/2)
    return (
        gradients.projected_skewness(dim=dim, skewness=1.0) ** 2,
        Fraction(dim) * Fraction(1 * 3 * 5, dim * (dim + 2) * (dim + 4)),
        1 / dim**2,
    )
