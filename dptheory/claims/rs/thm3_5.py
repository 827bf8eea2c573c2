"""rs.thm3.5: DP-SGD with random sparsification."""

from dptheory import convergence
from dptheory.claims._row import Claim, Range, Row, Source, Verdict
from dptheory.claims.rs import _runs
from dptheory.claims.rs._clipped_bounds import (
    closed_range_check,
    equality_check,
    held_mask_check,
    largest_moment_check,
    poisson_check,
    terms_check,
)

row = Row(
    Claim(
        id="rs.thm3.5",
        title="DP-SGD with random sparsification",
        source=Source("rs", "Theorem 3.5", (14, 15, 85, 86, 87, 88, 89)),
        statement=r"""For DP-SGD with masks, $w_{t+1} = w_t-\gamma(\hat g_t+\frac1Bm_t\odot\xi_\sigma)$,
$\hat g_t = \frac1B\sum_i\mathrm{clip}_ C(m_t\odot g_{t,i})$, $\xi_\sigma\sim N(0,C^2\sigma^2I)$, on a $G$-smooth $L$,
and symmetric $\tilde p_t$ with $\tilde P_t(|\xi|<\frac{3C}4)\ge\sqrt{1-r}$, there is a $\kappa\in(1-r,1)$ with

$$\frac1T\sum_{t=1}^T\tilde P_t(|\xi|<\tfrac{3C}4)h(\nabla w_t)|\nabla w_t|\le\frac1\kappa\Big(\frac{\Delta_L}{\gamma T}+\gamma\frac{GC^2}2-\frac1T\sum_{t=1}^TE_m[b_t']\Big)+\frac{1-r}\kappa\gamma\Delta_\sigma ,$$

the left side that of Theorem 3.3 ([rs.thm3.3](thm3.3.md)), $h(v) = \min(|v|,\frac C4)$,
$\Delta_\sigma = \frac{C^2\sigma^2dG}{2B^2}$, where $b_t'$ is the bias of $\langle m\odot\nabla w_t,\hat g_t\rangle$
under the true law against $\tilde p_t$.""",
        verdict=Verdict.CONDITIONAL,
        kernel="rs/thm3_5.v",
        kernel_theorems=("printed_is_false", "correction_holds"),
        summary=r"true with a fresh mask at every step, no momentum and the closed range $\kappa\in[1-r,1]$; false for a mask "
        "that is held, as the paper's algorithm holds it through an epoch.",
        key_points=(
            (
                r"Claimed: masking divides the bound of DP-SGD by a $\kappa\in(1-r,1)$ and multiplies its noise term "
                "by $1-r$."
            ),
            (
                r"True with a fresh mask at every step, no momentum and the closed range $\kappa\in[1-r,1]$. False "
                "for a mask that is held: the paper's algorithm holds one through an epoch."
            ),
            (
                r"Remember: at $\kappa = 1-r$, which is attained, the noise term is that of DP-SGD and the other "
                r"terms are larger. A gain needs a known $\kappa$ above $1-r$."
            ),
            "Use `dpsgd_bound`, with the second moment of the averaged gradient for $C^2$ where it is known.",
        ),
        conditions=(
            r"Stated: $L$ is $G$-smooth; $\tilde p_t$ is symmetric; $\tilde P_t(|\xi|<\frac{3C}4)\ge\sqrt{1-r}$.",
            r"Stated in the text: $m_t\ne0$ is uniform and independent of $\xi_t$; deviations have the law $p_t$ and mean "
            "zero; batches have $B$ examples; $L$ is bounded below.",
            "Unstated: all this given $w_t$, so that the mask is a fresh one at every step; the left side is an "
            "expectation over the iterates; no momentum (stated in the proofs alone); $(1-r)d$ is an integer. For the Poisson batches of Algorithm 1, "
            r"divided by $B = qN$, it fails unless $C^2$ is $C^2(1+\frac{1-q}B)$. The noise is fresh: independent of iterate, batch and mask.",
            r"Meaning of $\kappa$: the mean of the $\kappa_t$ of the proof, weighted by the terms of the left side. Read "
            r"as mere existence in a range, the theorem says no more than its weakest case, $\kappa$ at the lower end of "
            "the range.",
            "The paper's Algorithm 1 draws the mask once an epoch. Then $m_t$ depends on $w_t$, and the theorem is not "
            "available: with one mask held for many steps the bound fails.",
        ),
        correction=r"""With a fresh mask the inequality holds in expectation over the iterates, with
$\kappa = \sum_tE[\kappa_tQ_t]/\sum_tE[Q_t]\in[1-r,1]$, where $Q_t$ is the $t$-th term of the left side and $\kappa_t$
the factor that the mask puts in front of it at step $t$. $\kappa = 1-r$ is attained, and may always be put for
$\kappa$ in the bound; the second moment $M\le C^2$ of Lemma 3.4 ([rs.lem3.4](lem3.4.md)), averaged over the steps,
may be put for $C^2$. With one mask held for all steps the bound fails.""",
        calculators=(convergence.dpsgd_bound, convergence.noise_term),
        proved=True,
    )
)


row.add(held_mask_check())


row.add(poisson_check())


row.add(closed_range_check(0.75))


row.add(terms_check(_runs.NOISY[:3]))


row.add(largest_moment_check())


row.add(equality_check(_runs.UNCLIPPED[:2]))


def _maskless_slack(**point: float) -> float:
    return _runs.maskless_slack(_runs.at(**point))


@row.inequality({**_runs.QUIET_BOX, "noise_std": Range(0, 0.3)}, wrong=_maskless_slack)
def _masked_slack(**point: float) -> float:
    """inequality, any two-point deviation"""
    return _runs.theorem_slack(_runs.at(**point))
