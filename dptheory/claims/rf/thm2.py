"""rf.thm2: the convergence of DP-SGD with random freeze."""

import dataclasses

from dptheory import convergence
from dptheory.claims._row import Claim, Range, Row, Sides, Source, Verdict
from dptheory.claims.rs import _clipped_bounds as clipped
from dptheory.claims.rs import _enumeration as enumeration
from dptheory.claims.rs import _runs
from dptheory.claims.rs._enumeration import Settings, two_point

_Z = 0.25  # P(|xi| < C/4) and min(|w|, 3C/4)


def _maskless_slack(**point: float) -> float:
    return _runs.maskless_slack(dataclasses.replace(_runs.at(**point), steps=1, z=_Z))


def _without_freeze(s: Settings) -> float:
    found = enumeration.run(s)
    return _runs.theorem_bound(s, found, found.gap, None, 0.0).value


row = Row(
    Claim(
        id="rf.thm2",
        title="convergence of random freeze",
        source=Source("rf", "Theorem 2", (4, 5, *range(40, 70))),
        statement=r"""For DP-SGD with masks, $w_{t+1} = w_t-\gamma(\hat g_t+\frac1Bm_t\odot z)$,
$\hat g_t = \frac1B\sum_i\mathrm{clip}_ C(m_t\odot g_{t,i})$, $z\sim N(0,C^2\sigma^2I)$, on a $G$-smooth $L$, and any symmetric
$\tilde p_t$, there is a $\kappa\ge1-r$ with

$$\frac1T\sum_{t=1}^T\tilde P_t(|\xi|<\tfrac C4)h(\nabla w_t)|\nabla w_t|\le\frac1\kappa\Big(\frac{\Delta_L}{\gamma T}+\gamma\Delta_C+(1-r)\gamma\Delta_{DP}-\frac1T\sum_tE_m[b_t]\Big),\qquad h(v) = \min(|v|,\tfrac{3C}4) ,$$

$\Delta_C = \frac{GC^2}2$, $\Delta_{DP} = \frac{C^2\sigma^2dG}{2B^2}$, where $b_t$ is the bias of
$\langle m\odot\nabla w_t,\hat g_t\rangle$ under the true law of the deviations against $\tilde p_t$. The text after it says that
freezing reduces the noise term by $(1-r)/\kappa<1$.""",
        verdict=Verdict.CONDITIONAL,
        kernel="rf/thm2.v",
        kernel_theorems=("printed_is_false", "correction_holds"),
        summary=r"true with a fresh mask at every step and no momentum, and with $(1-r)/\kappa\le1$ in place of $<1$; "
        "false for a mask that is held, as the paper's algorithm holds it through an epoch.",
        key_points=(
            (
                r"Claimed: random freeze divides the bound of DP-SGD by a $\kappa\ge1-r$, and reduces its noise term "
                r"by $(1-r)/\kappa<1$."
            ),
            (
                r"True with a fresh mask at every step and no momentum, and with $(1-r)/\kappa\le1$: equality is "
                "possible, and then nothing is gained."
            ),
            "False for a mask that is held: the paper's algorithm holds one through an epoch.",
            r"Use `dpsgd_bound`; without a measured $\kappa$ only $\kappa = 1-r$ is safe.",
        ),
        conditions=(
            r"Stated: $L$ is $G$-smooth; $\tilde p_t$ is symmetric (given the iterate).",
            r'Stated in the text: $m_t$ is drawn "randomly" and independent of $\xi_t$; deviations have the law $p_t$ and '
            "mean zero; batches have $B$ examples; $L$ is bounded below.",
            "Unstated: all this given $w_t$, so that the mask is a fresh one; the left side is an expectation over the "
            "iterates; the noise is independent of iterate, batch and mask; no momentum (stated in the proofs alone); $(1-r)d$ is an integer, at "
            r"least 1. For Poisson batches divided by $B = qN$ put $C^2(1+\frac{1-q}B)$ for $C^2$.",
            r"Meaning of $\kappa$: the mean of the $\kappa_t$ of the proof, weighted by the terms of the left side. "
            r"Read as mere existence in a range, the theorem says no more than its weakest case, $\kappa = 1-r$.",
            "The paper's algorithm draws the mask once an epoch and uses momentum. Then the theorem is not "
            "available: with one mask held for many steps the bound fails.",
        ),
        correction=r"""With a fresh mask the inequality holds in expectation over the iterates, with $\kappa = \sum_tE[\kappa_tQ_t]/\sum_tE[Q_t]\ge1-r$,
$Q_t$ the terms of the left side and $\kappa_t$ as in the proof. The value $1-r$ may always be put for $\kappa$, and
$(1-r)/\kappa\le1$, with equality possible, for example where $|\nabla w_t|\le\frac{3C}4$ and there is no deviation. $\kappa$ can
exceed 1, unless $\tilde P_t\ge\sqrt{1-r}$ for all $t$. With one mask held for all steps it fails.""",
        calculators=(convergence.dpsgd_bound, convergence.noise_term),
        proved=True,
    )
)
row.add(clipped.held_mask_check())
row.add(clipped.poisson_check())
row.add(clipped.closed_range_check(_Z))
row.add(clipped.terms_check(_runs.NOISY[:3]))
row.add(clipped.largest_moment_check())
row.add(
    clipped.equality_check(
        (
            Settings((0.2, -0.1), two_point(0.3, 0.2), clip=9.0, steps=3, noise_std=0.05, z=_Z),
            Settings((2.0, 1.4), two_point(0.1, 0.2), clip=9.0, batch_size=2, noise_std=0.1, z=_Z),
        )
    )
)


@row.equal(lambda: [(s,) for s in _runs.PLAIN], tolerance=1e-12)
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


@row.inequality({**_runs.QUIET_BOX, "noise_std": Range(0, 0.3)}, wrong=_maskless_slack)
def _slack(**point: float) -> float:
    """inequality, any two-point deviation"""
    return _runs.theorem_slack(dataclasses.replace(_runs.at(**point), steps=1, z=_Z))
