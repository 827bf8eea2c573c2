import functools
import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import scipy

from dptheory import embedding
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gep import noisy_steps as noisy
from dptheory.claims.gep._mechanism import least, printed_noise_ratio
from dptheory.claims.gep.noisy_steps import excess_at_printed_steps, telescoped

eq11 = new_row(
    id="gep.eq11",
    source=Source("gep", "proof of Theorem 3.3", (7, 8, 9, 10, 11)),
    verdict=Verdict.HOLDS,
    calculators=(embedding.noisy_descent_risk,),
)


@eq11.certificate(
    (1.0, 1.0),
    (2.5, 0.4),
    (0.3, 7.0),
    problem=noisy.noisy_step,
    wrong=lambda smoothness, energy: energy / (2 * smoothness),
)
def _(smoothness: float, energy: float) -> float:
    """worst case of the inequality over smooth convex functions"""
    return energy / smoothness


@eq11.certificate(
    (1.0, 1.0),
    (2.5, 0.4),
    (0.3, 7.0),
    problem=noisy.noisy_step_at_start,
    wrong=lambda smoothness, energy: energy / smoothness,
)
def _(smoothness: float, energy: float) -> float:
    """worst case of the inequality at theta_t"""
    return telescoped(smoothness, 0.0, 1, energy)


@eq11.certificate(
    (1.0, 0.0, 1, 1.0),
    (2.5, 0.0, 1, 0.4),
    problem=noisy.noisy_run,
    wrong=lambda smoothness, distance, steps, energy: energy / smoothness,
)
def _(smoothness: float, distance: float, steps: int, energy: float) -> float:
    """worst case of one step from the minimiser"""
    return telescoped(smoothness, distance, steps, energy)


def printed_summed_risk(smoothness: float, distance: float, steps: int, noise_energy: float) -> float:
    """Right side of equation 12 as printed: the distance is not squared. noise_energy = sigma^2 (k + p rbar) / n^2."""
    return smoothness * distance / (2 * steps) + noise_energy / smoothness


eq12 = new_row(
    id="gep.eq12",
    source=Source("gep", "proof of Theorem 3.3", (12,)),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false",),
    printed=printed_summed_risk,
    calculators=(embedding.noisy_descent_risk, embedding.least_risk),
)


@eq12.equal(lambda: [(field, steps) for field in ("steps", "optimal_steps") for steps in (1, 17, 10**6)])
def _(field: str, steps: int) -> Sides:
    """T is the T that was given, and no best one was sought"""
    found = embedding.noisy_descent_risk(smoothness=1.0, initial_distance=1.0, steps=steps, noise_energy=1.0)
    if field == "steps":
        return found.steps, steps, steps + 1
    return 1 / found.optimal_steps, 0.0, steps + 1


@eq12.equal(
    lambda: [(1, Fraction(4), 1, Fraction(noise)) for noise in (0, Fraction(1, 10), Fraction(1, 2))],
    kind=Kind.COUNTEREXAMPLE,
)
def _(beta: int, distance: Fraction, steps: int, noise: Fraction) -> Sides:
    """rounded |x| with slope 1, D = 4, one step: does the bound hold?"""
    excess = noisy.mean_excess(beta, distance, 1, steps, noise)
    bound = telescoped(float(beta), float(distance), steps, float(noise) ** 2)
    return excess <= bound, True, excess <= Fraction(beta) * distance / (2 * steps) + noise**2 / beta


@eq12.certificate(
    (1.0, 1.0, 1, 1.0),
    (2.0, 0.5, 1, 0.1),
    (1.0, 3.0, 2, 0.5),
    (1.0, 0.1, 2, 1.0),
    problem=noisy.noisy_run,
    wrong=printed_summed_risk,
    looseness=2.0,  # without noise it is (T + 2) / T - 1, and noise lowers it
)
def _(beta: float, distance: float, steps: int, energy: float) -> float:
    """worst case of one and two noisy steps"""
    return telescoped(beta, distance, steps, energy)


@eq12.equal(
    lambda: [
        (beta, Fraction(d), t, noise)
        for beta in (1, Fraction(5, 2))
        for d in (0, 1, 30)
        for t in (1, 2, 7)
        for noise in (Fraction(1, 3), Fraction(0), Fraction(20))
        if d or noise
    ],
    tolerance=1e-12,
)
def _(beta: Fraction | int, d: Fraction, t: int, noise: Fraction) -> Sides:
    """the sum over the steps with equality, on a quadratic, every sign"""
    return (
        telescoped(float(beta), float(d), t, float(noise) ** 2),
        lambda: noisy.telescoped_quadratic(beta, d, t, noise),
        float(beta) * float(d) ** 2 / (2 * t) + float(noise) ** 2 / float(beta),
    )


