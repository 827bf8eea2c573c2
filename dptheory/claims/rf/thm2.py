import dataclasses
import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np

from dptheory import convergence, gradients
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _runs
from dptheory.claims.rs import _runs as enumeration
from dptheory.claims.rs import clipped_bounds as clipped
from dptheory.claims.rs._runs import Settings, two_point

_Z = 0.25  # P(|xi| < C/4) and min(|w|, 3C/4)


def _without_freeze(s: Settings) -> float:
    found = enumeration.run(s)
    return _runs.theorem_bound(s, found, found.gap, None, 0.0).value


thm2 = new_row(
    id="rf.thm2",
    source=Source("rf", "Theorem 2", (4, 5, *range(40, 70))),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    calculators=(convergence.dpsgd_bound, convergence.noise_term),
)
thm2.add(clipped.held_mask_check())
thm2.add(clipped.poisson_check())
thm2.add(clipped.closed_range_check(_Z))
thm2.add(clipped.terms_check(_runs.NOISY[:3]))
thm2.add(clipped.largest_moment_check())
thm2.add(
    clipped.equality_check(
        (
            Settings((0.2, -0.1), two_point(0.3, 0.2), clip=9.0, steps=3, noise_std=0.05, z=_Z),
            Settings((2.0, 1.4), two_point(0.1, 0.2), clip=9.0, batch_size=2, noise_std=0.1, z=_Z),
        )
    )
)


@thm2.equal(lambda: [(s,) for s in _runs.PLAIN], tolerance=1e-12)
def _(s: Settings) -> Sides:
    """no freeze: the bound of DP-SGD"""
    return (
        _without_freeze(s),
        lambda: (
            enumeration.run(s).gap / (s.learning_rate * s.steps)
            + s.learning_rate * s.smoothness / 2 * enumeration.run(s).second_moment
        ),
        _without_freeze(s) + s.learning_rate * s.smoothness / 2 * s.clip**2,
    )


@thm2.inequality(
    {**_runs.QUIET_BOX, "noise_std": Range(0, 0.3)},
    wrong=lambda **point: _runs.maskless_slack(dataclasses.replace(_runs.at(**point), steps=1, z=_Z)),
)
def _slack(**point: float) -> float:
    """inequality, any two-point deviation"""
    return _runs.theorem_slack(dataclasses.replace(_runs.at(**point), steps=1, z=_Z))


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


eq70 = new_row(
    id="rf.eq70",
    source=Source("rf", "Appendix B", (70,)),
    verdict=Verdict.HOLDS,
    calculators=(gradients.symmetric_clip_lower_bound,),
)


@eq70.equal(_split_cases, tolerance=1e-14)
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


eq70.inequality(
    {
        "grad_norm": Range(0.01, 10.0, log=True),
        "spread": Range(0.01, 10.0, log=True),
        "angle": Range(0.0, math.pi),
        "turn": Range(0.0, math.pi),
        "split": Range(0.01, 0.99),
    },
    wrong=partial(one_step_slack, factor=0.55),  # in place of 1 - r = 1/2
)(one_step_slack)
