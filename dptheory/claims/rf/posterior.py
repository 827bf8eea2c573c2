import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dptheory.claims._draws import all_masks
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.gradients import posterior_freeze, relaxed_gradient_ratio

Batch = tuple[tuple[int, ...], ...]
BATCHES: tuple[Batch, ...] = (
    ((1, 0), (-5, 12)),
    ((3, 4),),
    ((1, 0), (-3, 4)),
    ((2, 3, 6), (1, -2, 2)),
    ((0, 0, 0), (12, -4, 3), (0, 3, 4)),
)


def _shrink(vector: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
    """Clip to norm 1; the norm of an integer vector that is not an integer is taken from its float."""
    square = sum((Fraction(x) ** 2 for x in vector), Fraction(0))
    if square <= 1:
        return tuple(map(Fraction, vector))
    root = Fraction(math.isqrt(int(square)))
    norm = root if root**2 == square else Fraction(math.sqrt(square))
    return tuple(x / norm for x in vector)


def _masked(mask: Sequence[int], vector: Sequence[Fraction | int]) -> tuple[Fraction, ...]:
    return tuple(Fraction(m * x) for m, x in zip(mask, vector, strict=True))


def _batch_mean(vectors: Sequence[Sequence[Fraction]]) -> tuple[Fraction, ...]:
    return tuple(sum(column, Fraction(0)) / len(vectors) for column in zip(*vectors, strict=True))


def mean_square(batch: Batch, keep: int, clip_first: bool) -> Fraction:
    """E|batch gradient|^2 over all masks, C = 1, clipped before (posterior freeze) or after masking (random freeze)."""
    masks = all_masks(len(batch[0]), keep)
    total = Fraction(0)
    for mask in masks:
        rows = [_masked(mask, _shrink(g)) if clip_first else _shrink(_masked(mask, g)) for g in batch]
        total += sum((x**2 for x in _batch_mean(rows)), Fraction(0))
    return total / len(masks)


def _posterior_descent(batch: Batch, keep: int) -> Fraction:
    """E<w, batch gradient> of posterior freeze over all masks, w = (1, 2, ..., d), C = 1."""
    masks = all_masks(len(batch[0]), keep)
    means = [_batch_mean([_masked(mask, _shrink(g)) for g in batch]) for mask in masks]
    return sum((Fraction(j + 1) * x for mean in means for j, x in enumerate(mean)), Fraction(0)) / len(masks)


def _stated_descent(batch: Batch, keep: int) -> float:
    mean = posterior_freeze(batch, clip_norm=1.0, keep=keep).mean
    return float(mean @ np.arange(1, mean.size + 1))


def _batch_cases() -> list[tuple[Batch, int]]:
    return [(batch, keep) for batch in BATCHES for keep in range(1, len(batch[0]))]


def _long_posterior(keep: int, what: str) -> float:
    """Gradients (3, 4, 0, ..., 0) and (0, ..., 0, 5), clipped to norm 1: the mean is (3, 4, 0, ..., 0, 5) / 10 before masking."""
    gradients = np.zeros((2, 20_000))
    gradients[0, :2], gradients[1, -1] = (3.0, 4.0), 5.0
    found = posterior_freeze(gradients, clip_norm=1.0, keep=keep)
    return found.mean_square if what == "mean square" else float(found.mean @ (gradients[0] + gradients[1])) / 5


row = new_row(
    id="rf.posterior",
    source=Source("rf", "Appendix G", tuple(range(71, 76))),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(posterior_freeze, relaxed_gradient_ratio),
)


@row.equal(_batch_cases, kind=Kind.COUNTEREXAMPLE)
def _(batch: Batch, keep: int) -> Sides:
    """order of the mean squares, batches in fractions"""
    other = mean_square(batch, keep, False)
    stated = posterior_freeze(batch, clip_norm=1.0, keep=keep).mean_square <= other + 1e-12
    return stated, mean_square(batch, keep, True) <= other, True


@row.equal(_batch_cases, tolerance=1e-13)
def _(batch: Batch, keep: int) -> Sides:
    """mean square of posterior freeze, all masks"""
    return (
        posterior_freeze(batch, clip_norm=1.0, keep=keep).mean_square,
        mean_square(batch, keep, True),
        float(mean_square(batch, keep, False)),
    )


@row.equal(_batch_cases, tolerance=1e-13)
def _(batch: Batch, keep: int) -> Sides:
    """descent of posterior freeze, all masks"""
    return _stated_descent(batch, keep), lambda: _posterior_descent(batch, keep), _stated_descent(batch, len(batch[0]))


def _strict_example_slack(norm: float, share: float, clip: float) -> float:
    return _example_slack(norm, share, clip) - 1e-3


@row.inequality(
    {
        "norm": Range(1e-3, 1e3, log=True),
        "share": Range(1e-3, 1.0, log=True),
        "clip": Range(1e-3, 1e3, log=True),
    },
    wrong=_strict_example_slack,
)
def _example_slack(norm: float, share: float, clip: float) -> float:
    """order for one example

    |m * clip(g)| <= |clip(m * g)| <= |g| for one example, and the ratio of the first two is the calculator's.
    """
    masked = share * norm
    before, after = min(masked, clip), masked * min(1.0, clip / norm)
    ratio = float(relaxed_gradient_ratio(grad_norm=norm, masked_norm=masked, clip_norm=clip))
    return min(before / after - 1, norm / before - 1, 1e-13 - abs(before / after / ratio - 1))


@row.equal(lambda: [(keep, what) for keep in (5_000, 20_000) for what in ("mean square", "descent")], tolerance=1e-12)
def _(keep: int, what: str) -> Sides:
    """two long gradients by hand, 20,000 entries"""
    return (
        _long_posterior(keep, what),
        Fraction(keep, 20_000) * Fraction(1, 2 if what == "mean square" else 1),
        1.01 * _long_posterior(keep, what),
    )