@eq12.inequality(
    {
        "smoothness": Range(0.1, 10.0, log=True),
        "distance": Range(0.1, 10.0, log=True),
        "share": Range(0.01, 1.0),
        "steps": Range(1, 6, integer=True),
        "noise": Range(1e-3, 10.0, log=True),
    },
    wrong=0.5,  # half the bound
)
def run_slack(smoothness: float, distance: float, share: float, steps: int, noise: float) -> float:
    """rounded |x| with noise, every sign"""
    slope = share * smoothness * distance
    excess = float(noisy.mean_excess(smoothness, distance, slope, steps, noise))
    return 1.0 - excess / telescoped(smoothness, distance, steps, noise**2)


@eq12.equal(lambda: [(beta, d, t) for beta in (1, Fraction(5, 2)) for d in (1, 3) for t in (1, 2, 7)], tolerance=1e-12)
def _(beta: Fraction | int, d: int, t: int) -> Sides:
    """without noise (T + 2)/T times the risk of the rounded |x|"""
    return (
        telescoped(float(beta), float(d), t, 0.0),
        noisy.mean_excess(beta, Fraction(d), Fraction(beta) * d / (t + 2), t, 0) * Fraction(t + 2, t),
        printed_summed_risk(float(beta), float(d), t, 0.0),
    )


@eq12.certificate(
    (1.0, 1.0, 1, 0.0),
    (2.0, 0.5, 2, 0.0),
    (1.0, 2.0, 3, 0.0),
    problem=noisy.noisy_run,
    wrong=telescoped,
)
def _(beta: float, distance: float, steps: int, energy: float) -> float:
    """worst case without noise, one to three steps"""
    return embedding.least_risk(smoothness=beta, initial_distance=distance, steps=steps)


def _least_delta(residual: Fraction, added: Fraction, epsilon: int) -> float:
    """delta that any (epsilon, delta) guarantee needs: sup_S P_D(S) - e^epsilon P_D'(S), one step, residual noise N(0, r^2).

    D has a residual of length ``residual`` along an axis orthogonal to the one of the sample added, in D' the noise has scale
    ``added``; seen along a third axis the release is N(0, residual^2) against N(0, added^2).
    """
    if residual == 0:
        return 1.0  # the event {0}: probability 1 against 0
    narrow, wide = float(residual), float(added)
    # densities cross where x^2 (1/narrow^2 - 1/wide^2) / 2 = log(wide / narrow) - epsilon
    level = 2 * (math.log(wide / narrow) - epsilon)
    if level <= 0:
        return 0.0
    edge = math.sqrt(level / (1 / narrow**2 - 1 / wide**2))
    inside = [math.erf(edge / scale / math.sqrt(2)) for scale in (narrow, wide)]
    return inside[0] - math.exp(epsilon) * inside[1]


def _claimed_delta(epsilon: int) -> float:
    """delta for which sigma = 2 sqrt(2 log(1/delta)) / epsilon is the noise multiplier 1; epsilon < 2 log(1/delta) if epsilon > 4."""
    return math.exp(-(epsilon**2) / 8)


residual_scale = new_row(
    id="gep.residual_scale",
    source=Source("gep", "Theorem 3.3 and its proof", (8,)),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false", "correction_holds"),
)


@residual_scale.equal(lambda: [(Fraction(0), Fraction(1), epsilon) for epsilon in (5, 8, 50)], kind=Kind.COUNTEREXAMPLE)
def _(residual: Fraction, added: Fraction, epsilon: int) -> Sides:
    """no residual against one: least delta"""
    return 1.0, lambda: _least_delta(residual, added, epsilon), _claimed_delta(epsilon)


