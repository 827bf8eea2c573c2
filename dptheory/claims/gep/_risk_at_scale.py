"""GEP's noise ratios and risk, field by field: against quadratures and searches."""

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq

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
@dataclass(frozen=True)
class _Setting:
    """Arguments of the risk; the budget is (mu,), or (epsilon, delta) for the noise as published."""

    dim: int
    subspace_dim: int
    samples: int
    smoothness: float
    distance: float
    budget: tuple[float, ...]
    residual_clip: float
    lipschitz: float = 1.0
    steps: int | None = None

    def __str__(self) -> str:
        noise = "mu" if len(self.budget) == 1 else "epsilon"
        sought = "best T" if self.steps is None else f"T = {self.steps}"
        return f"p = {self.dim}, k = {self.subspace_dim}, n = {self.samples}, {noise} = {self.budget[0]:g}, {sought}"

    @property
    def energy(self) -> float:
        """E|noise|^2 of the averaged gradient in each step, over T: the published one, or the least by a search over the split."""
        k, p, lipschitz, clip = self.subspace_dim, self.dim, self.lipschitz, self.residual_clip
        if len(self.budget) == 2:
            ratio = printed_noise_ratio(self.budget[0], self.budget[1])
            return ratio**2 * math.fsum([k * lipschitz**2, p * clip**2]) / self.samples**2
        mu = self.budget[0]
        return least(lambda t: (k + (p - k) * t) * (lipschitz**2 + clip**2 / t) / mu**2) / self.samples**2

    def terms(self, steps: float) -> tuple[float, float]:
        """Optimization and noise after T steps."""
        return self.smoothness * self.distance**2 / (2 * steps), self.energy * steps / (2 * self.smoothness)


_TWO_BUDGETS = ((0.3,), (0.8, 1e-5))
_RISKS = (
    *(
        _Setting(p, k, n, 2.0, 1.5, budget, 0.1, lipschitz, steps)
        for budget in _TWO_BUDGETS
        for p, k, n in ((50, 5, 400), (270_000, 1000, 50_000))
        for lipschitz in (1.0, 3.0)
        for steps in (None, 7, 5000)
    ),
    # other curvatures, starts, budgets; a basis of everything; no residual; a best T below 1
    _Setting(50, 5, 40, 1.0, 2.0, (0.5,), 0.3),
    _Setting(200, 20, 2000, 0.7, 1.5, (0.3,), 1.0),
    _Setting(100, 100, 500, 1.0, 1.0, (2.0,), 0.7),
    _Setting(30, 3, 10, 1.0, 1.0, (0.1,), 0.0),
    _Setting(270_000, 1000, 50_000, 1.0, 1.0, (0.5,), 0.01),
    *(
        _Setting(p, k, n, 1.0, 1.0, budget, clip)
        for p, k, n in ((1000, 10, 3000), (400, 100, 20_000))
        for budget in ((1.0, 1e-5), (0.3, 1e-3))
        for clip in (0.0, 1.0)
    ),
)


def _risk(field: str, s: _Setting) -> float:
    data = (s.dim, s.subspace_dim, s.samples, s.smoothness, s.distance)
    rest = (s.residual_clip, s.lipschitz, s.steps)
    if len(s.budget) == 1:
        found = embedding.excess_risk(*data, s.budget[0], *rest)
    else:
        found = embedding.excess_risk_as_published(*data, s.budget[0], s.budget[1], *rest)
    return float(getattr(found, field))


def _searched_risk(field: str, s: _Setting) -> float:
    """The same by search, given the noise of a step."""
    if field == "optimal_steps":  # where both terms are equal
        return math.exp(brentq(lambda x: math.log(s.terms(math.exp(x))[0] / s.terms(math.exp(x))[1]), -30.0, 60.0))
    steps = _best_whole(s) if s.steps is None else s.steps
    return {"steps": float(steps), "optimization": s.terms(steps)[0], "noise": s.terms(steps)[1]}[field]


def _best_whole(s: _Setting) -> int:
    """The first T after which one more step brings more noise than it takes away."""
    noise = s.terms(1)[1]
    return 1 + bisect_left(
        range(1, 10**9), True, key=lambda t: noise >= s.smoothness * s.distance**2 / 2 / (t * (t + 1))
    )


RISK = (
    ExactCheck(
        name="every term and the best T, whole and real, by search",
        cases=lambda: [
            (field, setting) for field in ("optimization", "noise", "steps", "optimal_steps") for setting in _RISKS
        ],
        truth=_searched_risk,
        statement=_risk,
        wrong=lambda field, setting: 1.001 * _searched_risk(field, setting) + 1e-9,
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
