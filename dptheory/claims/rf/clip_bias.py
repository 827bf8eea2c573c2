import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import gradients
from dptheory._arrays import Array
from dptheory.claims._draws import all_masks, drawn_masks
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.rf.section2_2 import clip_moments
from dptheory.claims.rf.thm1 import Point, clipped
from dptheory.gradients import posterior_freeze, relaxed_gradient_ratio

Law = tuple[tuple[Fraction, Point], ...]
_FIVE: Law = ((Fraction(3, 8), (5, 0)), (Fraction(5, 16), (-3, 4)), (Fraction(5, 16), (-3, -4)))
_LENGTHENED: Law = ((Fraction(1, 2), (9, 12)), (Fraction(1, 2), (3, 4)))
_MASKS: tuple[Point, ...] = ((1, 1), (1, 0), (0, 1))


def _squared_bias(law: Law, mask: Point, bound: int) -> Fraction:
    """|E clip(m*g) - m*E g|^2."""
    found = [(p, clipped(g, mask, bound), tuple(a * m for a, m in zip(g, mask, strict=True))) for p, g in law]
    return sum((sum((p * (c[j] - g[j]) for p, c, g in found), Fraction(0)) ** 2 for j in range(len(mask))), Fraction(0))


def _chance(law: Law, mask: Point, bound: int) -> Fraction:
    return sum((p for p, g in law if sum(a * a * m for a, m in zip(g, mask, strict=True)) > bound**2), Fraction(0))


def _gaussian_bias(grad_norm: float, dim: int, deviation: float) -> float:
    """|E clip(g) - w| for g ~ N(w, s^2 I), C = 1."""
    return clip_moments(grad_norm, dim, deviation, 1.0).shortfall * grad_norm


def _gaussian_bias_falls(
    dim: int, keep: int, energy: float, grad_norm: float, deviation: float, factor: float = 1.0
) -> bool:
    """Is the bias with the mask at most |m*w| / |w| times that without?"""
    full = _gaussian_bias(grad_norm, dim, deviation)
    masked = _gaussian_bias(energy**0.5 * grad_norm, keep, deviation)
    allowed: float = factor * energy**0.5 * full * (1 + 1e-9) + 1e-15
    return masked <= allowed


