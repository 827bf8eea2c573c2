"""LF: what freezing does to norms and to the angle of the biased signal."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptheory import freezing
from dptheory.checks import ExactCheck, Kind, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.lf import _at_scale
from dptheory.claims.lf._batches import (
    CANCELLING,
    CANCELLING_ROOT,
    GROWING_LINE,
    IMPROVING,
    LINE,
    OBLIQUE,
    ORTHOGONAL,
    TURNING,
    Batch,
    dot,
)
from dptheory.claims.lf._bias import BIAS, COSINE
from dptheory.claims.lf._distortion import DISTORTION

Array = NDArray[np.float64]

_BATCHES = (CANCELLING, CANCELLING_ROOT, ORTHOGONAL, OBLIQUE, TURNING, IMPROVING, LINE, GROWING_LINE)

# --- lf.lem3.2a -------------------------------------------------------------------------------------------------------


def _growth_cases() -> Iterator[tuple[int, int, int, int]]:
    """Trainable, frozen and whole norm, all whole numbers, and the clip."""
    for (kept, frozen, whole), clip in itertools.product(((3, 4, 5), (5, 12, 13), (8, 0, 8), (0, 7, 7)), (1, 6, 9, 20)):
        yield kept, frozen, whole, clip


def _exact_growth(kept: int, frozen: int, whole: int, clip: int) -> Fraction:
    """Clip factor after freezing over the one before."""
    after, before = (min(Fraction(1), Fraction(clip, norm)) if norm else Fraction(1) for norm in (kept, whole))
    return after / before


def _norm_slack(kept: float, frozen: float, clip: float) -> float:
    """Clipped norms grow, and by no more than the whole norm falls."""
    growth = float(freezing.norm_growth(kept, frozen, clip))
    return min(growth - 1, math.hypot(kept, frozen) / kept / growth - 1)


def _strict_norm_slack(kept: float, frozen: float, clip: float) -> float:
    """Wrong statement: the clipped norm of every sample grows by 1 % of what the whole norm falls."""
    growth = float(freezing.norm_growth(kept, frozen, clip))
    return growth - 1 - 0.01 * (math.hypot(kept, frozen) / kept - 1)


_NORMS = Claim(
    id="lf.lem3.2a",
    title="freezing shortens every gradient",
    source=Source("lf", "Lemma 3.2, first part"),
    statement=r"$\|g^a(x_i)\|\le\|g^b(x_i)\|$ for every sample: freezing layers does not raise the norm of a per-sample gradient.",
    verdict=Verdict.HOLDS,
    conditions=(
        "at the same parameters; by Pythagoras: the printed triangle inequality bounds the whole norm from above, not from below",
    ),
    correction=r"Hence the trainable part of each clipped gradient grows, by exactly $\max(C,\|g^b\|)/\max(C,\|g^a\|)\in[1,\|g^b\|/\|g^a\|]$.",
    calculators=(freezing.norm_growth,),
    checks=(
        ExactCheck(
            name="growth of the clipped norm, whole-number triangles",
            cases=_growth_cases,
            truth=_exact_growth,
            statement=lambda kept, frozen, whole, clip: float(freezing.norm_growth(kept, frozen, clip)),
            wrong=lambda kept, frozen, whole, clip: whole / kept if kept else None,
            tolerance=1e-14,
        ),
        SearchCheck(
            name="between no growth and the fall of the whole norm",
            box={
                "kept": Range(1e-6, 1e6, log=True),
                "frozen": Range(1e-6, 1e6, log=True),
                "clip": Range(1e-6, 1e6, log=True),
            },
            slack=_norm_slack,
            wrong=_strict_norm_slack,
        ),
    ),
    proved=True,
)

# --- lf.lem3.2b -------------------------------------------------------------------------------------------------------


def _signal_square(batch: Batch, frozen: bool) -> Fraction:
    """|s|^2 in fractions."""
    total = batch.clipped_sum(frozen)
    return dot(total, total) / len(batch.trainable) ** 2


def _growth_of(batch: Batch) -> freezing.SignalGrowth:
    return freezing.signal_growth(batch.rows, batch.frozen_norms, 1.0)


def _common_growth(kept: int, frozen: int, whole: int, clip: int) -> freezing.SignalGrowth:
    """Two samples at right angles, of equal norms."""
    return freezing.signal_growth(np.array([[kept, 0.0], [0.0, kept]]), frozen, clip)


def _three_samples(first: float, second: float, third: float, spread: float, long: float, frozen: float) -> Array:
    """Three gradients in the quarter plane; the fourth column holds the frozen norms."""
    angles = np.array([first, second, third]) * math.pi / 2
    norms = np.array([1.0, spread, long])
    plane = norms[:, None] * np.stack([np.cos(angles), np.abs(np.sin(angles))], axis=1)
    return np.column_stack([np.maximum(plane, 0.0), [frozen, 1.0, frozen / 2]])


def _range_slack(clip: float, **point: float) -> float:
    rows = _three_samples(**point)
    found = freezing.signal_growth(rows[:, :2], rows[:, 2], clip)
    ratio = found.after / found.before
    return min(ratio / found.lower, found.upper / ratio) - 1


def _narrow_range_slack(clip: float, **point: float) -> float:
    """Wrong statement: the signal grows by the mean growth of the samples at least."""
    rows = _three_samples(**point)
    found = freezing.signal_growth(rows[:, :2], rows[:, 2], clip)
    return found.after / found.before / (0.5 * (found.lower + found.upper)) - 1


def _opposed_slack(turn: float, long: float, frozen: float, clip: float) -> float:
    """Two clipped samples at any angle, the second one's part along the signal of either sign."""
    rows = np.array([[1.0, 0.0], [long * math.cos(turn), long * math.sin(turn)]])
    found = freezing.signal_growth(rows, np.array([0.0, frozen]), clip)
    return found.after - found.lower * found.before if found.lower else 1.0


