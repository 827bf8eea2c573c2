r"""E[1(A < 1) f(Y)] for measured deviations: which masks bring a row below the threshold, and what they keep of the descent.

A row q_1, ..., q_d >= 0 holds the squares of one example's deviation over the threshold, A is the sum of the entries that
the mask keeps. Rows with q_1 + ... + q_d < 1 are below for every mask. For the others Bernstein's inequality says which are
almost surely below or above; masks are drawn for what is left.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dptheory.gradients import all_masks, random_masks
from dptheory.sparsification._mask_average import Bracket, descent

Array = NDArray[np.float64]

DOUBT = 1e-4  # the drawn part's error bound fails with at most this chance
_BLOCK = 2**22
_SURE = 1e-4  # share of E[f] below which a row is not drawn


@dataclass(frozen=True)
class RowsMean:
    """Mean over the rows of E[1(A < 1) f(Y)]: the estimate, what it lies between, and the standard error of the drawn part."""

    value: float
    low: float
    high: float
    standard_error: float


def all_masks_mean(shares: Array, squares: Array, keep: int, scale: float) -> tuple[float, float]:
    """E[f(Y)] and the rows' mean of E[1(A < 1) f(Y)], over every mask."""
    every = all_masks(shares.size, keep)
    kept = descent(every @ shares, scale)
    return float(kept.mean()), float((kept * (every @ squares.T < 1.0).mean(axis=1)).mean())


def rows_mean(
    shares: Array, squares: Array, keep: int, scale: float, plain: Bracket, masks: int, seed: int
) -> RowsMean:
    """The mean over the rows of ``squares``, shape (n, d); ``plain`` brackets E[f(Y)].

    Source: RS, Lemma 3.3 (rs.kappa, rs.kappa_error).
    """
    always = squares.sum(axis=1) < 1.0
    others = squares[~always]
    below, above = _rare_chances(others, keep)
    x = keep / shares.size

    def at_most(chance: Array) -> Array:
        """E[f(Y); event] by Jensen's inequality given the event."""
        return np.minimum(plain.high, np.sqrt(chance * x))

    sure = _SURE * plain.low
    rarely = at_most(below) <= sure
    mostly = ~rarely & (at_most(above) <= sure)
    drawn = others[~rarely & ~mostly]
    certain = int(always.sum()) + int(mostly.sum())
    low = certain * plain.low - float(at_most(above[mostly]).sum())
    high = certain * plain.high + float(at_most(below[rarely]).sum())
    value, error, standard_error = 0.5 * (low + high), 0.0, 0.0
    if len(drawn):
        mean, error, standard_error = _drawn(shares, drawn, keep, scale, masks, seed)
        most = min(plain.high, mean + error)
        low += len(drawn) * max(0.0, mean - error)
        high += len(drawn) * most
        value += len(drawn) * min(mean, most)
    rows = len(squares)
    return RowsMean(value / rows, max(0.0, low) / rows, high / rows, standard_error * len(drawn) / rows)


def _rare_chances(squares: Array, keep: int) -> tuple[Array, Array]:
    """Bounds on P(A < 1) and P(A >= 1) for each row: Bernstein for the entries kept and for those left out."""
    dim = squares.shape[1]
    mean = squares.mean(axis=1)
    variance = squares.var(axis=1)
    up, down = squares.max(axis=1) - mean, mean - squares.min(axis=1)
    distance = keep * mean - 1.0

    def tail(reach: Array, kept_side: Array, left_side: Array) -> Array:
        """P(A - E[A] >= reach), reach > 0; the terms that are left out stray to the other side."""
        smallest = np.minimum(
            keep * variance + kept_side * reach / 3.0, (dim - keep) * variance + left_side * reach / 3.0
        )
        exponent = np.divide(np.square(reach), 2.0 * smallest, out=np.full_like(reach, np.inf), where=smallest > 0.0)
        return np.where(reach > 1e-9, np.exp(-exponent), 1.0)

    return tail(distance, down, up), tail(-distance, up, down)


def _drawn(shares: Array, squares: Array, keep: int, scale: float, masks: int, seed: int) -> tuple[float, float, float]:
    """Mean of 1(A < 1) f(Y) over rows and drawn masks, the empirical Bernstein bound on its error, its standard error."""
    rng, dim = np.random.default_rng(seed), shares.size
    step = max(1, _BLOCK // dim)
    found = []
    for start in range(0, masks, step):
        block = random_masks(rng=rng, count=min(step, masks - start), dim=dim, keep=keep)
        found.append(descent(block @ shares, scale) * (block @ squares.T < 1.0).mean(axis=1))
    values = np.concatenate(found)
    variance = float(values.var(ddof=1))
    most = float(descent(np.minimum(np.partition(shares, dim - keep)[dim - keep :].sum(), 1.0), scale))
    doubt = math.log(4.0 / DOUBT)
    error = math.sqrt(2.0 * variance * doubt / masks) + 7.0 * most * doubt / (3.0 * (masks - 1))
    return float(values.mean()), error, math.sqrt(variance / masks)
