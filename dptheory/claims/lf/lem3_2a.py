import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from dptheory import freezing
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row


def growth_cases() -> Iterator[tuple[int, int, int, int]]:
    """Trainable, frozen and whole norm, all whole numbers, and the clip."""
    for (kept, frozen, whole), clip in itertools.product(((3, 4, 5), (5, 12, 13), (8, 0, 8), (0, 7, 7)), (1, 6, 9, 20)):
        yield kept, frozen, whole, clip


def exact_growth(kept: int, frozen: int, whole: int, clip: int) -> Fraction:
    """Clip factor after freezing over the one before."""
    after, before = (min(Fraction(1), Fraction(clip, norm)) if norm else Fraction(1) for norm in (kept, whole))
    return after / before


def _strict_norm_slack(kept: float, frozen: float, clip: float) -> float:
    """Wrong statement: the clipped norm of every sample grows by 1 % of what the whole norm falls."""
    growth = float(freezing.norm_growth(trainable_norms=kept, frozen_norms=frozen, clip_norm=clip))
    return growth - 1 - 0.01 * (math.hypot(kept, frozen) / kept - 1)


row = new_row(
    id="lf.lem3.2a",
    source=Source("lf", "Lemma 3.2, first part"),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds",),
    calculators=(freezing.norm_growth,),
)


@row.equal(growth_cases, tolerance=1e-14)
def _(kept: int, frozen: int, whole: int, clip: int) -> Sides:
    """growth of the clipped norm, whole-number triangles"""
    return (
        freezing.norm_growth(trainable_norms=kept, frozen_norms=frozen, clip_norm=clip),
        exact_growth(kept, frozen, whole, clip),
        whole / kept if kept else None,
    )


@row.inequality(
    {
        "kept": Range(1e-6, 1e6, log=True),
        "frozen": Range(1e-6, 1e6, log=True),
        "clip": Range(1e-6, 1e6, log=True),
    },
    wrong=_strict_norm_slack,
)
def _norm_slack(kept: float, frozen: float, clip: float) -> float:
    """between no growth and the fall of the whole norm

    Clipped norms grow, and by no more than the whole norm falls.
    """
    growth = float(freezing.norm_growth(trainable_norms=kept, frozen_norms=frozen, clip_norm=clip))
    return min(growth - 1, math.hypot(kept, frozen) / kept / growth - 1)
