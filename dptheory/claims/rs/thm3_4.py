"""rs.thm3.4: clipped SGD with random sparsification."""

import dataclasses

from dptheory import convergence
from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rs import _runs
from dptheory.claims.rs._clipped_bounds import (
    closed_range_check,
    equality_check,
    held_mask_check,
    poisson_check,
    terms_check,
)
from dptheory.claims.rs._enumeration import Settings, two_point

row = Row(
    Claim(
        id="rs.thm3.4",
        title="clipped SGD with random sparsification",
        source=Source("rs", "Theorem 3.4", (12,)),
        statement=r"""For clipped SGD whose gradients are masked before they are clipped,
$\hat g_t = \frac1B\sum_i\mathrm{clip}_ C(m_t\odot g_{t,i})$, on a $G$-smooth $L$, and symmetric $\tilde p_t$ with
$\tilde P_t(|\xi|<\frac{3C}4)\ge\sqrt{1-r}$, there is a $\kappa\in(1-r,1)$ with

$$\frac1T\sum_{t=1}^T\tilde P_t(|\xi|<\tfrac{3C}4)h(\nabla w_t)|\nabla w_t|\le\frac1\kappa\Big(\frac{\Delta_L}{\gamma T}+\gamma\frac{GC^2}2-\frac1T\sum_{t=1}^TE_m[b_t']\Big),\qquad h(v) = \min(|v|,\tfrac C4) ,$$

where the left side is that of Theorem 3.3 ([rs.thm3.3](thm3.3.md)) and $b_t'$ is the bias of
$\langle m\odot\nabla w_t,\hat g_t\rangle$ under the true law against $\tilde p_t$.""",
        verdict=Verdict.CONDITIONAL,
        kernel="rs/thm3_4.v",
        kernel_theorems=("printed_is_false", "correction_holds"),
        summary=r"true with a fresh mask at every step, no momentum and the closed range $\kappa\in[1-r,1]$; false for a mask "
        "that is held, as the paper's algorithm holds it through an epoch.",
        key_points=(
            r"Claimed: masking before clipping divides the bound of clipped SGD by a $\kappa\in(1-r,1)$.",
            r"True with a fresh mask at every step, no momentum and the closed range $\kappa\in[1-r,1]$.",
            "False for a mask that is held: the paper's algorithm holds one through an epoch.",
            r"Use `dpsgd_bound`; without a measured $\kappa$ only $\kappa = 1-r$ is safe.",
        ),
        conditions=(
            r"Stated: $L$ is $G$-smooth; $\tilde p_t$ is symmetric; $\tilde P_t(|\xi|<\frac{3C}4)\ge\sqrt{1-r}$.",
            r"Stated in the text: $m_t\ne0$ is uniform and independent of $\xi_t$; deviations have the law $p_t$ and mean "
            "zero; batches have $B$ examples; $L$ is bounded below.",
            "Unstated: all this given $w_t$, so that the mask is a fresh one at every step; the left side is an "
            "expectation over the iterates; no momentum (stated in the proofs alone); $(1-r)d$ is an integer. For the Poisson batches of Algorithm 1, "
            r"divided by $B = qN$, it fails unless $C^2$ is $C^2(1+\frac{1-q}B)$.",
            r"Meaning of $\kappa$: the mean of the $\kappa_t$ of the proof, weighted by the terms of the left side. Read "
            r"as mere existence in a range, the theorem says no more than its weakest case, $\kappa$ at the lower end of "
            "the range.",
            "The paper's Algorithm 1 draws the mask once an epoch. Then $m_t$ depends on $w_t$, and the theorem is not "
            "available: with one mask held for many steps the bound fails.",
        ),
        correction=r"""With a fresh mask the inequality holds in expectation over the iterates, with
$\kappa = \sum_tE[\kappa_tQ_t]/\sum_tE[Q_t]\in[1-r,1]$, where $Q_t$ is the $t$-th term of the left side and $\kappa_t$
the factor that the mask puts in front of it at step $t$. $\kappa = 1-r$ is attained, and may always be put for
$\kappa$ in the bound. With one mask held for all steps the bound fails.""",
        calculators=(convergence.dpsgd_bound,),
        proved=True,
    )
)


row.add(held_mask_check())


row.add(poisson_check())


row.add(closed_range_check(0.75))


row.add(
    terms_check(tuple(Settings(s.start, s.deviations, s.smoothness, s.clip, s.learning_rate) for s in _runs.NOISY[:2]))
)


row.add(equality_check((Settings((0.5, 0.4), two_point(0.1, 0.2), clip=9.0, batch_size=2),)))


def _one_step_maskless_slack(**point: float) -> float:
    return _runs.maskless_slack(dataclasses.replace(_runs.at(**point), steps=1))


@row.inequality(_runs.QUIET_BOX, wrong=_one_step_maskless_slack)
def _one_step_slack(**point: float) -> float:
    """inequality, any two-point deviation"""
    return _runs.theorem_slack(dataclasses.replace(_runs.at(**point), steps=1))
