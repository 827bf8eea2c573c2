"""Both terms of the risk and its best number of steps, at small sizes and at users': by the calculators and by search."""

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq

from dptheory import embedding
from dptheory.claims.gep._energies import least
from dptheory.claims.gep._noise_ratios import printed_noise_ratio


@dataclass(frozen=True)
class Setting:
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
RISKS = (
    *(
        Setting(p, k, n, 2.0, 1.5, budget, 0.1, lipschitz, steps)
        for budget in _TWO_BUDGETS
        for p, k, n in ((50, 5, 400), (270_000, 1000, 50_000))
        for lipschitz in (1.0, 3.0)
        for steps in (None, 7, 5000)
    ),
    # other curvatures, starts, budgets; a basis of everything; no residual; a best T below 1
    Setting(50, 5, 40, 1.0, 2.0, (0.5,), 0.3),
    Setting(200, 20, 2000, 0.7, 1.5, (0.3,), 1.0),
    Setting(100, 100, 500, 1.0, 1.0, (2.0,), 0.7),
    Setting(30, 3, 10, 1.0, 1.0, (0.1,), 0.0),
    Setting(270_000, 1000, 50_000, 1.0, 1.0, (0.5,), 0.01),
    *(
        Setting(p, k, n, 1.0, 1.0, budget, clip)
        for p, k, n in ((1000, 10, 3000), (400, 100, 20_000))
        for budget in ((1.0, 1e-5), (0.3, 1e-3))
        for clip in (0.0, 1.0)
    ),
)


def calculated_risk(field: str, s: Setting) -> float:
    known: dict[str, Any] = {
        "dim": s.dim,
        "subspace_dim": s.subspace_dim,
        "train_size": s.samples,
        "smoothness": s.smoothness,
        "initial_distance": s.distance,
        "residual_clip": s.residual_clip,
        "lipschitz": s.lipschitz,
        "steps": s.steps,
    }
    if len(s.budget) == 1:
        found = embedding.excess_risk(mu=s.budget[0], **known)
    else:
        found = embedding.excess_risk_as_published(epsilon=s.budget[0], delta=s.budget[1], **known)
    return float(getattr(found, field))


def searched_risk(field: str, s: Setting) -> float:
    """The same by search, given the noise of a step."""
    if field == "optimal_steps":  # where both terms are equal
        return math.exp(brentq(lambda x: math.log(s.terms(math.exp(x))[0] / s.terms(math.exp(x))[1]), -30.0, 60.0))
    steps = _best_whole(s) if s.steps is None else s.steps
    return {"steps": float(steps), "optimization": s.terms(steps)[0], "noise": s.terms(steps)[1]}[field]


def _best_whole(s: Setting) -> int:
    """The first T after which one more step brings more noise than it takes away."""
    noise = s.terms(1)[1]
    return 1 + bisect_left(
        range(1, 10**9), True, key=lambda t: noise >= s.smoothness * s.distance**2 / 2 / (t * (t + 1))
    )
