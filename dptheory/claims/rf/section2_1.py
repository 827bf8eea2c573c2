import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from dptheory import gradients
from dptheory.claims._draws import all_masks
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row

order_d = new_row(
    id="rf.order_d",
    source=Source("rf", "section 1, after equation 3"),
    verdict=Verdict.CONDITIONAL,
    calculators=(gradients.clipped_gradient_mse,),
)


def _error(dim: int, norm: float) -> float:
    """The error of the clipped and noisy gradient (norm, 0, ..., 0), C = sigma C / B = 1: entry by entry."""
    clipped = min(norm, 1.0)
    return (norm - clipped) ** 2 + sum(1.0 for _ in range(dim))


@order_d.equal((16, 16.0), (16, 4.0), (400, 20.0), (10, 0.5), tolerance=1e-12, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, norm: float) -> Sides:
    """the error, against that of a gradient of norm sqrt d"""
    found = gradients.clipped_gradient_mse(
        grad_norm=norm, dim=dim, deviation=0.0, clip_norm=1.0, noise_multiplier=1.0, batch_size=1, drop_rate=0.5
    )
    return found.full.mse, lambda: _error(dim, norm), _error(dim, math.sqrt(dim)) if norm > math.sqrt(dim) else 0.0


convergence = new_row(
    id="rf.convergence",
    source=Source("rf", "section 2.1, text after equation 5"),
    verdict=Verdict.FALSE,
    severity=Severity.SERIOUS,
    calculators=(gradients.clip,),
)

_SKEW = (((5, 0), Fraction(3, 8)), ((-3, 4), Fraction(5, 16)), ((-3, -4), Fraction(5, 16)))
"""xi and its chance where it is not 0: norm 5, so that clipping scales all by one factor."""


def _law(share: Fraction) -> tuple[tuple[tuple[int, int], Fraction], ...]:
    return ((0, 0), 1 - share), *((xi, share * p) for xi, p in _SKEW)


def _stop(clip: Fraction, share: Fraction) -> Fraction:
    """Where the masked updates lead to, for clip in [3, 5]: 3 eta (5 - C) / (8 - 3 eta)."""
    return 3 * share * (5 - clip) / (8 - 3 * share)


def _masked_update(w: tuple[Fraction, Fraction], clip: Fraction, share: Fraction) -> tuple[Fraction, Fraction]:
    """E_m E m * clip(m * (w + xi)), one of two entries kept: each entry is clipped by itself, with chance 1/2."""

    def entry(j: int) -> Fraction:
        return sum((p * max(-clip, min(clip, w[j] + xi[j])) for xi, p in _law(share)), Fraction(0)) / 2

    return entry(0), entry(1)


def _dense_update_at_zero(clip: Fraction, share: Fraction) -> tuple[Fraction, Fraction]:
    """E clip(xi) for clip <= 5."""
    first, second = (sum((p * xi[j] * clip / 5 for xi, p in _law(share)), Fraction(0)) for j in (0, 1))
    return first, second


def _largest_update(masked: bool, clip: Fraction, share: Fraction) -> Fraction:
    stop = (_stop(clip, share), Fraction(0))
    update = _masked_update(stop, clip, share) if masked else _dense_update_at_zero(clip, share)
    return max(map(abs, update))


def _cases() -> Iterator[tuple[bool, Fraction, Fraction]]:
    yield from itertools.product(
        (True, False), (Fraction(c, 2) for c in range(6, 10)), (Fraction(1, n) for n in (1, 2, 10, 100))
    )


@convergence.equal(_cases, kind=Kind.COUNTEREXAMPLE)
def _(masked: bool, clip: Fraction, share: Fraction) -> Sides:
    """largest entry of the mean update, in fractions: at 0 without a mask, at 3 eta (5 - C) / (8 - 3 eta) with one"""
    # wrong: that of the masked update at 0
    at_zero = _masked_update((Fraction(0), Fraction(0)), clip, share)[0]
    return Fraction(0), lambda: _largest_update(masked, clip, share), at_zero


