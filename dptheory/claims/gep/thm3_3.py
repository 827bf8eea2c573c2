import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import scipy

from dptheory import embedding
from dptheory.claims._row import Kind, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _noisy_steps as noisy
from dptheory.claims.gep._mechanism import least, printed_noise_ratio
from dptheory.claims.gep._noisy_steps import brute_force_risk, excess_at_printed_steps, published_risk

# Both terms of the risk and its best number of steps, at small sizes and at users': by the calculators and by search.


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
        return math.exp(
            scipy.optimize.brentq(lambda x: math.log(s.terms(math.exp(x))[0] / s.terms(math.exp(x))[1]), -30.0, 60.0)
        )
    steps = _best_whole(s) if s.steps is None else s.steps
    return {"steps": float(steps), "optimization": s.terms(steps)[0], "noise": s.terms(steps)[1]}[field]


def _best_whole(s: Setting) -> int:
    """The first T after which one more step brings more noise than it takes away."""
    noise = s.terms(1)[1]
    return 1 + bisect_left(
        range(1, 10**9), True, key=lambda t: noise >= s.smoothness * s.distance**2 / 2 / (t * (t + 1))
    )


def printed_rate(
    dim: int, subspace_dim: int, samples: int, epsilon: float, delta: float, mean_square_residual: float
) -> float:
    """What stands inside the O() of Theorem 3.3, mean_square_residual = rbar."""
    log = math.log(1 / delta)
    first, second = math.sqrt(subspace_dim * log), mean_square_residual * math.sqrt(dim * log)
    return (first + second) / (samples * epsilon)


def _exceeds(factor: int, steps: int) -> bool:
    """Whether the excess exceeds ``factor`` times the printed rate k / (n eps) for p large enough: here p = (7 factor)^2."""
    root_dim = 7 * factor
    return excess_at_printed_steps(root_dim, steps) > Fraction(factor, steps * root_dim)


_FACTORS = [(factor, steps) for factor in (1, 100, 10**6) for steps in (1, 4, 50)]
_SMALL_SETTINGS = [
    (50, 5, 40, 1.0, 2.0, 0.5, 0.3),
    (1000, 10, 300, 2.0, 1.0, 1.0, 0.2),
    (200, 20, 2000, 0.7, 1.5, 0.3, 1.0),
    (100, 100, 500, 1.0, 1.0, 2.0, 0.7),
    (30, 3, 10, 1.0, 1.0, 0.1, 0.0),
]
"""dim, subspace_dim, samples, smoothness, distance, mu, residual_clip."""


_PUBLISHED_SETTINGS = [
    (p, k, n, 1.0, 1.0, eps, delta, clip)
    for p, k, n in ((1000, 10, 3000), (400, 100, 20_000))
    for eps, delta in ((1.0, 1e-5), (0.3, 1e-3))
    for clip in (0.0, 0.1, 1.0)
]


def _rounding_cost(optimal: Fraction) -> Fraction:
    """(best integer risk) / (best real risk): the risk is proportional to T*/T + T/T*."""
    return min((optimal / steps + steps / optimal) / 2 for steps in range(1, 60))


def _rounded(optimal: Fraction) -> float:
    """The same of the calculator: dim = subspace_dim = samples = 1 and mu = 1 give an optimal T of beta D."""
    found = embedding.excess_risk(
        dim=1, subspace_dim=1, train_size=1, smoothness=1.0, initial_distance=float(optimal), mu=1.0, residual_clip=0.0
    )
    return found.value / float(optimal)


def _least_capped_risk(beta: float, distance: float, steps: int, lipschitz: float) -> float:
    """Largest excess of the rounded |x| over the slopes up to G, by search."""
    found = scipy.optimize.minimize_scalar(
        lambda slope: -float(noisy.mean_excess(beta, distance, slope, steps, 0)),
        bounds=(0.0, lipschitz),
        method="bounded",
        options={"xatol": 1e-12 * lipschitz},
    )
    at_end = float(noisy.mean_excess(beta, distance, lipschitz, steps, 0))
    return max(-float(found.fun), at_end)


