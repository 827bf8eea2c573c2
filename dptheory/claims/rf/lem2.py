import math

import numpy as np

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._draws import all_masks
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rf import _masked_vectors as vectors


def _mean_norm(u: Array, keep: int) -> float:
    """E|m*u| over all masks."""
    return float(np.linalg.norm(np.array(all_masks(u.size, keep)) * u, axis=1).mean())


def _narrow_slack(second: float, third: float, fourth: float, keep: int) -> float:
    """Wrong statement: the lower end raised to |u| x^(9/10)."""
    u = np.array([1.0, second, third, fourth])
    return _mean_norm(u, keep) / float(np.linalg.norm(u)) / math.pow(keep / 4, 0.9) - 1


def _spike_or_flat(dim: int, shape: str) -> Array:
    return np.asarray(3.0 * (np.eye(1, dim)[0] if shape == "one entry" else np.ones(dim)))


def _attained(dim: int, keep: int, shape: str) -> float:
    bounds = gradients.mask_norm_bounds(_spike_or_flat(dim, shape), drop_rate=1 - keep / dim)
    return bounds.lower if shape == "one entry" else bounds.upper


row = new_row(
    id="rf.lem2",
    source=Source("rf", "Lemma 2 (Lemma B.1 of RS)", (35,)),
    verdict=Verdict.LOOSE,
    kernel_theorems=("printed_holds", "correction_holds"),
    calculators=(gradients.mask_norm_bounds,),
)


@row.inequality(
    {
        "second": Range(0, 1),
        "third": Range(0, 1),
        "fourth": Range(0, 1),
        "keep": Range(1, 4, integer=True),
    },
    wrong=_narrow_slack,
)
def _bounds_slack(second: float, third: float, fourth: float, keep: int) -> float:
    """four entries, all masks"""
    u = np.array([1.0, second, third, fourth])
    bounds = gradients.mask_norm_bounds(u, drop_rate=1 - keep / 4)
    found = _mean_norm(u, keep)
    return min(found / bounds.lower, bounds.upper / found) - 1


@row.equal(
    lambda: [(dim, keep, s) for dim, keep in vectors.sizes() for s in ("one entry", "equal entries")], tolerance=1e-14
)
def _(dim: int, keep: int, shape: str) -> Sides:
    """both ends attained"""
    return (
        _attained(dim, keep, shape),
        _mean_norm(_spike_or_flat(dim, shape), keep),
        lambda: keep / dim * math.sqrt(9.0 * (1 if shape == "one entry" else dim)),
    )


@row.equal(
    lambda: [(*size, shape) for size in ((20_000, 5_000), (10**6, 10**5)) for shape in ("one entry", "equal entries")],
    tolerance=1e-12,
)
def _(dim: int, keep: int, shape: str) -> Sides:
    """both ends attained, users' sizes"""
    return (
        _attained(dim, keep, shape),
        3.0 * (keep / dim if shape == "one entry" else math.sqrt(keep)),
        lambda: 1.01 * keep / dim * math.sqrt(9.0 * (1 if shape == "one entry" else dim)),
    )