@residual_scale.equal((Fraction(1, 10**6), Fraction(1), 5), kind=Kind.COUNTEREXAMPLE)
def _(residual: Fraction, added: Fraction, epsilon: int) -> Sides:
    """largest residual 10^-6 against 1: is the claimed delta enough?"""
    return False, _least_delta(residual, added, epsilon) <= _claimed_delta(epsilon), True


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

    @functools.cached_property
    def energy(self) -> float:
        """E|noise|^2 of the averaged gradient in each step, over T: the published one, or the least by a search over the split."""
        k, p, lipschitz, clip = self.subspace_dim, self.dim, self.lipschitz, self.residual_clip
        if len(self.budget) == 2:
            ratio = printed_noise_ratio(self.budget[0], self.budget[1])
            return ratio**2 * math.fsum([k * lipschitz**2, p * clip**2]) / self.samples**2
        mu = self.budget[0]
        return least(lambda t: (k + (p - k) * t) * (lipschitz**2 + clip**2 / t))[1] / mu**2 / self.samples**2

    def terms(self, steps: float) -> tuple[float, float]:
        """Optimization and noise after T steps."""
        return self.smoothness * self.distance**2 / (2 * steps), self.energy * steps / (2 * self.smoothness)

    @property
    def least_risk(self) -> float:
        """The smallest sum of both, over T."""
        return min(sum(self.terms(steps)) for steps in range(1, 4000))


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


