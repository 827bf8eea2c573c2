"""kappa and the best rate field by field: what must agree, whatever the gradient, and every rate tried in a loop."""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptheory import sparsification
from dptheory.checks import ExactCheck

Array = NDArray[np.float64]
_FIELDS = ("value", "standard_error", "norm_ratio", "probability", "lower", "upper", "error", "norm_ratio_error")


@cache
def _gradient(dim: int) -> Array:
    """Entries 1, 1/2, 1/3, ... in a random order."""
    return np.random.default_rng(dim).permutation(1.0 / np.arange(1, dim + 1))


@cache
def _rows(dim: int) -> Array:
    return 0.3 * np.random.default_rng([dim, 1]).standard_normal((40, dim)) / math.sqrt(dim)


def _kappa(field: str, dim: int, keep: int, **how: Any) -> float:
    found = sparsification.kappa(_gradient(dim), 0.5, 1 - keep / dim, 0.1 / math.sqrt(dim), **how)
    return float(getattr(found, field))


def _with_rows(field: str, keep: int, **how: Any) -> float:
    found = sparsification.kappa(_gradient(20), 0.5, 1 - keep / 20, _rows(20), **how)
    return float(getattr(found, field))


def _met(rows: int, small: int) -> bool:
    """P >= sqrt(1 - r) for entries of one size, one of four kept, ``small`` of the deviations below the threshold."""
    deviation = np.array([[0.0] * 4] * small + [[9.0] * 4] * (rows - small))
    return sparsification.kappa([2.0] * 4, 4.0, 0.75, deviation).condition


CHECKS = (
    ExactCheck(
        name="the condition, as a comparison of whole numbers",
        cases=lambda: [(rows, small) for rows in (4, 7, 10) for small in range(1, rows + 1)],
        truth=lambda rows, small: 4 * small**2 >= rows**2,
        statement=_met,
        wrong=lambda rows, small: not 4 * small**2 >= rows**2,
    ),
    ExactCheck(
        name="seed and number of masks matter to drawn masks alone",
        cases=lambda: [(field, *case) for field in _FIELDS for case in ((30, 7, 5, 300), (20_000, 100, 5, 300))],
        truth=lambda field, dim, keep, seed, masks: _kappa(field, dim, keep),
        statement=lambda field, dim, keep, seed, masks: _kappa(field, dim, keep, seed=seed, masks=masks),
        wrong=lambda field, dim, keep, seed, masks: 1 + _kappa(field, dim, keep),
    ),
    ExactCheck(
        name="rows: what no draw enters, under another seed",
        cases=lambda: [
            (field, keep) for field in ("norm_ratio", "probability", "lower", "upper", "norm_ratio_error") for keep in (3, 10)
        ],
        truth=_with_rows,
        statement=lambda field, keep: _with_rows(field, keep, seed=9),
        wrong=lambda field, keep: 1 + _with_rows(field, keep),
    ),
    ExactCheck(
        name="without deviation the value is the ratio, its error the ratio's, and no mask is drawn",
        cases=lambda: [(what, dim, keep) for what in ("value", "error", "standard_error") for dim, keep in ((9, 4), (300, 20), (20_000, 50))],
        truth=lambda what, dim, keep: {
            "value": _plain(dim, keep).norm_ratio,
            "error": _plain(dim, keep).norm_ratio_error,
            "standard_error": 0.0,
        }[what],
        statement=lambda what, dim, keep: getattr(_plain(dim, keep), what),
        wrong=lambda what, dim, keep: 1 + _plain(dim, keep).norm_ratio,
        tolerance=1e-9,
    ),
)  # fmt: skip


def _plain(dim: int, keep: int) -> sparsification.Kappa:
    return sparsification.kappa(_gradient(dim), 0.5, 1 - keep / dim)


# --- best rate --------------------------------------------------------------------------------------------------------

_SETTINGS: tuple[tuple[int, str, float], ...] = (
    (12, "none", 0.75),
    (12, "spread", 0.25),
    (12, "rows", 0.75),
    (300, "spread", 0.75),
    (20_000, "spread", 0.4),
)
"""d, deviation, z."""


def _deviation(kind: str, dim: int) -> Any:
    return {"none": 0.0, "spread": 0.02 / math.sqrt(dim), "rows": _rows(dim)}[kind]


def _best(dim: int, kind: str, z: float) -> sparsification.BestRate:
    more = () if kind == "none" else (_deviation(kind, dim),)
    return sparsification.best_rate(_gradient(dim), 0.4, 1.0, 40.0, *more, **({} if z == 0.75 else {"z": z}))


def _bound_at(dim: int, kind: str, z: float, keep: int) -> float:
    """U(r) with the least kappa that is proved."""
    rate = 1.0 - keep / dim
    found = sparsification.kappa(_gradient(dim), 0.4, rate, _deviation(kind, dim), z=z)
    return sparsification.tradeoff(rate, 1.0, 40.0, max(found.lower, found.value - found.error))


def _every_rate(what: str, dim: int, kind: str, z: float) -> float:
    """Best of all rates that keep a whole number of entries."""
    bounds = {keep: _bound_at(dim, kind, z, keep) for keep in range(dim, 0, -1)}
    best = min(bounds, key=bounds.__getitem__)
    return 1.0 - best / dim if what == "rate" else bounds[best]


def _all_fields(bound: float, found: sparsification.Kappa) -> float:
    """Bound and fields in one number: a change of 1 % in any of them shows, as they are far above rounding."""
    return math.fsum([bound, *(math.sqrt(2 + i) * getattr(found, field) for i, field in enumerate(_FIELDS))])


def _asked_alone(dim: int, kind: str, z: float) -> float:
    """The same from kappa and the trade-off, asked for at the rate that was chosen."""
    rate = _best(dim, kind, z).rate
    found = sparsification.kappa(_gradient(dim), 0.4, rate, _deviation(kind, dim), z=z)
    return _all_fields(sparsification.tradeoff(rate, 1.0, 40.0, max(found.lower, found.value - found.error)), found)


BEST = (
    ExactCheck(
        name="best rate and its bound: every rate tried",
        cases=lambda: [(what, *setting) for what in ("rate", "bound") for setting in _SETTINGS[:3]],
        truth=_every_rate,
        statement=lambda what, *setting: getattr(_best(*setting), what),
        wrong=lambda what, *setting: 1.001 * _every_rate(what, *setting) + 1e-9,
        tolerance=1e-12,
    ),
    ExactCheck(
        name="bound and every field of kappa are those of the rate",
        cases=lambda: _SETTINGS,
        truth=_asked_alone,
        statement=lambda *setting: _all_fields(_best(*setting).bound, _best(*setting).kappa),
        wrong=lambda *setting: 1.0 + _best(*setting).bound,
        tolerance=1e-12,
    ),
)
