"""RF: how often a masked gradient is clipped, and the convergence bound's left side for every split z."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dptheory import clipping
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims._draws import drawn_masks
from dptheory.montecarlo import ExactCheck, MeanCheck, Range, SearchCheck

Array = NDArray[np.float64]

# --- rf.clip_probability ----------------------------------------------------------------------------------------------


def _masked_clips(rng: np.random.Generator, n: int, dim: int, kept: int, bound: float) -> Array:
    """Is a masked Gaussian gradient of mean norm 1 and deviation 0.2 longer than the bound?"""
    gradient = 1.0 / np.sqrt(dim) + 0.2 * rng.standard_normal((n, dim))
    mask = drawn_masks(rng, n, dim, kept)
    return np.asarray(np.linalg.norm(gradient * mask, axis=1) > bound, dtype=np.float64)


def _poisson_tail(half: int, square: float) -> float:
    """P(chi2_{2 half} > square): fewer than half events of a Poisson process by the time square / 2."""
    mean = square / 2
    return math.fsum(math.exp(j * math.log(mean) - mean - math.lgamma(j + 1)) for j in range(half))


def _rarer_slack(dim: int, share: float, kept_energy: float, deviation: float, grad_norm: float) -> float:
    """Clip probability without a mask minus that with one, C = 1, for any number kept and any energy kept."""
    kept = max(1, round(share * dim))
    full = clipping.clip_probability(grad_norm, dim, deviation, 1.0)
    return full - clipping.clip_probability(kept_energy**0.5 * grad_norm, kept, deviation, 1.0)


def _much_rarer_slack(dim: int, share: float, kept_energy: float, deviation: float, grad_norm: float) -> float:
    """Wrong statement: a mask lowers the probability by at least 1e-3."""
    return _rarer_slack(dim, share, kept_energy, deviation, grad_norm) - 1e-3


_CLIP_PROBABILITY = Claim(
    id="rf.clip_probability",
    title="masking lowers the clipping probability",
    source=Source("rf", "section 2.3"),
    statement=r"With the same clipping bound random freeze reduces the clipping probability: $P(\|m\odot g\|>C) \le P(\|g\|>C)$.",
    verdict=Verdict.HOLDS,
    conditions=("at the same iterate, so that g has the same law; reduces is read as does not raise",),
    calculators=(clipping.clip_probability,),
    checks=(
        ExactCheck(
            name="w = 0 and an even dimension: Poisson sums",
            cases=lambda: [
                *itertools.product((1, 2, 5, 50), (0.5, 9.0, 100.0)),
                (10_000, 19_900.0),
                (10_000, 20_300.0),
            ],
            truth=_poisson_tail,
            statement=lambda half, square: clipping.clip_probability(0.0, 2 * half, 1.0, math.sqrt(square)),
            wrong=lambda half, square: clipping.clip_probability(0.0, 4 * half, 1.0, math.sqrt(square)),
            tolerance=1e-9,
        ),
        MeanCheck(
            name="masked Gaussian gradient, 15 of 30 kept",
            sampler=partial(_masked_clips, dim=30, kept=15, bound=1.0),
            claimed=lambda: clipping.clip_probability(0.5**0.5, 15, 0.2, 1.0),
            wrong=lambda: clipping.clip_probability(1.0, 30, 0.2, 1.0),
            row_bytes=2000,
        ),
        SearchCheck(
            name="never more often with a mask, Gaussian gradients up to dimension 1e8",
            box={
                "dim": Range(1, 10**8, integer=True, log=True),
                "share": Range(0.0, 1.0),
                "kept_energy": Range(0.0, 1.0),
                "deviation": Range(1e-6, 10.0, log=True),
                "grad_norm": Range(1e-3, 10.0, log=True),
            },
            slack=_rarer_slack,
            wrong=_much_rarer_slack,
            tolerance=1e-9,
        ),
    ),
    proved=True,
)

# --- rf.eq70 ----------------------------------------------------------------------------------------------------------


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


def _masked_slack(
    grad_norm: float, spread: float, angle: float, turn: float, split: float, factor: float = 0.5
) -> float:
    """E_m E<m*w, clip(m*(w + xi))> - (1-r) P(|xi| < zC) min(|w|, (1-z)C) |w|, d = 2, r = 1/2, C = 1, scale-free."""
    w = grad_norm * np.array([math.cos(angle), math.sin(angle)])
    xi = spread * np.array([math.cos(turn), math.sin(turn)])
    kept = sum(
        float(w[j]) * float(clipping.clip([[w[j] + sign * xi[j]]], 1.0)[0, 0]) for j in range(2) for sign in (-1, 1)
    )
    bound = clipping.symmetric_clip_lower_bound(grad_norm, 1.0, [spread], split).split
    return (kept / 4 - factor * bound) / (grad_norm * min(1.0, grad_norm))


_EQ70 = Claim(
    id="rf.eq70",
    title="the convergence bound for every split",
    source=Source("rf", "Appendix B", (70,)),
    statement=r"Theorem 2 also holds with $P(\|\xi\|<zC)\min(\|w\|,(1-z)C)\|w\|$ on the left, for every $z\in(0,1)$.",
    verdict=Verdict.HOLDS,
    conditions=(
        "those of rf.thm2: a mask drawn anew at every step, independent of the gradients",
        "kappa depends on z; that it is at least 1 - r holds for each z",
    ),
    calculators=(clipping.symmetric_clip_lower_bound,),
    checks=(
        ExactCheck(
            name="one-hot gradient: 1 - r is attained for every z",
            cases=_split_cases,
            truth=_one_entry_kept,
            statement=lambda entry, shift, dim, z: (
                clipping.symmetric_clip_lower_bound(float(entry), 5.0, [float(shift)], float(z)).split / dim
            ),
            wrong=lambda entry, shift, dim, z: printed_split_quarter(float(entry), 5.0, float(shift)) / dim,
            tolerance=1e-14,
        ),
        SearchCheck(
            name="one step, one of two entries kept",
            box={
                "grad_norm": Range(0.01, 10.0, log=True),
                "spread": Range(0.01, 10.0, log=True),
                "angle": Range(0.0, math.pi),
                "turn": Range(0.0, math.pi),
                "split": Range(0.01, 0.99),
            },
            slack=_masked_slack,
            wrong=partial(_masked_slack, factor=0.55),
        ),
    ),
    proved=True,
)

CLAIMS = (_CLIP_PROBABILITY, _EQ70)
