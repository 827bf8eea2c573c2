import math
from functools import partial

import numpy as np

from dptheory import embedding
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _subspace_bounds
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


row = new_row(
    id="gep.lem3.2",
    source=Source("gep", "Lemma 3.2", (3,)),
    verdict=Verdict.LOOSE,
    printed=bounds.printed_residual_bound,
    calculators=(embedding.residual_bound, embedding.residual_energy),
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
        float(np.trace(_subspace_bounds.second_moments(law.matrix, law.weights)) - np.sum(law.eigenvalues[::-1][:k])),
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
        for part in ("tail", "estimation", "deviation", "subspace_dim", "first_dim", "last_dim", "value")
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
