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
    return sparsification.kappa(w, 2.0, 1 - keep / ROWS_DIM, rows, z=z, masks=masks, seed=seed)


def rows_z_score(keep: int, z: float) -> float:
    """Root mean square of (value - exact) / standard_error over 300 draws."""
    found = [rows_found(keep, z, 500, seed) for seed in range(300)]
    return math.sqrt(sum(((one.value - rows_exact(keep, z)) / one.standard_error) ** 2 for one in found) / len(found))


def rows_bars_hold(keep: int, z: float, share: float = 1.0) -> bool:
    found = [rows_found(keep, z, 500, seed) for seed in range(100)]
    return all(abs(one.value - rows_exact(keep, z)) <= share * one.error for one in found)


def bernstein_error(keep: int, z: float) -> float:
    """The stated error of step 12 from ``standard_error`` and the largest f, where every row but the sure ones is drawn."""
    w, rows = _some_rows(z)
    found = rows_found(keep, z, 500)
    sure = np.sum(rows**2, axis=1) < (2.0 * z) ** 2
    p = np.sort(w**2) / np.sum(w**2)
    scale = max(1.0, float(np.linalg.norm(w)) / ((1 - z) * 2.0))
    top = float(p[-keep:].sum())
    doubt = math.log(4e4)
    drawn = 7 * doubt * min(scale * top, math.sqrt(top)) / (3 * 499) * float((~sure).sum() / sure.sum())
    return found.standard_error * math.sqrt(2 * doubt) + drawn + found.norm_ratio_error


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
