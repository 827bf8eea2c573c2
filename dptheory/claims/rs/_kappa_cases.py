"""Gradients of four entries whose kappa is known in fractions: C = 4, so that c = 1 and the deviation counts below 3."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import scipy

from dptheory import sparsification

Rows = tuple[tuple[int, ...], ...]


def printed_kappa(rate: float) -> float:
    """kappa as Appendix G supposes it."""
    return math.sqrt(1.0 - rate)


CLIP, DIM = 4, 4
_FLAT, _SPIKE = (2, 2, 2, 2), (4, 0, 0, 0)


def _deviations(large: int, small: int) -> Rows:
    """+-(2, 2, 2, 2) ``large`` times each, and zero ``small`` times: length 4 in full, 2 for one entry."""
    return ((2,) * DIM,) * large + ((-2,) * DIM,) * large + ((0,) * DIM,) * small


CASES: dict[str, tuple[tuple[int, ...], int, Rows]] = {
    "one entry, no deviation": (_SPIKE, 1, _deviations(0, 1)),
    "equal entries, no deviation": (_FLAT, 1, _deviations(0, 1)),
    "equal entries, P = 1/2": (_FLAT, 1, _deviations(1, 2)),
    "equal entries, P = 1/4": (_FLAT, 1, _deviations(3, 2)),
    "equal entries, P = 3/4": (_FLAT, 1, _deviations(1, 6)),
    "r = 0": (_FLAT, 4, _deviations(1, 2)),
}


def exact_kappa(gradient: Sequence[int], keep: int, rows: Rows) -> Fraction:
    """kappa by enumeration in fractions; gradients whose masked norms are whole."""

    def squared(v: Sequence[int], kept: Sequence[int]) -> int:
        return sum(v[j] ** 2 for j in kept)

    def part(kept: Sequence[int]) -> Fraction:
        x = squared(gradient, kept)
        below = Fraction(sum(squared(row, kept) < 9 for row in rows), len(rows))
        root = math.isqrt(x)
        if root**2 != x:
            raise ValueError(f"gradient must have whole masked norms, got {gradient!r}")
        return below * min(x, root)

    found = [part(kept) for kept in itertools.combinations(range(DIM), keep)]
    return sum(found, Fraction(0)) / len(found) / part(range(DIM))


def exact_kappa_of(name: str) -> Fraction:
    """kappa of a named case, in fractions."""
    return exact_kappa(*CASES[name])


def calculated(name: str) -> sparsification.Kappa:
    """The calculator's kappa of a named case."""
    gradient, keep, rows = CASES[name]
    return sparsification.kappa(
        gradient, clip_norm=CLIP, drop_rate=1 - keep / DIM, deviation=np.array(rows, dtype=float)
    )


def spread_of(probability: float, dim: int, clip: float = 1.0, z: float = 0.75) -> float:
    """Standard deviation of the Gaussian deviation that stays below z C with this probability."""
    return z * clip / math.sqrt(float(scipy.stats.chi2.ppf(probability, dim)))
