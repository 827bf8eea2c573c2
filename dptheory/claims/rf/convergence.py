"""rf.convergence: convergence with random freeze."""

import itertools
from collections.abc import Iterator
from fractions import Fraction

from dptheory import gradients
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict

row = Row(
    Claim(
        id="rf.convergence",
        title="convergence with random freeze",
        source=Source("rf", "section 2.1, text after equation 5"),
        statement=r"""For DP-SGD without freeze the right side of Theorem 2 "diminishes to zero" at a certain learning rate (Chen et al.). With random
freeze $-E_m[b_t]$ "also tends to be small as $p'_t$ is expected to be approximately symmetric if $p_t$ is", and $1/\kappa$ is not large;
"so with the same learning rate" its right side "will also tend to zero, which proves the convergence of DP-SGD with random freeze".""",
        verdict=Verdict.FALSE,
        summary=r"small is not zero: with deviations within $\eta$ of a symmetric law DP-SGD can converge, and with fresh masks of rate "
        r"$\frac12$ stop at a gradient of norm $\frac{3\eta}{8-3\eta}$.",
        key_points=(
            "Claimed: as the bias term is small under a mask, the right side of Theorem 2 tends to 0, and DP-SGD with random freeze "
            "converges.",
            r"The right side does for deviations that are symmetric given the iterate. Within $\eta$ of a symmetric law DP-SGD can converge, and "
            r"with fresh masks stop at a gradient of norm $\frac{3\eta}{8-3\eta}$.",
            "Remember: a mask can clip deviations unevenly that were clipped by one factor without it.",
            "Use `clip` on the examples' gradients where training has stopped: the mean update is 0 there, the gradient need not be.",
        ),
        conditions=(
            r"The example has a fresh mask in each step; with one mask per epoch see [rf.thm2](thm2.md).",
            r"Convergence is read as $\frac1T\sum_tE\lVert\nabla w_t\rVert\to0$ at $\gamma = \gamma_0/\sqrt T$, no momentum.",
            "Noise of variance at most $s^2$ in each step, fresh and of mean zero, may be added: it does not change the limits.",
        ),
        correction=r"""With $\nabla w = w$, $C = 4$, $r = \frac12$ (one of two entries kept), $\gamma = \gamma_0/\sqrt T$ and, for any $0<\eta\le1$, $\xi = 0$ with
chance $1-\eta$ and otherwise $(5,0)$ with chance $\frac38$, $(-3,\pm4)$ with $\frac5{16}$ each, which is within $\eta$ of a symmetric law
in total variation:

1. without a mask $\frac1T\sum_tE\lVert\nabla w_t\rVert\to0$;
2. with a fresh mask in each step $\frac1T\sum_tE\lVert\nabla w_t-w^\ast\rVert\to0$ with $w^\ast = (\frac{3\eta}{8-3\eta},0)$; there
   $-\frac1\kappa E_m[b_t]$, the bias term of Theorem 2, is at least all that the theorem bounds, for every symmetric $\tilde p_t$ with
   $\tilde P_t(\lVert\xi\rVert<\frac C4)>0$ (else it bounds nothing);
3. if deviations are symmetric given the iterate, $\tilde p_t = p_t$, the right side of Theorem 2 does tend to 0 with fresh masks. That
   bounds the gradient where $P(\lVert\xi_t\rVert<\frac C4)$ is bounded away from 0.""",
        calculators=(gradients.clip,),
        proved=True,
    )
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


@row.equal(_cases, kind=Kind.COUNTEREXAMPLE)
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


@row.equal((True, 4.0, 1.0), (False, 4.0, 1.0), (True, 3.0, 0.5), (False, 4.0, 0.125), tolerance=1e-6)
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


@row.equal(lambda: itertools.product(("none", "small", "mirrored"), (Fraction(1, n) for n in (2, 10, 100))))
def _(name: str, share: Fraction) -> Sides:
    """at the stopping point the bias over kappa is at least all that is bounded"""
    bias, kappa, bounded = _bias_and_bounded(name, share)
    # wrong: the bias itself
    return True, lambda: bias / kappa >= bounded, bias >= bounded
