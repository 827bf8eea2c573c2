"""rf.convergence: convergence with random freeze."""

from fractions import Fraction

from dptheory import gradients
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict

row = Row(
    Claim(
        id="rf.convergence",
        title="convergence with random freeze",
        source=Source("rf", "section 2.1, text after equation 5"),
        statement=r"""For DP-SGD without freeze the right side of Theorem 2 "diminishes to zero" at a certain learning rate (Chen et al.). With random
freeze "$-E_m[b_t]$ also tends to be small as $p'_t$ is expected to be approximately symmetric if $p_t$ is", and $1/\kappa$ is not large;
"so with the same learning rate" its right side "will also tend to zero, which proves the convergence of DP-SGD with random freeze".""",
        verdict=Verdict.FALSE,
        summary=r"small is not zero: DP-SGD whose gradient tends to 0 stops with fresh masks of rate $\frac12$ at a gradient of norm "
        r"$\frac35$; for symmetric deviations the conclusion holds.",
        conditions=(
            r"The example has a fresh mask in each step; with one mask per epoch see [rf.thm2](thm2.md).",
            r"Convergence is read as $\frac1T\sum_tE\lVert\nabla w_t\rVert\to0$ at $\gamma = \gamma_0/\sqrt T$, no momentum.",
            "Noise of variance at most $s^2$ in each step, fresh and of mean zero, may be added: it does not change the limits.",
        ),
        correction=r"""If deviations are symmetric given the iterate ($b_t = 0$ with $\tilde p_t = p_t$), masked ones are too, $E_m[b_t] = 0$, and with fresh
masks the left side of Theorem 2 tends to 0. Otherwise it is at most about $\frac1\kappa$ times the mean of $-E_m[b_t]$, which need
not tend to 0 where that of $-b_t$ does. With $\nabla w = w$, $C = 4$, $r = \frac12$ (one of two entries kept), $\gamma = \gamma_0/\sqrt T$ and
$\xi = (5,0)$ with chance $\frac38$, $(-3,\pm4)$ with $\frac5{16}$ each:

- without a mask $\frac1T\sum_tE\lVert\nabla w_t\rVert\to0$;
- with a fresh mask in each step $\frac1T\sum_tE\lVert\nabla w_t-(\frac35,0)\rVert\to0$.""",
        calculators=(gradients.clip,),
        proved=True,
    )
)

# xi and its chance: every deviation has norm 5, so that clipping scales all by one factor
_LAW = (((5, 0), Fraction(3, 8)), ((-3, 4), Fraction(5, 16)), ((-3, -4), Fraction(5, 16)))


def _masked_update(w: tuple[Fraction, Fraction], clip: Fraction) -> tuple[Fraction, Fraction]:
    """E_m E m * clip(m * (w + xi)), one of two entries kept: each entry is clipped by itself, with chance 1/2."""

    def entry(j: int) -> Fraction:
        return sum((p * max(-clip, min(clip, w[j] + xi[j])) for xi, p in _LAW), Fraction(0)) / 2

    return entry(0), entry(1)


def _dense_update_at_zero(clip: Fraction) -> tuple[Fraction, Fraction]:
    """E clip(xi) for clip <= 5: the norms of all xi are 5."""
    first, second = (sum((p * xi[j] * clip / 5 for xi, p in _LAW), Fraction(0)) for j in (0, 1))
    return first, second


def _largest_update(masked: bool, clip: Fraction) -> Fraction:
    update = _masked_update((3 - 3 * clip / 5, Fraction(0)), clip) if masked else _dense_update_at_zero(clip)
    return max(map(abs, update))


@row.equal(
    lambda: [(masked, Fraction(c, 2)) for masked in (True, False) for c in range(1, 10)], kind=Kind.COUNTEREXAMPLE
)
def _(masked: bool, clip: Fraction) -> Sides:
    """largest entry of the mean update, in fractions: at 0 without a mask, at 3 - 3 C / 5 with one"""
    # wrong: that of the masked update at 0
    return Fraction(0), lambda: _largest_update(masked, clip), _masked_update((Fraction(0), Fraction(0)), clip)[0]


def _limit(masked: bool, clip: float, steps: int = 3000, rate: float = 0.05) -> float:
    """Norm of the gradient w where the mean updates lead to, from (2, 1)."""
    w = [2.0, 1.0]
    for _ in range(steps):
        if masked:
            update = [sum(float(p) * max(-clip, min(clip, w[j] + xi[j])) for xi, p in _LAW) / 2 for j in (0, 1)]
        else:
            clipped = [(p, gradients.clip([w[0] + xi[0], w[1] + xi[1]], clip_norm=clip)) for xi, p in _LAW]
            update = [sum(float(p) * float(g[j]) for p, g in clipped) for j in (0, 1)]
        w = [value - rate * step for value, step in zip(w, update, strict=True)]
    return float((w[0] ** 2 + w[1] ** 2) ** 0.5)


@row.equal((True, 4.0), (False, 4.0), (True, 2.0), (False, 2.0), tolerance=1e-6)
def _(masked: bool, clip: float) -> Sides:
    """1 + the norm of the gradient where the mean updates lead to"""
    norm = 3 - 3 * clip / 5 if masked else 0.0
    return 1 + norm, lambda: 1 + _limit(masked, clip), 2.0
