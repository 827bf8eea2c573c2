import itertools
import math
from fractions import Fraction

import numpy as np

from dptheory import sparsification
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs._kappa import calculated, exact_kappa_of
from dptheory.claims.rs.tuned import least_over_rates


def _raised_ratio(x: float, kappa: float, noise: float) -> float:
    """Tuned bound with the mask, T / x steps and noise D / x, over that without; A = 1."""
    raised = sparsification.tuned_bound(
        drop_rate=1 - x, kappa=kappa, objective_gap=1.0, steps=100.0 / x, curvature_term=1.0, noise_term=noise / x
    ).bound
    return (
        raised
        / sparsification.tuned_bound(
            drop_rate=0.0, kappa=1.0, objective_gap=1.0, steps=100.0, curvature_term=1.0, noise_term=noise
        ).bound
    )


def _pays_by_search(x: float, kappa: float, noise: float) -> bool:
    """The two bounds, each minimised over the learning rate by a search; x D / x = D."""
    raised = least_over_rates(1.0 + noise, 1.0, 100.0 / x) / kappa
    return raised < least_over_rates(1.0 + noise, 1.0, 100.0) * (1 - 1e-9)


row = new_row(
    id="rf.raise_noise",
    source=Source("rf", "section 2.2, after Fig. 1"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    calculators=(sparsification.tuned_bound,),
)


@row.equal(
    lambda: [(x, f * math.sqrt(x), n) for x in (0.1, 0.5) for f in (0.5, 0.99, 1.01, 1.4) for n in (0.0, 3.0, 1e4)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(x: float, kappa: float, n: float) -> Sides:
    """better or not, by search over the learning rate"""
    return _raised_ratio(x, kappa, n) < 1 and kappa > math.sqrt(x), lambda: _pays_by_search(x, kappa, n), True


@row.equal(
    lambda: itertools.product(
        (
            "one entry, no deviation",
            "equal entries, no deviation",
            "equal entries, P = 1/2",
            "equal entries, P = 1/4",
        ),
        (0, 10),
    ),
    tolerance=1e-12,
)
def _(name: str, n: int) -> Sides:
    """ratio of the bounds where kappa is x, 1/2, 1, 2"""
    return _raised_ratio(0.25, calculated(name).value, n), lambda: Fraction(1, 2) / exact_kappa_of(name), Fraction(1, 2)


@row.inequality(
    {
        "second": Range(0, 1),
        "third": Range(0, 1),
        "keep": Range(1, 4, integer=True),
        "scale": Range(0.01, 100, log=True),
        "noise": Range(1e-3, 1e9, log=True),
    },
    # wrong: the same if the mask cost no descent (kappa = 1)
    wrong=lambda second, third, keep, scale, noise: _raised_ratio(keep / 4, 1.0, noise) - 1,
)
def _same_probability_slack(second: float, third: float, keep: int, scale: float, noise: float) -> float:
    """never better where P' = P

    No deviation, so P' = P: raising the noise never pays.
    """
    w = np.array([1.0, second, third, second])
    found = sparsification.kappa(0.25 * scale * w / np.linalg.norm(w), clip_norm=1.0, drop_rate=1 - keep / 4)
    return _raised_ratio(keep / 4, found.value, noise) - 1


def _fewer_steps_slack(rate: float, noise_multiplier: float) -> float:
    """Wrong statement: it grows by 1 / x^2."""
    return (_more_steps_slack(rate, noise_multiplier) + 1) * (1 - rate) - 1


@row.inequality(
    {"rate": Range(0, 0.999), "noise_multiplier": Range(0.3, 100, log=True)},
    wrong=_fewer_steps_slack,
)
def _more_steps_slack(rate: float, noise_multiplier: float) -> float:
    """by the limit theorem subsampling buys at least 1 / (1 - r) times the steps

    By the central limit theorem of subsampled composition T grows by (e^a - 1) / (e^(x a) - 1) >= 1 / x, a = 1 /
    sigma^2.
    """
    a = noise_multiplier**-2
    return math.expm1(a) / math.expm1((1 - rate) * a) * (1 - rate) - 1
