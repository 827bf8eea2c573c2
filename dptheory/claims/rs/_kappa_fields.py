"""kappa and the best rate field by field: what must agree, whatever the gradient, and every rate tried in a loop."""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptheory import sparsification

Array = NDArray[np.float64]
FIELDS = ("value", "standard_error", "norm_ratio", "probability", "lower", "upper", "error", "norm_ratio_error")


@cache
def _gradient(dim: int) -> Array:
    """Entries 1, 1/2, 1/3, ... in a random order."""
    return np.random.default_rng(dim).permutation(1.0 / np.arange(1, dim + 1))


@cache
def _rows(dim: int) -> Array:
    return 0.3 * np.random.default_rng([dim, 1]).standard_normal((40, dim)) / math.sqrt(dim)


def kappa_field(field: str, dim: int, keep: int, **how: Any) -> float:
    found = sparsification.kappa(
        _gradient(dim), clip_norm=0.5, drop_rate=1 - keep / dim, deviation=0.1 / math.sqrt(dim), **how
    )
    return float(getattr(found, field))


def kappa_of_rows(field: str, keep: int, **how: Any) -> float:
    found = sparsification.kappa(_gradient(20), clip_norm=0.5, drop_rate=1 - keep / 20, deviation=_rows(20), **how)
    return float(getattr(found, field))


def condition_met(rows: int, small: int) -> bool:
    """P >= sqrt(1 - r) for entries of one size, one of four kept, ``small`` of the deviations below the threshold."""
    deviation = np.array([[0.0] * 4] * small + [[9.0] * 4] * (rows - small))
    return sparsification.kappa([2.0] * 4, clip_norm=4.0, drop_rate=0.75, deviation=deviation).condition


def without_deviation(dim: int, keep: int) -> sparsification.Kappa:
    return sparsification.kappa(_gradient(dim), clip_norm=0.5, drop_rate=1 - keep / dim)


SETTINGS: tuple[tuple[int, str, float], ...] = (
    (12, "none", 0.75),
    (12, "spread", 0.25),
    (12, "rows", 0.75),
    (300, "spread", 0.75),
    (20_000, "spread", 0.4),
)
"""d, deviation, z."""


def _deviation(kind: str, dim: int) -> Any:
    return {"none": 0.0, "spread": 0.02 / math.sqrt(dim), "rows": _rows(dim)}[kind]


def best(dim: int, kind: str, z: float) -> sparsification.BestRate:
    given: dict[str, Any] = {} if kind == "none" else {"deviation": _deviation(kind, dim)}
    if z != 0.75:
        given["deviation_share"] = z
    return sparsification.best_rate(_gradient(dim), clip_norm=0.4, delta_c=1.0, step_noise=40.0, **given)


def _bound_at(dim: int, kind: str, z: float, keep: int, largest: bool = False) -> float:
    """U(r) with the least kappa that is proved, or the largest."""
    rate = 1.0 - keep / dim
    found = sparsification.kappa(
        _gradient(dim), clip_norm=0.4, drop_rate=rate, deviation=_deviation(kind, dim), deviation_share=z
    )
    least, most = max(found.lower, found.value - found.error), min(found.upper, found.value + found.error)
    return sparsification.relative_bound(drop_rate=rate, delta_c=1.0, step_noise=40.0, kappa=most if largest else least)


def every_rate(what: str, dim: int, kind: str, z: float) -> float:
    """Best of all rates that keep a whole number of entries."""
    bounds = {keep: _bound_at(dim, kind, z, keep) for keep in range(dim, 0, -1)}
    best = min(bounds, key=bounds.__getitem__)
    if what in ("first_rate", "last_rate"):
        alike = [
            keep
            for keep in range(dim, 0, -1)
            if _bound_at(dim, kind, z, keep, largest=True) <= bounds[best] * (1 + 1e-11)
        ]
        runs = [keep for keep in alike if {*range(min(keep, best), max(keep, best))} <= {*alike}]
        return 1.0 - (max(runs) if what == "first_rate" else min(runs)) / dim
    return 1.0 - best / dim if what == "drop_rate" else bounds[best]


def all_fields(bound: float, found: sparsification.Kappa) -> float:
    """Bound and fields in one number: a change of 1 % in any of them shows, as they are far above rounding."""
    return math.fsum([bound, *(math.sqrt(2 + i) * getattr(found, field) for i, field in enumerate(FIELDS))])


def asked_alone(dim: int, kind: str, z: float) -> float:
    """The same from kappa and the trade-off, asked for at the rate that was chosen."""
    rate = best(dim, kind, z).drop_rate
    found = sparsification.kappa(
        _gradient(dim), clip_norm=0.4, drop_rate=rate, deviation=_deviation(kind, dim), deviation_share=z
    )
    return all_fields(
        sparsification.relative_bound(
            drop_rate=rate, delta_c=1.0, step_noise=40.0, kappa=max(found.lower, found.value - found.error)
        ),
        found,
    )
