"""RF: how often a masked gradient is clipped, what that does to the bias, and the convergence bound's left side for every split z."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dptheory import gradients
from dptheory.checks import ExactCheck, Kind, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims._draws import drawn_masks

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
    full = gradients.clip_probability(grad_norm, dim, deviation, 1.0)
    return full - gradients.clip_probability(kept_energy**0.5 * grad_norm, kept, deviation, 1.0)


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
    calculators=(gradients.clip_probability,),
    checks=(
        ExactCheck(
            name="w = 0 and an even dimension: Poisson sums",
            cases=lambda: [
                *itertools.product((1, 2, 5, 50), (0.5, 9.0, 100.0)),
                (10_000, 19_900.0),
                (10_000, 20_300.0),
            ],
            truth=_poisson_tail,
            statement=lambda half, square: gradients.clip_probability(0.0, 2 * half, 1.0, math.sqrt(square)),
            wrong=lambda half, square: gradients.clip_probability(0.0, 4 * half, 1.0, math.sqrt(square)),
            tolerance=1e-9,
        ),
        MeanCheck(
            name="masked Gaussian gradient, 15 of 30 kept",
            sampler=partial(_masked_clips, dim=30, kept=15, bound=1.0),
            claimed=lambda: gradients.clip_probability(0.5**0.5, 15, 0.2, 1.0),
            wrong=lambda: gradients.clip_probability(1.0, 30, 0.2, 1.0),
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

# --- rf.clip_bias -----------------------------------------------------------------------------------------------------

Point = tuple[int, ...]
Law = tuple[tuple[Fraction, Point], ...]

_FIVE: Law = ((Fraction(3, 8), (5, 0)), (Fraction(5, 16), (-3, 4)), (Fraction(5, 16), (-3, -4)))
_LENGTHENED: Law = ((Fraction(1, 2), (9, 12)), (Fraction(1, 2), (3, 4)))
_MASKS: tuple[Point, ...] = ((1, 1), (1, 0), (0, 1))


def _clipped(g: Point, mask: Point, bound: int) -> tuple[Fraction, ...]:
    """clip(m*g) for gradients whose masked norms are whole."""
    kept = tuple(a * m for a, m in zip(g, mask, strict=True))
    size = math.isqrt(sum(a * a for a in kept))
    if size**2 != sum(a * a for a in kept):
        raise ValueError(f"g must have whole masked norms, got {g!r}")
    return tuple(Fraction(a) * min(Fraction(1), Fraction(bound, max(size, 1))) for a in kept)


def _squared_bias(law: Law, mask: Point, bound: int) -> Fraction:
    """|E clip(m*g) - m*E g|^2."""
    found = [(p, _clipped(g, mask, bound), tuple(a * m for a, m in zip(g, mask, strict=True))) for p, g in law]
    return sum((sum((p * (c[j] - g[j]) for p, c, g in found), Fraction(0)) ** 2 for j in range(len(mask))), Fraction(0))


def _chance(law: Law, mask: Point, bound: int) -> Fraction:
    return sum((p for p, g in law if sum(a * a * m for a, m in zip(g, mask, strict=True)) > bound**2), Fraction(0))


def _bias_falls(law: Law, mask: Point, bound: int) -> bool:
    """Is the bias with the mask at most that without?"""
    return _squared_bias(law, mask, bound) <= _squared_bias(law, (1, 1), bound)


def _chance_falls(law: Law, mask: Point, bound: int) -> bool:
    return _chance(law, mask, bound) <= _chance(law, (1, 1), bound)


def _gaussian_bias(grad_norm: float, dim: int, deviation: float) -> float:
    """|E clip(g) - w| for g ~ N(w, s^2 I), C = 1."""
    return gradients.gaussian_clip_moments(grad_norm, dim, deviation, 1.0).shortfall * grad_norm


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


def _bias_bound_slack(
    first: float, second: float, third: float, fourth: float, chance: float, factor: float = 1.0
) -> float:
    """E(|m*g| - C)_+ - |E clip(m*g) - m*E g| for two gradients and both masks of one entry, C = 1; and that it does not exceed E(|g| - C)_+."""
    rows, law = np.array([[first, second], [third, fourth]]), np.array([chance, 1 - chance])
    whole = float(law @ np.maximum(np.linalg.norm(rows, axis=1) - 1, 0.0))
    slacks = []
    for mask in ((1.0, 0.0), (0.0, 1.0)):
        kept = rows * np.array(mask)
        excess = float(law @ np.maximum(np.linalg.norm(kept, axis=1) - 1, 0.0))
        bias = float(np.linalg.norm(law @ (gradients.clip(kept, 1.0) - kept)))
        slacks += [factor * excess - bias, factor * whole - excess]
    return min(slacks)


_CLIP_BIAS = Claim(
    id="rf.clip_bias",
    title="masking alleviates the clipping bias",
    source=Source("rf", "section 2.3"),
    statement=r"Random freeze reduces the clipping probability and therefore alleviates the clipping bias "
    r"$\|E\,\mathrm{clip}(m\odot g)-m\odot Eg\|$.",
    verdict=Verdict.FALSE,
    conditions=(
        "the same clipping bound and the same iterate; the bias is that of the masked gradient against the masked mean",
    ),
    correction=r"Fewer clipped gradients can mean more bias: $g = (5,0)$ with chance $\frac38$, $(-3,\pm4)$ with $\frac5{16}$ each, $C = 4$: without a mask "
    r"all are clipped and the bias is 0; with $m = (1,0)$ the chance is $\frac38$ and the bias $\frac38$. Never raised is the bound "
    r"$E(\|m\odot g\|-C)_+$ on the bias; and for $g\sim N(w,s^2I)$ the bias itself falls, by $\|m\odot w\|/\|w\|$ at least.",
    printed=lambda: True,
    calculators=(gradients.gaussian_clip_moments, gradients.clip),
    checks=(
        ExactCheck(
            name="the bias rises where the clipping probability falls",
            cases=lambda: [(law, mask, c) for law in (_FIVE, _LENGTHENED) for mask in _MASKS for c in (2, 4, 6)],
            truth=_bias_falls,
            # the law of five: where all are clipped their mean stays 0, and with (1, 0) it does not
            statement=lambda law, mask, c: law != _FIVE or mask != (1, 0) or c == 6,
            wrong=lambda law, mask, c: True if _chance_falls(law, mask, c) else None,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="g = (5, 0), (-3, +-4), C = 4: squared bias of the clipped mean, in fractions",
            cases=lambda: [((1, 1),), ((1, 0),), ((0, 1),)],
            truth=lambda mask: _squared_bias(_FIVE, mask, 4),
            statement=lambda mask: Fraction(9, 64) if mask == (1, 0) else Fraction(0),
            wrong=lambda mask: Fraction(0),
        ),
        ExactCheck(
            name="Gaussian gradients up to dimension 1e8: the bias falls",
            cases=lambda: _GAUSSIAN,
            truth=lambda *case: True,
            statement=_gaussian_bias_falls,
            wrong=partial(_gaussian_bias_falls, factor=0.99),
        ),
        SearchCheck(
            name="the bound E(|m*g| - C)_+ on the bias holds and is not raised",
            box={
                "first": Range(-5, 5),
                "second": Range(-5, 5),
                "third": Range(-5, 5),
                "fourth": Range(-5, 5),
                "chance": Range(0, 1),
            },
            slack=_bias_bound_slack,
            wrong=partial(_bias_bound_slack, factor=0.9),
            tolerance=1e-9,
        ),
    ),
    proved=True,
)

# --- rf.masked_bias ---------------------------------------------------------------------------------------------------

Deviations = tuple[tuple[Fraction, Point], ...]

_CANCELLING: Deviations = ((Fraction(2, 7), (5, 0)), (Fraction(5, 14), (-2, 3)), (Fraction(5, 14), (-2, -3)))
"""Deviations of mean zero from w = (2, 0) whose asymmetries cancel without a mask at C = 3."""


def _bias_term(mask: Point) -> Fraction:
    """b = E<m*w, clip(m*(w + xi))> under this law less that under its symmetrisation, w = (2, 0), C = 3."""

    def kept(sign: int) -> Fraction:
        return sum((2 * p * _clipped((2 + sign * x, sign * y), mask, 3)[0] for p, (x, y) in _CANCELLING), Fraction(0))

    return (kept(1) - kept(-1)) / 2


def _pushed_bias(entry: int, dim: int, keep: int, share: Fraction) -> Fraction:
    """E_m b for w = (entry, 0, ...), C = 1, xi = +-100 in that entry: +100 with chance 1/2 - share against 1/2."""
    masks = list(itertools.combinations(range(dim), keep))
    with_first = Fraction(sum(0 in kept for kept in masks), len(masks))
    return with_first * entry * ((Fraction(1, 2) - share) - (Fraction(1, 2) + share))


def _total_variation_slack(
    first: float, second: float, turn: float, skew: float, size: float, factor: float = 2.0
) -> float:
    """factor C E_m|m*w| TV(p, p~) - |E_m b| for xi = +-v with chances 1/2 +- skew, p~ its symmetrisation, C = 1, one of two entries kept."""
    w, v = np.array([first, second]), size * np.array([math.cos(turn), math.sin(turn)])
    total, length = 0.0, 0.0
    for j in range(2):
        up, down = (float(gradients.clip([[w[j] + sign * v[j]]], 1.0)[0, 0]) for sign in (1, -1))
        total += 0.5 * float(w[j]) * skew * (up - down)
        length += 0.5 * abs(float(w[j]))
    return (factor * length * abs(skew) - abs(total)) / max(length, 1e-9)


_MASKED_BIAS = Claim(
    id="rf.masked_bias",
    title="the bias term under a mask",
    source=Source("rf", "after Theorem 2"),
    statement=r"In Theorem 2 $-E_m[b_t]$ also tends to be small, as $p_t'$ is expected to be approximately symmetric if $p_t$ is.",
    verdict=Verdict.HOLDS,
    conditions=(
        "approximately symmetric: p_t is close to the symmetric law of the theorem in total variation",
        "small: against C times the norm of the gradient",
        "it does not say that E_m[b_t] is small where b_t is",
    ),
    correction=r"$|E_m[b_t]|\le2C\,E_m\|m\odot\nabla w_t\|\,\mathrm{TV}(p_t,\tilde p_t)\le2C\sqrt{1-r}\,\|\nabla w_t\|\,\mathrm{TV}(p_t,\tilde p_t)$: a mask does not "
    r"raise the distance from symmetry, and this bound is $\sqrt{1-r}$ times that without a mask. $b_t$ can be 0 and $E_m[b_t] < 0$: "
    r"$w = (2,0)$, $\xi = (5,0)$ with chance $\frac27$, $(-2,\pm3)$ with $\frac5{14}$ each, $C = 3$, $r = \frac12$: $E_m[b_t] = -\frac3{14}$.",
    calculators=(gradients.clip,),
    checks=(
        SearchCheck(
            name="the bound by total variation, two-point laws",
            box={
                "first": Range(-3, 3),
                "second": Range(-3, 3),
                "turn": Range(0, math.pi),
                "skew": Range(-0.5, 0.5),
                "size": Range(0.01, 100, log=True),
            },
            slack=_total_variation_slack,
            wrong=partial(_total_variation_slack, factor=1.9),
            tolerance=1e-9,
        ),
        ExactCheck(
            name="attained: one large entry, deviations far outside the ball",
            cases=lambda: [
                (e, d, k, Fraction(s, 20)) for e in (1, 3) for d, k in ((1, 1), (4, 1), (5, 3)) for s in (1, 4)
            ],
            truth=_pushed_bias,
            statement=lambda entry, dim, keep, share: -2 * Fraction(keep, dim) * entry * share,
            wrong=lambda entry, dim, keep, share: -2 * Fraction(keep, dim) ** 2 * entry * share,
        ),
        ExactCheck(
            name="no bias without a mask, some with it",
            cases=lambda: [((1, 1),), ((1, 0),), ((0, 1),)],
            truth=_bias_term,
            statement=lambda mask: Fraction(-3, 7) if mask == (1, 0) else Fraction(0),
            wrong=lambda mask: Fraction(0),
            kind=Kind.COUNTEREXAMPLE,
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
        float(w[j]) * float(gradients.clip([[w[j] + sign * xi[j]]], 1.0)[0, 0]) for j in range(2) for sign in (-1, 1)
    )
    bound = gradients.symmetric_clip_lower_bound(grad_norm, 1.0, [spread], split).split
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
    calculators=(gradients.symmetric_clip_lower_bound,),
    checks=(
        ExactCheck(
            name="one-hot gradient: 1 - r is attained for every z",
            cases=_split_cases,
            truth=_one_entry_kept,
            statement=lambda entry, shift, dim, z: (
                gradients.symmetric_clip_lower_bound(float(entry), 5.0, [float(shift)], float(z)).split / dim
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

CLAIMS = (_CLIP_PROBABILITY, _CLIP_BIAS, _MASKED_BIAS, _EQ70)