_GAUSSIAN = tuple(
    (dim, max(1, dim // part), energy, grad_norm, norm / math.sqrt(dim))
    for dim in (1, 2, 30, 10**4, 10**8)
    for part in (1, 2, 10)
    for energy, grad_norm, norm in (
        (0.0, 2.0, 1.0),
        (0.1, 0.7, 0.7),
        (0.5, 2.0, 0.01),
        (1.0, 1.1, 0.5),
        (0.9, 5.0, 20.0),
    )
)


clip_bias = new_row(
    id="rf.clip_bias",
    source=Source("rf", "section 2.3"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(gradients.gaussian_clip_moments, gradients.clip),
)


@clip_bias.equal(
    lambda: [(law, mask, c) for law in (_FIVE, _LENGTHENED) for mask in _MASKS for c in (2, 4, 6)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(law: Law, mask: Point, c: int) -> Sides:
    """the bias rises where the clipping probability falls

    the law of five: where all are clipped their mean stays 0, and with (1, 0) it does not
    """
    stated = law != _FIVE or mask != (1, 0) or c == 6
    chance_falls = _chance(law, mask, c) <= _chance(law, (1, 1), c)
    return (
        stated,
        lambda: _squared_bias(law, mask, c) <= _squared_bias(law, (1, 1), c),
        True if chance_falls else None,
    )


@clip_bias.equal(((1, 1),), ((1, 0),), ((0, 1),))
def _(mask: Point) -> Sides:
    """g = (5, 0), (-3, +-4), C = 4: squared bias of the clipped mean, in fractions"""
    return Fraction(9, 64) if mask == (1, 0) else Fraction(0), _squared_bias(_FIVE, mask, 4), Fraction(0)


@clip_bias.equal(lambda: _GAUSSIAN)
def _(dim: int, keep: int, energy: float, grad_norm: float, deviation: float) -> Sides:
    """Gaussian gradients up to dimension 1e8: the bias falls"""
    case = (dim, keep, energy, grad_norm, deviation)
    return _gaussian_bias_falls(*case), True, _gaussian_bias_falls(*case, factor=0.99)


def bias_bound_slack(
    first: float, second: float, third: float, fourth: float, chance: float, factor: float = 1.0
) -> float:
    """the bound E(|m*g| - C)_+ on the bias holds and is not raised

    E(|m*g| - C)_+ - |E clip(m*g) - m*E g| for two gradients and both masks of one entry, C = 1; and that it does not
    exceed E(|g| - C)_+.
    """
    rows, law = np.array([[first, second], [third, fourth]]), np.array([chance, 1 - chance])
    whole = float(law @ np.maximum(np.linalg.norm(rows, axis=1) - 1, 0.0))
    slacks = []
    for mask in ((1.0, 0.0), (0.0, 1.0)):
        kept = rows * np.array(mask)
        excess = float(law @ np.maximum(np.linalg.norm(kept, axis=1) - 1, 0.0))
        bias = float(np.linalg.norm(law @ (gradients.clip(kept, clip_norm=1.0) - kept)))
        slacks += [factor * excess - bias, factor * whole - excess]
    return min(slacks)


clip_bias.inequality(
    {**dict.fromkeys(("first", "second", "third", "fourth"), Range(-5, 5)), "chance": Range(0, 1)},
    wrong=partial(bias_bound_slack, factor=0.9),
    tolerance=1e-9,
)(bias_bound_slack)


Deviations = tuple[tuple[Fraction, Point], ...]
_CANCELLING: Deviations = ((Fraction(2, 7), (5, 0)), (Fraction(5, 14), (-2, 3)), (Fraction(5, 14), (-2, -3)))
"""Deviations of mean zero from w = (2, 0) whose asymmetries cancel without a mask at C = 3."""


def _bias_term(mask: Point) -> Fraction:
    """b = E<m*w, clip(m*(w + xi))> under this law less that under its symmetrisation, w = (2, 0), C = 3."""

    def kept(sign: int) -> Fraction:
        return sum((2 * p * clipped((2 + sign * x, sign * y), mask, 3)[0] for p, (x, y) in _CANCELLING), Fraction(0))

    return (kept(1) - kept(-1)) / 2


def _pushed_bias(entry: int, dim: int, keep: int, share: Fraction) -> Fraction:
    """E_m b for w = (entry, 0, ...), C = 1, xi = +-100 in that entry: +100 with chance 1/2 - share against 1/2."""
    masks = list(itertools.combinations(range(dim), keep))
    with_first = Fraction(sum(0 in kept for kept in masks), len(masks))
    return with_first * entry * ((Fraction(1, 2) - share) - (Fraction(1, 2) + share))


masked_bias = new_row(
    id="rf.masked_bias",
    source=Source("rf", "after Theorem 2"),
    verdict=Verdict.HOLDS,
    calculators=(gradients.clip,),
)


def total_variation_slack(
    first: float, second: float, turn: float, skew: float, size: float, factor: float = 2.0
) -> float:
    """the bound by total variation, two-point laws

    factor C E_m|m*w| TV(p, p~) - |E_m b| for xi = +-v with chances 1/2 +- skew, p~ its symmetrisation, C = 1, one of
    two entries kept.
    """
    w, v = np.array([first, second]), size * np.array([math.cos(turn), math.sin(turn)])
    total, length = 0.0, 0.0
    for j in range(2):
        up, down = (float(gradients.clip([[w[j] + sign * v[j]]], clip_norm=1.0)[0, 0]) for sign in (1, -1))
        total += 0.5 * float(w[j]) * skew * (up - down)
        length += 0.5 * abs(float(w[j]))
    return (factor * length * abs(skew) - abs(total)) / max(length, 1e-9)


masked_bias.inequality(
    {
        "first": Range(-3, 3),
        "second": Range(-3, 3),
        "turn": Range(0, math.pi),
        "skew": Range(-0.5, 0.5),
        "size": Range(0.01, 100, log=True),
    },
    wrong=partial(total_variation_slack, factor=1.9),
    tolerance=1e-9,
)(total_variation_slack)


@masked_bias.equal(
    lambda: [(e, d, k, Fraction(s, 20)) for e in (1, 3) for d, k in ((1, 1), (4, 1), (5, 3)) for s in (1, 4)]
)
def _(entry: int, dim: int, keep: int, share: Fraction) -> Sides:
    """attained: one large entry, deviations far outside the ball"""
    kept = Fraction(keep, dim)
    return -2 * kept * entry * share, lambda: _pushed_bias(entry, dim, keep, share), -2 * kept**2 * entry * share


@masked_bias.equal(((1, 1),), ((1, 0),), ((0, 1),), kind=Kind.COUNTEREXAMPLE)
def _(mask: Point) -> Sides:
    """no bias without a mask, some with it"""
    return Fraction(-3, 7) if mask == (1, 0) else Fraction(0), lambda: _bias_term(mask), Fraction(0)


def _masked_clips(rng: np.random.Generator, n: int, dim: int, kept: int, bound: float) -> Array:
    """Is a masked Gaussian gradient of mean norm 1 and deviation 0.2 longer than the bound?"""
    gradient = 1.0 / np.sqrt(dim) + 0.2 * rng.standard_normal((n, dim))
    mask = drawn_masks(rng, n, dim, kept)
    return np.asarray(np.linalg.norm(gradient * mask, axis=1) > bound, dtype=np.float64)


def _poisson_tail(half: int, square: float) -> float:
    """P(chi2_{2 half} > square): fewer than half events of a Poisson process by the time square / 2."""
    mean = square / 2
    return math.fsum(math.exp(j * math.log(mean) - mean - math.lgamma(j + 1)) for j in range(half))


clip_probability = new_row(
    id="rf.clip_probability",
    source=Source("rf", "section 2.3"),
    verdict=Verdict.HOLDS,
    calculators=(gradients.clip_probability,),
)


@clip_probability.equal(
    *itertools.product((1, 2, 5, 50), (0.5, 9.0, 100.0)), (10_000, 19_900.0), (10_000, 20_300.0), tolerance=1e-9
)
def _(half: int, square: float) -> Sides:
    """w = 0 and an even dimension: Poisson sums"""
    stated = partial(gradients.clip_probability, grad_norm=0.0, deviation=1.0, clip_norm=math.sqrt(square))
    return stated(dim=2 * half), lambda: _poisson_tail(half, square), stated(dim=4 * half)


@clip_probability.mean(
    partial(_masked_clips, dim=30, kept=15, bound=1.0),
    wrong=lambda: gradients.clip_probability(grad_norm=1.0, dim=30, deviation=0.2, clip_norm=1.0),
    row_bytes=2000,
)
def _() -> float:
    """masked Gaussian gradient, 15 of 30 kept"""
    return gradients.clip_probability(grad_norm=0.5**0.5, dim=15, deviation=0.2, clip_norm=1.0)


def _rarer_slack(dim: int, share: float, kept_energy: float, deviation: float, grad_norm: float) -> float:
    """never more often with a mask, Gaussian gradients up to dimension 1e8"""
    kept = max(1, round(share * dim))
    full = gradients.clip_probability(grad_norm=grad_norm, dim=dim, deviation=deviation, clip_norm=1.0)
    return full - gradients.clip_probability(
        grad_norm=kept_energy**0.5 * grad_norm, dim=kept, deviation=deviation, clip_norm=1.0
    )


clip_probability.inequality(
    {
        "dim": Range(1, 10**8, integer=True, log=True),
        "share": Range(0.0, 1.0),
        "kept_energy": Range(0.0, 1.0),
        "deviation": Range(1e-6, 10.0, log=True),
        "grad_norm": Range(1e-3, 10.0, log=True),
    },
    wrong=lambda **point: _rarer_slack(**point) - 1e-3,  # rarer by that much at least
    tolerance=1e-9,
)(_rarer_slack)


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


_KEPT = tuple((batch, keep) for batch in BATCHES for keep in range(1, len(batch[0])))


def _long_posterior(keep: int, what: str) -> float:
    """Gradients (3, 4, 0, ..., 0) and (0, ..., 0, 5), clipped to norm 1: the mean is (3, 4, 0, ..., 0, 5) / 10 before masking."""
    gradients = np.zeros((2, 20_000))
    gradients[0, :2], gradients[1, -1] = (3.0, 4.0), 5.0
    found = posterior_freeze(gradients, clip_norm=1.0, keep=keep)
    return found.mean_square if what == "mean square" else float(found.mean @ (gradients[0] + gradients[1])) / 5


posterior = new_row(
    id="rf.posterior",
    source=Source("rf", "Appendix G", tuple(range(71, 76))),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(posterior_freeze, relaxed_gradient_ratio),
)


@posterior.equal(*_KEPT, kind=Kind.COUNTEREXAMPLE)
def _(batch: Batch, keep: int) -> Sides:
    """order of the mean squares, batches in fractions"""
    other = mean_square(batch, keep, False)
    stated = posterior_freeze(batch, clip_norm=1.0, keep=keep).mean_square <= other + 1e-12
    return stated, mean_square(batch, keep, True) <= other, True


@posterior.equal(*_KEPT, tolerance=1e-13)
def _(batch: Batch, keep: int) -> Sides:
    """mean square of posterior freeze, all masks"""
    found = posterior_freeze(batch, clip_norm=1.0, keep=keep)
    return found.mean_square, mean_square(batch, keep, True), float(mean_square(batch, keep, False))


@posterior.equal(*_KEPT, tolerance=1e-13)
def _(batch: Batch, keep: int) -> Sides:
    """descent of posterior freeze, all masks"""
    dim = len(batch[0])
    masked, whole = (
        float(posterior_freeze(batch, clip_norm=1.0, keep=kept).mean @ np.arange(1, dim + 1)) for kept in (keep, dim)
    )
    return masked, lambda: _posterior_descent(batch, keep), whole


def _example_slack(norm: float, share: float, clip: float) -> float:
    """order for one example"""
    masked = share * norm
    before, after = min(masked, clip), masked * min(1.0, clip / norm)
    ratio = float(relaxed_gradient_ratio(grad_norm=norm, masked_norm=masked, clip_norm=clip))
    return min(before / after - 1, norm / before - 1, 1e-13 - abs(before / after / ratio - 1))


posterior.inequality(
    {
        "norm": Range(1e-3, 1e3, log=True),
        "share": Range(1e-3, 1.0, log=True),
        "clip": Range(1e-3, 1e3, log=True),
    },
    wrong=lambda **point: _example_slack(**point) - 1e-3,
)(_example_slack)


@posterior.equal(
    lambda: [(keep, what) for keep in (5_000, 20_000) for what in ("mean square", "descent")], tolerance=1e-12
)
def _(keep: int, what: str) -> Sides:
    """two long gradients by hand, 20,000 entries"""
    return (
        _long_posterior(keep, what),
        Fraction(keep, 20_000) * Fraction(1, 2 if what == "mean square" else 1),
        1.01 * _long_posterior(keep, what),
    )
