"""kappa for rows of deviations: all masks of 16 entries against the drawn ones and their error bars."""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dptheory import sparsification
from dptheory.claims._draws import all_masks

Array = NDArray[np.float64]

ROWS_DIM = 16


def _some_rows(z: float) -> tuple[Array, Array]:
    """A gradient and rows of deviations in 16 entries, most of them shorter than z C, C = 2."""
    rng = np.random.default_rng(11)
    return rng.standard_normal(ROWS_DIM) ** 3, rng.standard_normal((50, ROWS_DIM)) * 0.38 * z / 0.75


@cache
def rows_exact(keep: int, z: float) -> float:
    """kappa over all masks of 16 entries."""
    w, rows = _some_rows(z)
    every = np.array(all_masks(ROWS_DIM, keep), dtype=float)
    length, c = np.sqrt(every @ w**2), (1 - z) * 2.0
    below = (every @ (rows**2).T < (2.0 * z) ** 2).mean(axis=1)
    size = float(np.linalg.norm(w))
    whole = float((np.sum(rows**2, axis=1) < (2.0 * z) ** 2).mean()) * min(size, c) * size
    return float(np.mean(below * np.minimum(length, c) * length)) / whole


def rows_found(keep: int, z: float, masks: int, seed: int = 0) -> sparsification.Kappa:
    w, rows = _some_rows(z)
    return sparsification.kappa(
        w, clip_norm=2.0, drop_rate=1 - keep / ROWS_DIM, deviation=rows, deviation_share=z, masks=masks, seed=seed
    )


@cache
def _draws(keep: int, z: float) -> tuple[sparsification.Kappa, ...]:
    """500 masks under each of 300 seeds."""
    return tuple(rows_found(keep, z, 500, seed) for seed in range(300))


def rows_z_score(keep: int, z: float) -> float:
    """Root mean square of (value - exact) / standard_error over 300 draws."""
    exact, found = rows_exact(keep, z), _draws(keep, z)
    return math.sqrt(sum(((one.value - exact) / one.standard_error) ** 2 for one in found) / len(found))


def rows_bars_hold(keep: int, z: float, share: float = 1.0) -> bool:
    exact = rows_exact(keep, z)
    return all(abs(one.value - exact) <= share * one.error for one in _draws(keep, z)[:100])


def rows_bar_exact(what: str, keep: int, z: float) -> float:
    """Standard error and stated error (rs.kappa_error, step 7) of 500 draws, by the spread and the largest f over all masks of 16 entries.

    Only rows longer than z C are drawn. What f's own bracket adds for the others, a quarter of a percent, is left out.
    """
    w, rows = _some_rows(z)
    every = np.array(all_masks(ROWS_DIM, keep), dtype=float)
    length, c, size = np.sqrt(every @ w**2), (1 - z) * 2.0, float(np.linalg.norm(w))
    descent = np.minimum(length, c) * length / (min(size, c) * size)
    long = np.sum(rows**2, axis=1) >= (2.0 * z) ** 2
    found = descent * (every @ (rows[long] ** 2).T < (2.0 * z) ** 2).mean(axis=1)
    over_p = float(long.sum() / (~long).sum())
    if what == "standard_error":
        return over_p * float(found.std()) / math.sqrt(500)
    doubt = math.log(4e4)
    return over_p * (float(found.std()) * math.sqrt(2 * doubt / 500) + 7 * doubt * float(descent.max()) / (3 * 499))


def rows_bar(what: str, keep: int, z: float) -> float:
    """The mean of the two over 300 draws: of the standard error, the root of the mean square, which has no bias."""
    found = _draws(keep, z)
    if what == "standard_error":
        return math.sqrt(sum(one.standard_error**2 for one in found) / len(found))
    return sum(one.error for one in found) / len(found)


ROWS_FIELDS = ("norm_ratio", "probability", "lower", "upper")


def rows_field(name: str, keep: int, z: float) -> float:
    return float(getattr(rows_found(keep, z, 500), name))


def rows_field_exact(name: str, keep: int, z: float) -> float:
    """The other fields from all masks and the rows' norms."""
    w, rows = _some_rows(z)
    every = np.array(all_masks(ROWS_DIM, keep), dtype=float)
    x, c, size = keep / ROWS_DIM, (1 - z) * 2.0, float(np.linalg.norm(w))
    length = np.sqrt(every @ w**2)
    below = float((np.linalg.norm(rows, axis=1) < 2.0 * z).mean())
    return {
        "norm_ratio": float(np.mean(np.minimum(length, c) * length)) / (min(size, c) * size),
        "probability": below,
        "lower": x,
        "upper": min(x * max(1.0, size / c), math.sqrt(x)) / below,
    }[name]
