import itertools
import math
from functools import partial

import numpy as np

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._draws import drawn_masks
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row


def _masked_clips(rng: np.random.Generator, n: int, dim: int, kept: int, bound: float) -> Array:
    """Is a masked Gaussian gradient of mean norm 1 and deviation 0.2 longer than the bound?"""
    gradient = 1.0 / np.sqrt(dim) + 0.2 * rng.standard_normal((n, dim))
    mask = drawn_masks(rng, n, dim, kept)
    return np.asarray(np.linalg.norm(gradient * mask, axis=1) > bound, dtype=np.float64)


def _poisson_tail(half: int, square: float) -> float:
    """P(chi2_{2 half} > square): fewer than half events of a Poisson process by the time square / 2."""
    mean = square / 2
    return math.fsum(math.exp(j * math.log(mean) - mean - math.lgamma(j + 1)) for j in range(half))


row = new_row(
    id="rf.clip_probability",
    source=Source("rf", "section 2.3"),
    verdict=Verdict.HOLDS,
    calculators=(gradients.clip_probability,),
)


@row.equal(
    lambda: [
        *itertools.product((1, 2, 5, 50), (0.5, 9.0, 100.0)),
        (10_000, 19_900.0),
        (10_000, 20_300.0),
    ],
    tolerance=1e-9,
)
def _(half: int, square: float) -> Sides:
    """w = 0 and an even dimension: Poisson sums"""
    return (
        gradients.clip_probability(grad_norm=0.0, dim=2 * half, deviation=1.0, clip_norm=math.sqrt(square)),
        lambda: _poisson_tail(half, square),
        gradients.clip_probability(grad_norm=0.0, dim=4 * half, deviation=1.0, clip_norm=math.sqrt(square)),
    )


@row.mean(
    partial(_masked_clips, dim=30, kept=15, bound=1.0),
    wrong=lambda: gradients.clip_probability(grad_norm=1.0, dim=30, deviation=0.2, clip_norm=1.0),
    row_bytes=2000,
)
def _() -> float:
    """masked Gaussian gradient, 15 of 30 kept"""
    return gradients.clip_probability(grad_norm=0.5**0.5, dim=15, deviation=0.2, clip_norm=1.0)


def _much_rarer_slack(dim: int, share: float, kept_energy: float, deviation: float, grad_norm: float) -> float:
    """Wrong statement: a mask lowers the probability by at least 1e-3."""
    return _rarer_slack(dim, share, kept_energy, deviation, grad_norm) - 1e-3


@row.inequality(
    {
        "dim": Range(1, 10**8, integer=True, log=True),
        "share": Range(0.0, 1.0),
        "kept_energy": Range(0.0, 1.0),
        "deviation": Range(1e-6, 10.0, log=True),
        "grad_norm": Range(1e-3, 10.0, log=True),
    },
    wrong=_much_rarer_slack,
    tolerance=1e-9,
)
def _rarer_slack(dim: int, share: float, kept_energy: float, deviation: float, grad_norm: float) -> float:
    """never more often with a mask, Gaussian gradients up to dimension 1e8

    The clip probability without a mask minus that with one, C = 1, for any number kept and any energy kept.
    """
    kept = max(1, round(share * dim))
    full = gradients.clip_probability(grad_norm=grad_norm, dim=dim, deviation=deviation, clip_norm=1.0)
    return full - gradients.clip_probability(
        grad_norm=kept_energy**0.5 * grad_norm, dim=kept, deviation=deviation, clip_norm=1.0
    )
