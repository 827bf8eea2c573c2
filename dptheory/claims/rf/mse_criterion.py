import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from dptheory import gradients
from dptheory.claims._draws import all_masks
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row


def printed_preference(full_mse: float, masked_mse: float) -> bool:
    """Section 2.2: random freeze is to be preferred where its MSE is lower."""
    return masked_mse < full_mse


def _best_decrease(entry: int, dim: int, kept: int, size: int) -> Fraction:
    """max over learning rates of |w|^2 / 2 - E|w - rate g|^2 / 2, w = (entry, ...), g = m * (w + noise), noise entries +-size."""
    aligned, squares, count = 0, 0, 0
    for mask in all_masks(dim, kept):
        for signs in itertools.product((-1, 1), repeat=dim):
            g = [b * (entry + size * s) for s, b in zip(signs, mask, strict=True)]
            aligned += sum(entry * x for x in g)
            squares += sum(x * x for x in g)
            count += 1
    return Fraction(aligned, count) ** 2 / (2 * Fraction(squares, count))


def _noisy(entry: int, dim: int, kept: int, size: int) -> gradients.MseBreakdown:
    """The same setting for the calculator: nothing is clipped, C sigma / B = size."""
    clip = 100.0
    return gradients.clipped_gradient_mse(
        grad_norm=entry * math.sqrt(dim),
        dim=dim,
        deviation=0.0,
        clip_norm=clip,
        noise_multiplier=size / clip,
        batch_size=1,
        drop_rate=1.0 - kept / dim,
    )


def _decrease_cases() -> Iterator[tuple[int, int, int, int]]:
    yield from itertools.product((1, 3), (2, 3), (1,), (2, 5))
    yield from ((1, 4, 2, 0), (1, 4, 3, 3))


def _gap_by_entry(dim: int, kept: int, spread: int, size: int) -> Fraction:
    """MSE of the mask minus that of x times DP-SGD's gradient, w = (2, ..., 2), nothing clipped, batches of 2.

    Both errors are sums over the entries, all of one law: mask bit, deviations +-spread of two examples, noise +-size.
    """
    x, gap = Fraction(kept, dim), Fraction(0)
    for one, two, noise in itertools.product((-1, 1), repeat=3):
        g = 2 + Fraction(spread * (one + two), 2) + size * noise
        gap += (x * (2 - g) ** 2 + (1 - x) * 4 - (2 - x * g) ** 2) / 8
    return dim * gap


def _stated_gap(dim: int, kept: int, spread: int, size: int) -> float:
    """x (1 - x) E|g|^2 by the calculator."""
    clip = 1e3 * dim
    found = gradients.clipped_gradient_mse(
        grad_norm=2 * math.sqrt(dim),
        dim=dim,
        deviation=spread,
        clip_norm=clip,
        noise_multiplier=2 * size / clip,
        batch_size=2,
        drop_rate=1 - kept / dim,
    )
    return kept / dim * (1 - kept / dim) * found.full.second_moment


row = new_row(
    id="rf.mse_criterion",
    source=Source("rf", "section 2.2"),
    verdict=Verdict.NOT_SHOWN,
    kernel_theorems=("reading_is_false",),
    printed=printed_preference,
    calculators=(gradients.clipped_gradient_mse,),
)


@row.equal(_decrease_cases, kind=Kind.COUNTEREXAMPLE)
def _(entry: int, dim: int, kept: int, size: int) -> Sides:
    """does masking pay? best decrease on |w|^2 / 2, by enumeration"""
    found = _noisy(entry, dim, kept, size)
    return (
        found.masked.descent_ratio > found.full.descent_ratio,
        lambda: _best_decrease(entry, dim, kept, size) > _best_decrease(entry, dim, dim, size),
        printed_preference(found.full.mse, found.masked.mse),
    )


@row.equal(_decrease_cases, tolerance=1e-12)
def _(entry: int, dim: int, kept: int, size: int) -> Sides:
    """descent ratio: twice the best decrease"""
    found = _noisy(entry, dim, kept, size)
    return (
        found.masked.descent_ratio,
        lambda: 2 * _best_decrease(entry, dim, kept, size),
        found.full.descent_ratio,
    )


@row.equal(lambda: itertools.product((4, 1000, 10**6), (1, 3), (0, 1), (0, 3)), tolerance=1e-9)
def _(dim: int, kept: int, spread: int, size: int) -> Sides:
    """scaling beats masking in MSE by x (1 - x) E|g|^2, unclipped: entry by entry, in fractions"""
    return (
        _stated_gap(dim, kept, spread, size),
        lambda: _gap_by_entry(dim, kept, spread, size),
        _stated_gap(dim, kept, 0, size),
    )
