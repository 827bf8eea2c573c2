import itertools
import math
from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import freezing
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf._batches import (
    CANCELLING,
    CANCELLING_ROOT,
    GROWING_LINE,
    IMPROVING,
    LENGTHS,
    LINE,
    OBLIQUE,
    ORTHOGONAL,
    TURNING,
    Batch,
    Block,
    dot,
    in_blocks,
)

_TRIANGLES = [(*norms, clip) for norms in ((3, 4, 5), (5, 12, 13), (8, 0, 8), (0, 7, 7)) for clip in (1, 6, 9, 20)]
"""Trainable, frozen and whole norm, all whole numbers, and the clip."""


def exact_growth(kept: int, frozen: int, whole: int, clip: int) -> Fraction:
    """Clip factor after freezing over the one before."""
    after, before = (min(Fraction(1), Fraction(clip, norm)) if norm else Fraction(1) for norm in (kept, whole))
    return after / before


lem3_2a = new_row(
    id="lf.lem3.2a",
    source=Source("lf", "Lemma 3.2, first part"),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds",),
    calculators=(freezing.norm_growth,),
)


@lem3_2a.equal(*_TRIANGLES, tolerance=1e-14)
def _(kept: int, frozen: int, whole: int, clip: int) -> Sides:
    """growth of the clipped norm, whole-number triangles"""
    return (
        freezing.norm_growth(trainable_norms=kept, frozen_norms=frozen, clip_norm=clip),
        exact_growth(kept, frozen, whole, clip),
        whole / kept if kept else None,
    )


def _norm_slack(kept: float, frozen: float, clip: float, share: float = 0.0) -> float:
    """between no growth and the fall of the whole norm"""
    growth = float(freezing.norm_growth(trainable_norms=kept, frozen_norms=frozen, clip_norm=clip))
    fall = math.hypot(kept, frozen) / kept
    return min(growth - 1 - share * (fall - 1), fall / growth - 1)


lem3_2a.inequality(
    dict.fromkeys(("kept", "frozen", "clip"), Range(1e-6, 1e6, log=True)),
    # wrong: every one grows by 1 % of what the whole norm falls
    wrong=partial(_norm_slack, share=0.01),
)(_norm_slack)


_BATCHES = (CANCELLING, CANCELLING_ROOT, ORTHOGONAL, OBLIQUE, TURNING, IMPROVING, LINE, GROWING_LINE)


def _signal_square(batch: Batch, frozen: bool) -> Fraction:
    """|s|^2 in fractions."""
    total = batch.clipped_sum(frozen)
    return dot(total, total) / len(batch.trainable) ** 2


def _growth_of(batch: Batch) -> freezing.SignalGrowth:
    return freezing.signal_growth(batch.rows, frozen_norms=batch.frozen_norms, clip_norm=1.0)


def _three_samples(first: float, second: float, third: float, spread: float, long: float, frozen: float) -> Array:
    """Three gradients in the quarter plane; the fourth column holds the frozen norms."""
    angles = np.array([first, second, third]) * math.pi / 2
    norms = np.array([1.0, spread, long])
    plane = norms[:, None] * np.stack([np.cos(angles), np.abs(np.sin(angles))], axis=1)
    return np.column_stack([np.maximum(plane, 0.0), [frozen, 1.0, frozen / 2]])


_IN_BLOCKS: dict[str, tuple[tuple[Block, int, int], ...]] = {
    # trainable blocks, frozen norm and whole norm over that of a block of ones
    "acute": (((3, 0), 4, 5), ((0, 5), 12, 13), ((6, 8), 0, 10)),
    "obtuse, none opposes": (((4, 3), 12, 13), ((-5, 0), 0, 5), ((8, 0), 6, 10)),
    "cancelling": (((1, 0), 0, 1), ((-3, 0), 4, 5)),
}
_CLIPS = (Fraction(2), Fraction(7), Fraction(20))


def _factors(batch: str, clip: Fraction, frozen: bool) -> list[Fraction]:
    """Clip factor of each sample; ``frozen``: the norm of the trainable blocks alone counts."""
    norms = [math.isqrt(sum(b * b for b in row)) if frozen else whole for row, _, whole in _IN_BLOCKS[batch]]
    assert frozen or all(sum(b * b for b in row) + f * f == w * w for row, f, w in _IN_BLOCKS[batch])
    return [min(Fraction(1), clip / norm) for norm in norms]


def _signal(batch: str, clip: Fraction, frozen: bool) -> list[Fraction]:
    """The blocks of the mean of the clipped gradients."""
    rows, factors = [row for row, _, _ in _IN_BLOCKS[batch]], _factors(batch, clip, frozen)
    return [
        sum((f * b for f, b in zip(factors, blocks, strict=True)), Fraction(0)) / len(rows)
        for blocks in zip(*rows, strict=True)
    ]


def _growth_by_hand(field: str, batch: str, clip: Fraction, length: int) -> float:
    before, after = (_signal(batch, clip, frozen) for frozen in (False, True))
    if field in ("before", "after"):
        signal = before if field == "before" else after
        return math.sqrt(length * sum(s * s for s in signal))
    growths = [a / b for a, b in zip(_factors(batch, clip, True), _factors(batch, clip, False), strict=True)]
    if batch == "acute":
        return float(min(growths) if field == "lower" else max(growths))
    grown = [row for (row, _, _), growth in zip(_IN_BLOCKS[batch], growths, strict=True) if growth > 1]
    opposed = any(sum(b * s for b, s in zip(row, before, strict=True)) < 0 for row in grown)
    return {"lower": 0.0 if opposed else 1.0, "upper": math.inf}[field]