def _limit(masked: bool, clip: float, share: float, steps: int = 3000, rate: float = 0.05) -> float:
    """Norm of the gradient w where the mean updates lead to, from (2, 1)."""
    w = [2.0, 1.0]
    law = _law(Fraction(share))
    for _ in range(steps):
        if masked:
            update = [sum(float(p) * max(-clip, min(clip, w[j] + xi[j])) for xi, p in law) / 2 for j in (0, 1)]
        else:
            clipped = [(p, gradients.clip([w[0] + xi[0], w[1] + xi[1]], clip_norm=clip)) for xi, p in law]
            update = [sum(float(p) * float(g[j]) for p, g in clipped) for j in (0, 1)]
        w = [value - rate * step for value, step in zip(w, update, strict=True)]
    return float((w[0] ** 2 + w[1] ** 2) ** 0.5)


@convergence.equal((True, 4.0, 1.0), (False, 4.0, 1.0), (True, 3.0, 0.5), (False, 4.0, 0.125), tolerance=1e-6)
def _(masked: bool, clip: float, share: float) -> Sides:
    """1 + the norm of the gradient where the mean updates lead to"""
    norm = float(_stop(Fraction(clip), Fraction(share))) if masked else 0.0
    return 1 + norm, lambda: 1 + _limit(masked, clip, share), 2.0


def _proxy(name: str, share: Fraction) -> tuple[tuple[tuple[Fraction, Fraction], Fraction], ...]:
    """A symmetric law to put for the deviations."""
    zero, half = Fraction(0), Fraction(1, 2)
    if name == "none":
        return (((zero, zero), Fraction(1)),)
    if name == "small":
        return ((half, zero), half), ((-half, zero), half)
    law = [((Fraction(xi[0]), Fraction(xi[1])), p) for xi, p in _law(share)]
    return tuple(((sign * xi[0], sign * xi[1]), p / 2) for xi, p in law for sign in (1, -1))


def _bias_and_bounded(name: str, share: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """-E_m b at the stopping point, kappa, and P h(w) |w|; C = 4, one of two entries kept. There <w, E_m g> = 0."""
    clip, law = Fraction(4), _proxy(name, share)
    w = _stop(clip, share)
    bias = sum((p * w * max(-clip, min(clip, w + xi[0])) for xi, p in law), Fraction(0)) / 2
    size = min(w, 3 * clip / 4) * w
    near = sum((p for xi, p in law if xi[0] ** 2 + xi[1] ** 2 < (clip / 4) ** 2), Fraction(0))
    masked = sum((p for xi, p in law if abs(xi[0]) < clip / 4), Fraction(0)) * size / 2
    return bias, masked / (near * size), near * size


@convergence.equal(lambda: itertools.product(("none", "small", "mirrored"), (Fraction(1, n) for n in (2, 10, 100))))
def _(name: str, share: Fraction) -> Sides:
    """at the stopping point the bias over kappa is at least all that is bounded"""
    bias, kappa, bounded = _bias_and_bounded(name, share)
    # wrong: the bias itself
    return True, lambda: bias / kappa >= bounded, bias >= bounded


inverse_kappa = new_row(
    id="rf.inverse_kappa",
    source=Source("rf", "section 2.1, text after equation 5, on kappa"),
    verdict=Verdict.HOLDS,
)


def _inverse(dim: int, keep: int) -> Fraction:
    """1 / kappa of the gradient (5, 0, ..., 0) without deviation, C = 4, by enumeration of the masks."""
    masks = list(all_masks(dim, keep))
    masked = [Fraction(5 * mask[0]) for mask in masks]
    return (
        5 * min(Fraction(5), Fraction(3)) / (sum((v * min(v, Fraction(3)) for v in masked), Fraction(0)) / len(masks))
    )


@inverse_kappa.equal((10, 1), (10, 5), (4, 3), (7, 2))
def _(dim: int, keep: int) -> Sides:
    """one entry: 1 / kappa = 1 / (1 - r)"""
    return Fraction(dim, keep), lambda: _inverse(dim, keep), Fraction(1)