row = new_row(
    id="gep.thm3.3",
    source=Source("gep", "Theorem 3.3"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false",),
    printed=printed_rate,
    calculators=(embedding.excess_risk, embedding.excess_risk_as_published, embedding.least_risk),
)


@row.equal(
    lambda: [(field, setting) for field in ("optimization", "noise", "steps", "optimal_steps") for setting in RISKS],
    tolerance=1e-8,
)
def _(field: str, setting: Setting) -> Sides:
    """every term and the best T, whole and real, by search"""
    return (
        calculated_risk(field, setting),
        lambda: searched_risk(field, setting),
        lambda: 1.001 * searched_risk(field, setting) + 1e-9,
    )


@row.equal(lambda: _FACTORS, kind=Kind.COUNTEREXAMPLE)
def _(factor: int, steps: int) -> Sides:
    """at the printed T the risk exceeds every multiple of the printed rate"""
    return False, not _exceeds(factor, steps), True


@row.equal(lambda: [(beta, d, t) for beta in (1, Fraction(3, 2)) for d in (1, 4) for t in (1, 2, 5)], tolerance=1e-12)
def _(beta: Fraction | int, d: int, t: int) -> Sides:
    """least risk, enumerated without noise"""
    return (
        embedding.least_risk(smoothness=float(beta), initial_distance=float(d), steps=t),
        noisy.mean_excess(beta, Fraction(d), Fraction(beta) * d / (t + 2), t, 0),
        float(beta) * d**2 / (2 * t),
    )


@row.equal(
    lambda: [
        (beta, d, t, share * beta * d / (t + 2))
        for beta, d in ((1.0, 1.0), (2.5, 3.0))
        for t in (1, 4, 9)
        for share in (0.01, 0.5, 0.99, 1.5)
    ],
    tolerance=1e-9,
)
def _(beta: float, d: float, t: int, g: float) -> Sides:
    """least risk where every loss is G-Lipschitz, by search over the slopes"""
    return (
        embedding.least_risk(smoothness=beta, initial_distance=d, steps=t, lipschitz=g),
        lambda: _least_capped_risk(beta, d, t, g),
        embedding.least_risk(smoothness=beta, initial_distance=d, steps=t),
    )


@row.equal(lambda: [(t, noise) for t in (1, 3, 6) for noise in (Fraction(1, 7), Fraction(3, 2))])
def _(t: int, noise: Fraction) -> Sides:
    """least risk holds with noise, every sign"""
    return True, noisy.mean_excess(1, Fraction(1), Fraction(1, t + 2), t, noise) >= Fraction(1, 2 * (t + 2)), False


@row.equal(lambda: _SMALL_SETTINGS, tolerance=1e-9)
def _(dim: int, subspace_dim: int, samples: int, beta: float, distance: float, mu: float, clip: float) -> Sides:
    """best T and best split by search"""
    setting = dim, subspace_dim, samples, beta, distance, mu, clip
    value = embedding.excess_risk(
        dim=dim,
        subspace_dim=subspace_dim,
        train_size=samples,
        smoothness=beta,
        initial_distance=distance,
        mu=mu,
        residual_clip=clip,
    ).value
    return value, lambda: brute_force_risk(*setting), math.sqrt(2) * value  # the paper's own constant of the noise


@row.equal(lambda: _PUBLISHED_SETTINGS, tolerance=1e-12)
def _(
    dim: int, subspace_dim: int, samples: int, beta: float, distance: float, eps: float, delta: float, clip: float
) -> Sides:
    """the paper's noise, best T by search"""
    setting = dim, subspace_dim, samples, beta, distance, eps, delta, clip
    return (
        embedding.excess_risk_as_published(
            dim=dim,
            subspace_dim=subspace_dim,
            train_size=samples,
            smoothness=beta,
            initial_distance=distance,
            epsilon=eps,
            delta=delta,
            residual_clip=clip,
        ).value,
        lambda: published_risk(*setting),
        printed_rate(dim, subspace_dim, samples, eps, delta, clip**2),
    )


@row.equal(lambda: [(Fraction(t),) for t in (1, "3/2", 2, "7/5", "10/3", 20, "41/2")], tolerance=1e-12)
def _(optimal: Fraction) -> Sides:
    """cost of an integer T"""
    return _rounded(optimal), _rounding_cost(optimal), Fraction(1)
