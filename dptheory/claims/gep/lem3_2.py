"""gep.lem3.2: the residual bound."""

import math
from functools import partial

import numpy as np

from dptheory import embedding
from dptheory.claims._row import Claim, Range, Row, Sides, Source, Verdict
from dptheory.claims.gep import _atoms
from dptheory.claims.gep import _subspace_bounds as bounds

_LAWS = [(law, k, m) for law, k in ((bounds.SKEW, 1), (bounds.PLANE, 1), (bounds.FLAT, 1)) for m in (5, 12)]
_BOX = {
    "share": Range(0.05, 0.95),
    "ratio": Range(0.1, 1.0),
    "angle": Range(0.1, math.pi / 2),
    "anchors": Range(1, 30, integer=True),
}


def _trace_off(law: bounds.Law, k: int) -> float:
    return float(np.square(law.matrix[:, k:]).sum() / len(law.atoms))


row = Row(
    Claim(
        id="gep.lem3.2",
        title="residual bound",
        source=Source("gep", "Lemma 3.2", (3,)),
        statement=r"""$\xi\sim P$ with $|\xi|^2<T$, $\Sigma = E\xi\xi^T$ with eigenvalues $\lambda_1\ge\ldots\ge\lambda_p$,
$\hat\Sigma = \frac1m\sum_j\hat\xi_j\hat\xi_j^T$ of $m$ independent anchors, $\hat V_k$ the span of $k$ leading eigenvectors of
$\hat\Sigma$. With probability $1-2e^{-\delta}$

$$E|\xi-\Pi_{\hat V_k}\xi|^2\le\sum_{i>k}\lambda_i+\sqrt{\frac{kC}m}+T\sqrt{\frac{2\delta}m},\qquad C = \underbrace{E|\xi|^4-\sum\lambda_i^2}_ {C_1}+\underbrace{\tfrac1m\sum_j|\hat\xi_j|^4-\sum\hat\lambda_i^2}_{C_2}.$$""",
        verdict=Verdict.LOOSE,
        summary=r"true as printed; the second bracket of $C$ can go, the probability is $1-e^{-\delta}$, and the bound "
        "can be made not to grow with $k$.",
        key_points=(
            (
                "Claimed: a bound on the energy that the subspace of $m$ anchors leaves out, with probability "
                r"$1-2e^{-\delta}$."
            ),
            (
                r"True, and more: the second bracket of $C$ can go, the probability is $1-e^{-\delta}$, and the "
                "middle term need not grow with $k$."
            ),
            "The anchors must be independent of the model; anchors that have shaped it are not.",
            "Use `residual_bound`.",
        ),
        conditions=(
            r'The anchors are independent draws of the law of $\xi$ **given the model**. "The argument holds for all '
            'time steps" needs fresh anchors at each step: once the same auxiliary samples have shaped the model, '
            "through the bases or otherwise, their gradients are no longer independent draws.",
            "$T$ bounds the square of the norm. The letter is also the number of updates elsewhere in the paper.",
            r"$\hat V_k$ is the exact principal subspace. A subspace $V$ with "
            r"$\mathrm{tr}(\Pi_V\hat\Sigma)\ge\mathrm{tr}(\Pi_{\hat V_k}\hat\Sigma)-\tau$ adds $\tau$ to the bound "
            "for $j = k$ (step 2).",
            r"The expectation is over a fresh $\xi$. It bounds the mean residual, not the largest one, "
            r"$\max_i|R_i|$, by which noise is scaled.",
        ),
        correction=r"""With probability at least $1-e^{-\delta}$, for $j\le k$ fixed in advance (take the one for which the right side is smallest),

$$E|\xi-\Pi_{\hat V_k}\xi|^2\le\sum_{i>j}\lambda_i+\sqrt{\frac{j(1-j/p)\thinspace C_1}m}+T\sqrt{\frac{2\delta}m},$$

without the last term for $j = 0$ and $j = p$.""",
        printed=bounds.printed_residual_bound,
        calculators=(embedding.residual_bound, embedding.residual_energy),
        proved=True,
    )
)


@row.equal(lambda: _LAWS, tolerance=1e-9)
def _(law: bounds.Law, k: int, m: int) -> Sides:
    """estimation term: E|S - Sigma|^2 over all samples"""
    return (
        bounds.bound(law, k, m, bounds.ALMOST_SURE_FAILURE).estimation,
        lambda: bounds.enumerated_estimation(law, k, m),
        bounds.printed_mean_estimation(law, k, m),
    )


@row.equal(lambda: _LAWS, tolerance=1e-9)
def _(law: bounds.Law, k: int, m: int) -> Sides:
    """tail: the trace without the leading eigenvalues"""
    return (
        bounds.bound(law, k, m, bounds.ALMOST_SURE_FAILURE).tail,
        float(np.trace(_atoms.second_moments(law.matrix, law.weights)) - np.sum(law.eigenvalues[::-1][:k])),
        float(law.eigenvalues.sum()),
    )


@row.equal((bounds.PLANE, 1, 20, 0.9), (bounds.PLANE, 1, 30, 0.8), tolerance=1e-9)
def _(law: bounds.Law, k: int, m: int, failure: float) -> Sides:
    """deviation term: the largest change by one anchor"""
    return (
        bounds.bound(law, k, m, failure).deviation,
        lambda: bounds.exchanged_deviation(law, k, m, failure),
        lambda: bounds.exchanged_deviation(law, k, m, failure / 2),
    )


@row.equal((bounds.SKEW, 1), (bounds.SKEW, 2), (bounds.FLAT, 1), tolerance=1e-12)
def _(law: bounds.Law, k: int) -> Sides:
    """residual energy is the trace off the subspace"""
    return (
        embedding.residual_energy(law.matrix, basis=np.eye(3)[:k]),
        _trace_off(law, k),
        float(np.square(law.matrix).sum() / 3),
    )


@row.equal(
    lambda: [
        (part, *case, fourth)
        for part in ("tail", "estimation", "deviation", "subspace_dim", "value")
        for case in ((3, 3, 2), (5, 2, 1), (5, 4, 400), (300, 20, 50), (20_000, 5, 50), (20_000, 40, 10**7))
        for fourth in (None, 3.9)
    ],
    tolerance=1e-9,
)
def _(part: str, p: int, k: int, m: int, fourth: float | None) -> Sides:
    """every term and the best j, by a loop over j"""
    return (
        bounds.power_law_bound(part, p, k, m, fourth),
        lambda: bounds.looped_bound(part, p, k, m, fourth),
        lambda: bounds.looped_bound(part, p, max(1, k - 1), m, fourth, every=False),
    )


row.inequality(_BOX, wrong=partial(bounds.mean_slack, kept=0.2), tolerance=1e-9, name="mean residual over all samples")(
    bounds.mean_slack
)


row.inequality(
    {**_BOX, "failure": Range(0.01, 0.9)},
    wrong=partial(bounds.tail_slack, kept=0.1),
    name="probability of a residual above the bound",
)(bounds.tail_slack)
