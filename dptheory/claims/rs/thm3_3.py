"""rs.thm3.3: clipped SGD."""

import dataclasses

from dptheory import convergence
from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.rs import _runs
from dptheory.claims.rs._clipped_bounds import (
    equality_check,
    poisson_check,
    terms_check,
)
from dptheory.claims.rs._enumeration import BOTH

row = Row(
    Claim(
        id="rs.thm3.3",
        title="clipped SGD",
        source=Source("rs", "Theorem 3.3", (8,)),
        statement=r"""Quoted there from Chen et al. (2020). For SGD with clipped gradients on a $G$-smooth $L$ and any law $\tilde p_t$ that
is symmetric, $\tilde p_t(\xi) = \tilde p_t(-\xi)$,

$$\frac1T\sum_{t=1}^TE\big[\tilde P_t(|\xi|<\tfrac{3C}4)h(\nabla w_t)|\nabla w_t|\big]\le\frac{\Delta_L}{\gamma T}+\gamma\frac{GC^2}2-\frac1T\sum_{t=1}^TE[b_t],\qquad h(v) = \min(|v|,\tfrac C4) ,$$

where $b_t = E_{\xi\sim p_t}\langle\nabla w_t,u(\xi)\rangle-E_{\xi\sim\tilde p_t}\langle\nabla w_t,u(\xi)\rangle$,
$u(\xi) = \mathrm{clip}_C(\nabla w_t+\xi)$, $\mathrm{clip}_C(v) = v\min(1,C/|v|)$, and $p_t$ is the law of the
deviation of one example given $w_t$. The paper writes no expectation; with random iterates the inequality is meant,
and true, in expectation.""",
        verdict=Verdict.HOLDS,
        summary="true as printed, read as an expectation over the iterates and for batches of $B$ examples; for Poisson "
        "batches divided by their expected size $C^2$ is too small.",
        conditions=(
            r"Stated: $L$ is $G$-smooth, bounded below; $\tilde p_t$ is symmetric; deviations have the law $p_t$ and mean zero; "
            "batches have $B$ examples.",
            r"Unstated: the left side is an expectation over the iterates; $\tilde p_t$ and $p_t$ may depend on $w_t$, and "
            r"$\tilde p_t$ is symmetric given $w_t$; every example of a batch has deviation law $p_t$ given $w_t$ "
            "(independence is not needed); no momentum (stated in the proofs alone). For Poisson "
            r"batches that are divided by $B = qN$ it fails unless $C^2$ is $C^2(1+\frac{1-q}B)$.",
            "The bound says nothing where $b_t$ is very negative. $b_t$ is no small quantity in general; it is 0 if $p_t$ "
            r"is symmetric and $\tilde p_t = p_t$.",
        ),
        correction=r"""The same proof gives more: for every $z\in(0,1)$ with $\tilde P_t(|\xi|<zC)$ and $\min(|v|,(1-z)C)$, and with
$E|\bar g_t|^2$ in place of $C^2$ ([rs.lem3.1](lem3.1.md)).""",
        calculators=(convergence.dpsgd_bound, convergence.alignment_bound),
        proved=True,
    )
)


row.add(terms_check(_runs.PLAIN))


row.add(poisson_check())


row.add(equality_check(_runs.UNCLIPPED[2:]))


def _plain_unclipped_slack(**point: float) -> float:
    return _runs.unclipped_slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH))


@row.inequality(_runs.QUIET_BOX, wrong=_plain_unclipped_slack)
def _plain_slack(**point: float) -> float:
    """inequality, any two-point deviation"""
    return _runs.theorem_slack(dataclasses.replace(_runs.at(**point), steps=1, masks=BOTH))