def _arguments(batch: str, clip: Fraction, length: int) -> tuple[Array, Array, float]:
    """A block of ones has the norm sqrt(length)."""
    unit = math.isqrt(length)
    rows = np.array([in_blocks(row, length) for row, _, _ in _IN_BLOCKS[batch]])
    return rows, unit * np.array([float(f) for _, f, _ in _IN_BLOCKS[batch]]), unit * float(clip)


def _stated_signal(batch: str, clip: Fraction, frozen: bool, length: int) -> float:
    """Sum of the entries, each times its number."""
    rows, norms, limit = _arguments(batch, clip, length)
    found = freezing.biased_signal(rows, frozen_norms=0.0 if frozen else norms, clip_norm=limit)
    return float(found @ np.arange(1.0, rows.shape[1] + 1))


def _signal_by_hand(batch: str, clip: Fraction, frozen: bool, length: int) -> Fraction:
    """The same in fractions; block k holds the numbers k length + 1 .. (k + 1) length."""
    blocks = enumerate(_signal(batch, clip, frozen))
    return sum((s * (length * k * length + length * (length + 1) // 2) for k, s in blocks), Fraction(0))


lem3_2b = new_row(
    id="lf.lem3.2b",
    source=Source("lf", "Lemma 3.2, second part"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(freezing.signal_growth, freezing.biased_signal),
)


@lem3_2b.equal(lambda: [(batch,) for batch in _BATCHES], kind=Kind.COUNTEREXAMPLE)
def _(batch: Batch) -> Sides:
    """does the signal grow? batches in fractions"""
    found = _growth_of(batch)
    return found.after >= found.before * (1 - 1e-12), _signal_square(batch, True) >= _signal_square(batch, False), True


@lem3_2b.equal(
    lambda: [(b, f) for b, f in itertools.product(_BATCHES, (False, True)) if _signal_square(b, f)], tolerance=1e-13
)
def _(batch: Batch, frozen: bool) -> Sides:
    """norm of the signal, batches in fractions"""
    found = _growth_of(batch)
    norm = found.after if frozen else found.before
    return norm**2, _signal_square(batch, frozen), float(_signal_square(batch, not frozen))


@lem3_2b.equal(*_TRIANGLES, tolerance=1e-14)
def _(kept: int, frozen: int, whole: int, clip: int) -> Sides:
    """equal factors: the range is one point"""
    # two samples at right angles, of equal norms
    found = freezing.signal_growth(np.array([[kept, 0.0], [0.0, kept]]), frozen_norms=frozen, clip_norm=clip)
    return (
        math.sqrt(found.lower * found.upper),
        exact_growth(kept, frozen, whole, clip),
        math.sqrt(whole / kept) if kept else None,
    )


@lem3_2b.equal(
    lambda: [(b, c, f, n) for b in _IN_BLOCKS for c in _CLIPS for f in (False, True) for n in LENGTHS], tolerance=1e-12
)
def _(batch: str, clip: Fraction, frozen: bool, length: int) -> Sides:
    """signal in blocks, in fractions"""
    return (
        _stated_signal(batch, clip, frozen, length),
        _signal_by_hand(batch, clip, frozen, length),
        _signal_by_hand(batch, clip, not frozen, length),
    )


@lem3_2b.equal(
    lambda: itertools.product(("before", "after", "lower", "upper"), _IN_BLOCKS, _CLIPS, LENGTHS),
    tolerance=1e-12,
)
def _(field: str, batch: str, clip: Fraction, length: int) -> Sides:
    """norms and range in blocks, with each condition and with none"""
    gradients, frozen, clip_norm = _arguments(batch, clip, length)
    return (
        getattr(freezing.signal_growth(gradients, frozen_norms=frozen, clip_norm=clip_norm), field),
        _growth_by_hand(field, batch, clip, length),
        _growth_by_hand("before" if field == "after" else "after", batch, clip, length),
    )


def _range_slack(clip: float, middle: float = 0.0, **point: float) -> float:
    """range for pairs at acute angles"""
    rows = _three_samples(**point)
    found = freezing.signal_growth(rows[:, :2], frozen_norms=rows[:, 2], clip_norm=clip)
    ratio, low = found.after / found.before, found.lower + middle * (found.upper - found.lower)
    return min(ratio / low, found.upper / ratio) - 1


lem3_2b.inequality(
    {
        **dict.fromkeys(("first", "second", "third"), Range(0.0, 1.0)),
        **dict.fromkeys(("spread", "long"), Range(0.01, 10.0, log=True)),
        "frozen": Range(0.01, 100.0, log=True),
        "clip": Range(0.01, 10.0, log=True),
    },
    # wrong: the signal grows by the mean growth of the samples at least
    wrong=partial(_range_slack, middle=0.5),
)(_range_slack)


def _opposed_slack(turn: float, long: float, frozen: float, clip: float, printed: bool = False) -> float:
    """growth where no sample that grows opposes the signal

    Two clipped samples at any angle, the second one's part along the signal of either sign.
    """
    rows = np.array([[1.0, 0.0], [long * math.cos(turn), long * math.sin(turn)]])
    found = freezing.signal_growth(rows, frozen_norms=np.array([0.0, frozen]), clip_norm=clip)
    if printed:
        return found.after - found.before
    return found.after - found.lower * found.before if found.lower else 1.0


lem3_2b.inequality(
    {
        "turn": Range(0.0, math.pi),
        "long": Range(0.1, 10.0, log=True),
        "frozen": Range(0.1, 100.0, log=True),
        "clip": Range(0.1, 10.0, log=True),
    },
    wrong=partial(_opposed_slack, printed=True),
)(_opposed_slack)
