"""GEP's noise ratios and risk, field by field: against quadratures and searches."""

import math
from typing import Any

from dptheory import embedding
from dptheory.checks import ExactCheck
from dptheory.claims.gep._energies_at_scale import least
from dptheory.claims.gep._mechanism import mu_of_sum
from dptheory.claims.gep._neighbours import best_order_ratio, least_noise_ratio
from dptheory.claims.gep._noise_ratios import printed_noise_ratio

_TINY = 1e-10

# --- noise ratios -----------------------------------------------------------------------------------------------------
EXCESS = (
    ExactCheck(
        name="noise of each method over that of each other, from quadratures and the search over orders",
        cases=lambda: [
            (method, reference, epsilon)
            for method in ("exact", "renyi", "stated")
            for reference in ("exact", "renyi")
            for epsilon in (0.3, 8.0)
        ],
        truth=lambda method, reference, epsilon: _ratio(method, epsilon) / _ratio(reference, epsilon),
        statement=lambda method, reference, epsilon: _excess(epsilon, method, reference),
        wrong=lambda method, reference, epsilon: 1.001 * _ratio(method, epsilon) / _ratio(reference, epsilon),
        tolerance=1e-7,
    ),
    ExactCheck(
        name="mu of the sums of many steps, either adjacency, by their covariance",
        cases=lambda: [(steps, change) for steps in (1, 1000) for change in (1, 2)],
        truth=lambda steps, change: change * math.sqrt(steps) * mu_of_sum(1.0, 0.7, 9.0, 3.0),
        statement=lambda steps, change: embedding.output_mu(
            1.0, 0.7, 9.0, 3.0, steps, "add-remove" if change == 1 else "replace-one"
        ),
        wrong=lambda steps, change: change * math.sqrt(steps) * math.hypot(1 / 9, 0.7 / 3),  # of the pair
        tolerance=1e-12,
    ),
)


def _ratio(method: str, epsilon: float) -> float:
    return {"exact": least_noise_ratio, "renyi": best_order_ratio, "stated": printed_noise_ratio}[method](epsilon, 1e-5)


def _excess(epsilon: float, method: Any, reference: Any) -> float:
    return embedding.noise_ratio_excess(epsilon, 1e-5, method, reference)


# --- risk -------------------------------------------------------------------------------------------------------------
_RISKS = tuple(
    (published, dim, k, samples, lipschitz, steps)
    for published in (False, True)
    for dim, k, samples in ((50, 5, 400), (270_000, 1000, 50_000))
    for lipschitz in (1.0, 3.0)
    for steps in (None, 7, 5000)
)


def _risk(field: str, published: bool, dim: int, k: int, samples: int, lipschitz: float, steps: int | None) -> float:
    found = (
        embedding.excess_risk_as_published(dim, k, samples, 2.0, 1.5, 0.8, 1e-5, 0.1, lipschitz, steps)
        if published
        else embedding.excess_risk(dim, k, samples, 2.0, 1.5, 0.3, 0.1, lipschitz, steps)
    )
    return float(getattr(found, field))


def looped_risk(
    field: str, published: bool, dim: int, k: int, samples: int, lipschitz: float, steps: int | None
) -> float:
    """The same from the noise of a step: the published one, or the least by a search over its split."""
    if published:
        ratio = printed_noise_ratio(0.8, 1e-5)
        energy = ratio**2 * math.fsum([k * lipschitz**2, dim * 0.1**2])
    else:
        energy = least(lambda t: (k + (dim - k) * t) * (lipschitz**2 + 0.1**2 / t) / 0.3**2)
    energy /= samples**2
    best = math.sqrt(2.0**2 * 1.5**2 / energy)  # beta D^2 / 2T = energy T / 2 beta
    if steps is None:
        near = [max(1, math.floor(best)), math.floor(best) + 1]
        steps = min(near, key=lambda t: 2.0 * 1.5**2 / (2 * t) + energy * t / 4.0)
    found = {
        "optimization": 2.0 * 1.5**2 / (2 * steps),
        "noise": energy * steps / (2 * 2.0),
        "steps": float(steps),
        "optimal_steps": best,
    }
    return found[field]


RISK = (
    ExactCheck(
        name="every term and the best T, from the noise of a step",
        cases=lambda: [
            (field, *case) for field in ("optimization", "noise", "steps", "optimal_steps") for case in _RISKS
        ],
        truth=looped_risk,
        statement=_risk,
        wrong=lambda field, *case: 1.001 * looped_risk(field, *case) + 1e-9,
        tolerance=1e-8,
    ),
)

STEPS = (
    ExactCheck(
        name="T is the T that was given, and no best one was sought",
        cases=lambda: [(field, steps) for field in ("steps", "optimal_steps") for steps in (1, 17, 10**6)],
        truth=lambda field, steps: steps if field == "steps" else 0.0,
        statement=lambda field, steps: (
            embedding.noisy_descent_risk(1.0, 1.0, steps, 1.0).steps
            if field == "steps"
            else 1 / embedding.noisy_descent_risk(1.0, 1.0, steps, 1.0).optimal_steps
        ),
        wrong=lambda field, steps: steps + 1,
    ),
)
