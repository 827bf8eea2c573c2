import itertools
import math
from fractions import Fraction
from functools import partial

from dptheory import gradients
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.rf._batch_errors import BATCHES, FLAT, enumerated_mse, flat_breakdown, gaussian_errors, split_mse

_UNEVEN = (1.0, 0.5, 0.5, -0.25, 0.1, 0.0)


def _uneven_norms() -> list[float]:
    return [math.sqrt(sum(_UNEVEN[j] ** 2 for j in m)) for m in itertools.combinations(range(6), 3)]


def _uneven_breakdown() -> gradients.MseBreakdown:
    norm = math.sqrt(sum(x * x for x in _UNEVEN))
    return gradients.clipped_gradient_mse(
        grad_norm=norm,
        dim=6,
        deviation=0.2,
        clip_norm=0.9,
        noise_multiplier=1.5,
        batch_size=4,
        drop_rate=0.5,
        masked_norms=_uneven_norms(),
    )


row = new_row(
    id="rf.eq7",
    source=Source("rf", "section 2.2", (7,)),
    verdict=Verdict.HOLDS,
    calculators=(gradients.clipped_gradient_mse, gradients.gaussian_clip_moments),
    figure="rf_signal_loss",
)


@row.equal(lambda: [(i, kept, size) for i in (0, 1) for kept in (1, 2) for size in (1, 3)])
def _(i: int, kept: int, size: int) -> Sides:
    """split by enumeration over masks, two-point noise"""
    batch = BATCHES[i]
    stated = split_mse(batch, kept, size, 2)
    unmasked = Fraction((2 - kept) * (5 * size) ** 2, len(batch) ** 2)
    return stated, lambda: enumerated_mse(batch, kept, size), stated + unmasked


@row.mean(partial(gaussian_errors, w=FLAT, kept=4, bound=0.9, deviation=0.2, sigma=1.5, batch=4), row_bytes=6000)
def _() -> float:
    """flat gradient, 4 of 16 kept"""
    return flat_breakdown().masked.mse


@row.mean(partial(gaussian_errors, w=_UNEVEN, kept=3, bound=0.9, deviation=0.2, sigma=1.5, batch=4), row_bytes=3000)
def _() -> float:
    """uneven gradient, 3 of 6 kept, averaged over masks"""
    return _uneven_breakdown().masked.mse
