import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dptheory import gradients
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row


def printed_split_quarter(grad_norm: float, bound: float, deviation_norm: float) -> float:
    """The left side of Theorem 2 for xi of one norm, z = 1/4."""
    return min(grad_norm, 3 * bound / 4) * grad_norm if deviation_norm < bound / 4 else 0.0


def _one_entry_kept(entry: Fraction, shift: Fraction, dim: int, z: Fraction) -> Fraction:
    """E_m E<m*w, clip(m*(w + xi))> for w = (entry, 0, ...), xi = +-(shift, 0, ...), C = 5 and masks of one entry."""
    return entry * sum(max(Fraction(-5), min(Fraction(5), entry + s * shift)) for s in (-1, 1)) / (2 * dim)


def _split_cases() -> Iterator[tuple[Fraction, Fraction, int, Fraction]]:
    """|w| = (1-z) C and |xi| < z C: nothing is clipped."""
    for z, dim in itertools.product((Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)), (1, 2, 3)):
        yield (1 - z) * 5, z * 4, dim, z


row = new_row(
    id="rf.eq70",
    source=Source("rf", "Appendix B", (70,)),
    verdict=Verdict.HOLDS,
    calculators=(gradients.symmetric_clip_lower_bound,),
)


@row.equal(_split_cases, tolerance=1e-14)
def _(entry: Fraction, shift: Fraction, dim: int, z: Fraction) -> Sides:
    """one-hot gradient: 1 - r is attained for every z"""
    return (
        gradients.symmetric_clip_lower_bound(
            grad_norm=float(entry), clip_norm=5.0, deviation_norms=[float(shift)], deviation_share=float(z)
        ).split
        / dim,
        lambda: _one_entry_kept(entry, shift, dim, z),
        printed_split_quarter(float(entry), 5.0, float(shift)) / dim,
    )


def _larger_bound(**point: float) -> float:
    """Wrong statement: 0.55 in place of 1 - r = 1/2."""
    return one_step_slack(**point, factor=0.55)


@row.inequality(
    {
        "grad_norm": Range(0.01, 10.0, log=True),
        "spread": Range(0.01, 10.0, log=True),
        "angle": Range(0.0, math.pi),
        "turn": Range(0.0, math.pi),
        "split": Range(0.01, 0.99),
    },
    wrong=_larger_bound,
)
def one_step_slack(
    grad_norm: float, spread: float, angle: float, turn: float, split: float, factor: float = 0.5
) -> float:
    """one step, one of two entries kept

    E_m E<m*w, clip(m*(w + xi))> - (1-r) P(|xi| < zC) min(|w|, (1-z)C) |w|, d = 2, r = 1/2, C = 1, scale-free.
    """
    w = grad_norm * np.array([math.cos(angle), math.sin(angle)])
    xi = spread * np.array([math.cos(turn), math.sin(turn)])
    kept = sum(
        float(w[j]) * float(gradients.clip([[w[j] + sign * xi[j]]], clip_norm=1.0)[0, 0])
        for j in range(2)
        for sign in (-1, 1)
    )
    bound = gradients.symmetric_clip_lower_bound(
        grad_norm=grad_norm, clip_norm=1.0, deviation_norms=[spread], deviation_share=split
    ).split
    return (kept / 4 - factor * bound) / (grad_norm * min(1.0, grad_norm))