thm3_3 = new_row(
    id="gep.thm3.3",
    source=Source("gep", "Theorem 3.3"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false",),
    printed=printed_rate,
    calculators=(embedding.excess_risk, embedding.excess_risk_as_published, embedding.least_risk),
)


@thm3_3.equal(
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


@thm3_3.equal(lambda: _FACTORS, kind=Kind.COUNTEREXAMPLE)
def _(factor: int, steps: int) -> Sides:
    """at the printed T the risk exceeds every multiple of the printed rate"""
    return False, not _exceeds(factor, steps), True


@thm3_3.equal(
    lambda: [(beta, d, t) for beta in (1, Fraction(3, 2)) for d in (1, 4) for t in (1, 2, 5)], tolerance=1e-12
)
def _(beta: Fraction | int, d: int, t: int) -> Sides:
    """least risk, enumerated without noise"""
    return (
        embedding.least_risk(smoothness=float(beta), initial_distance=float(d), steps=t),
        noisy.mean_excess(beta, Fraction(d), Fraction(beta) * d / (t + 2), t, 0),
        float(beta) * d**2 / (2 * t),
    )


@thm3_3.equal(
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


@thm3_3.equal(lambda: [(t, noise) for t in (1, 3, 6) for noise in (Fraction(1, 7), Fraction(3, 2))])
def _(t: int, noise: Fraction) -> Sides:
    """least risk holds with noise, every sign"""
    return True, noisy.mean_excess(1, Fraction(1), Fraction(1, t + 2), t, noise) >= Fraction(1, 2 * (t + 2)), False


@thm3_3.equal(lambda: _SMALL_SETTINGS, tolerance=1e-9)
def _(dim: int, subspace_dim: int, samples: int, beta: float, distance: float, mu: float, clip: float) -> Sides:
    """best T and best split by search"""
    setting = Setting(dim, subspace_dim, samples, beta, distance, (mu,), clip)
    value = calculated_risk("value", setting)
    return value, lambda: setting.least_risk, math.sqrt(2) * value  # the paper's own constant of the noise


@thm3_3.equal(lambda: _PUBLISHED_SETTINGS, tolerance=1e-12)
def _(
    dim: int, subspace_dim: int, samples: int, beta: float, distance: float, eps: float, delta: float, clip: float
) -> Sides:
    """the paper's noise, best T by search"""
    setting = Setting(dim, subspace_dim, samples, beta, distance, (eps, delta), clip)
    return (
        calculated_risk("value", setting),
        lambda: setting.least_risk,
        printed_rate(dim, subspace_dim, samples, eps, delta, clip**2),
    )


@thm3_3.equal(lambda: [(Fraction(t),) for t in (1, "3/2", 2, "7/5", "10/3", 20, "41/2")], tolerance=1e-12)
def _(optimal: Fraction) -> Sides:
    """cost of an integer T

    The risk is proportional to T*/T + T/T*. p = k = n = mu = 1 give an optimal T of beta D, the best real risk.
    """
    found = calculated_risk("value", Setting(1, 1, 1, 1.0, float(optimal), (1.0,), 0.0)) / float(optimal)
    return found, min((optimal / steps + steps / optimal) / 2 for steps in range(1, 60)), Fraction(1)


independent_p = new_row(
    id="gep.independent_p",
    source=Source("gep", "section 3.3, after Theorem 3.3"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    kernel_theorems=("printed_is_false",),
    calculators=(embedding.excess_risk, embedding.excess_risk_as_published, embedding.least_risk),
    part_of="gep.thm3.3",
)


@independent_p.equal(lambda: [(q, t) for q in (100, 10**4, 10**8) for t in (1, 3)], kind=Kind.COUNTEREXAMPLE)
def _(q: int, t: int) -> Sides:
    """n and the root of p large at the printed T: does the risk fall like 1/n?"""
    return Fraction(1, 2 * (t + 2)), excess_at_printed_steps(q, t), Fraction(1, t * q)


@independent_p.equal(lambda: [(p, 1.0, 1e-5) for p in (10, 10**4, 10**9)], tolerance=1e-12)
def _(p: int, eps: float, delta: float) -> Sides:
    """at the best T the risk does not see p"""
    return (
        calculated_risk("value", Setting(p, 10, 50_000, 1.0, 1.0, (eps, delta), 0.0)),
        lambda: Setting(10, 10, 50_000, 1.0, 1.0, (eps, delta), 0.0).least_risk,
        embedding.least_risk(smoothness=1.0, initial_distance=1.0, steps=max(1, round(50_000 * eps / math.sqrt(p)))),
    )


@independent_p.equal(lambda: [(p, 0.5) for p in (10, 10**4, 10**9)], tolerance=1e-12)
def _(p: int, mu: float) -> Sides:
    """the same at mu-GDP"""
    return (
        calculated_risk("value", Setting(p, 10, 300, 1.0, 1.0, (mu,), 0.0)),
        lambda: Setting(10, 10, 300, 1.0, 1.0, (mu,), 0.0).least_risk,
        math.sqrt(p) / (mu * 300),
    )


previous_rate = new_row(
    id="gep.previous_rate",
    source=Source("gep", "section 3.3, after Theorem 3.3, on the previous best"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.noisy_descent_risk,),
)


def _risk(steps: int, dim: int, train_size: int, epsilon: float, log_delta: float) -> float:
    """Of gradient perturbation with sigma^2 = 4 T log(1/delta) / epsilon^2, beta = D = 1."""
    energy = dim * 4 * steps * log_delta / (epsilon * train_size) ** 2
    return telescoped(1.0, 1.0, steps, energy)


def _whole_steps() -> Iterator[tuple[int, int, int, float, float]]:
    """T = n epsilon / (2 sqrt(p log(1/delta))) is whole."""
    for root, steps, log_delta in ((1, 10, 4.0), (3, 7, 1.0), (100, 50, 9.0)):
        epsilon = 0.5
        train_size = round(2 * steps * root * math.sqrt(log_delta) / epsilon)
        yield steps, root**2, train_size, epsilon, log_delta


@previous_rate.equal(_whole_steps, tolerance=1e-12)
def _(steps: int, dim: int, train_size: int, epsilon: float, log_delta: float) -> Sides:
    """2 D sqrt(p log(1/delta)) / (n epsilon) at the best number of steps"""
    rate = math.sqrt(dim * log_delta) / (train_size * epsilon)
    return 2 * rate, lambda: _risk(steps, dim, train_size, epsilon, log_delta), 2 * rate * math.sqrt(log_delta)


@previous_rate.equal(_whole_steps)
def _(steps: int, dim: int, train_size: int, epsilon: float, log_delta: float) -> Sides:
    """no other number of steps is better"""
    others = (max(1, steps - 1), steps + 1, 2 * steps)

    def best() -> bool:
        here = _risk(steps, dim, train_size, epsilon, log_delta)
        return all(here <= _risk(other, dim, train_size, epsilon, log_delta) for other in others)

    return True, best, False


@previous_rate.inequality({"best_steps": Range(1.0, 50.0)}, wrong=0.1)
def rounded_up(best_steps: float) -> float:
    """5/2 less T*/T + T/T* at T = T* rounded up, where it is twice 1 at T = T*"""
    steps = math.ceil(best_steps)
    return 2.5 - best_steps / steps - steps / best_steps


@previous_rate.equal((0.5, 4.0), (1.0, 1.0), (8.0, 4.0), tolerance=1e-12)
def _(epsilon: float, log_delta: float) -> Sides:
    """epsilon of concentrated privacy at that noise, below the budget: T / (2 sigma^2) + sqrt(2 T log(1/delta)) / sigma"""
    steps, noise = 100, math.sqrt(4 * 100 * log_delta) / epsilon
    spent = epsilon**2 / (8 * log_delta) + epsilon / math.sqrt(2)
    assert spent <= epsilon
    cost = steps / (2 * noise**2)
    return spent, lambda: cost + 2 * math.sqrt(cost * log_delta), epsilon