def _unconditional_slack(turn: float, long: float, frozen: float, clip: float) -> float:
    """The printed statement."""
    rows = np.array([[1.0, 0.0], [long * math.cos(turn), long * math.sin(turn)]])
    found = freezing.signal_growth(rows, np.array([0.0, frozen]), clip)
    return found.after - found.before


_SIGNAL = Claim(
    id="lf.lem3.2b",
    title="freezing lengthens the biased signal",
    source=Source("lf", "Lemma 3.2, second part"),
    statement=r"$\|s^{B,a}(\theta')\|\ge\|s^{B,b}(\theta')\|$: the biased signal of the trainable parameters grows when the others are frozen.",
    verdict=Verdict.FALSE,
    conditions=("it holds for one sample; in a batch the longer gradients can cancel",),
    correction=r"If $\langle g'_i,g'_j\rangle\ge0$ for all pairs, $\|s^a\|/\|s^b\|$ lies between the least and the largest growth factor of a sample (lf.lem3.2a). "
    r"If $\langle g'_i,s^b\rangle\ge0$ for every sample whose factor exceeds 1, $\|s^a\|\ge\|s^b\|$.",
    calculators=(freezing.signal_growth, freezing.biased_signal),
    checks=(
        ExactCheck(
            name="does the signal grow? batches in fractions",
            cases=lambda: [(batch,) for batch in _BATCHES],
            truth=lambda batch: _signal_square(batch, True) >= _signal_square(batch, False),
            statement=lambda batch: (lambda found: found.after >= found.before * (1 - 1e-12))(_growth_of(batch)),
            wrong=lambda batch: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="norm of the signal, batches in fractions",
            cases=lambda: [(b, f) for b, f in itertools.product(_BATCHES, (False, True)) if _signal_square(b, f)],
            truth=_signal_square,
            statement=lambda batch, frozen: (
                (lambda found: found.after if frozen else found.before)(_growth_of(batch)) ** 2
            ),
            wrong=lambda batch, frozen: float(_signal_square(batch, not frozen)),
            tolerance=1e-13,
        ),
        ExactCheck(
            name="equal factors: the range is one point",
            cases=_growth_cases,
            truth=_exact_growth,
            statement=lambda *case: math.sqrt((lambda found: found.lower * found.upper)(_common_growth(*case))),
            wrong=lambda kept, frozen, whole, clip: math.sqrt(whole / kept) if kept else None,
            tolerance=1e-14,
        ),
        *_at_scale.SIGNAL,
        SearchCheck(
            name="range for pairs at acute angles",
            box={
                "first": Range(0.0, 1.0),
                "second": Range(0.0, 1.0),
                "third": Range(0.0, 1.0),
                "spread": Range(0.01, 10.0, log=True),
                "long": Range(0.01, 10.0, log=True),
                "frozen": Range(0.01, 100.0, log=True),
                "clip": Range(0.01, 10.0, log=True),
            },
            slack=_range_slack,
            wrong=_narrow_range_slack,
        ),
        SearchCheck(
            name="growth where no sample that grows opposes the signal",
            box={
                "turn": Range(0.0, math.pi),
                "long": Range(0.1, 10.0, log=True),
                "frozen": Range(0.1, 100.0, log=True),
                "clip": Range(0.1, 10.0, log=True),
            },
            slack=_opposed_slack,
            wrong=_unconditional_slack,
        ),
    ),
    proved=True,
)

CLAIMS = (_NORMS, _SIGNAL, COSINE, BIAS, DISTORTION)
