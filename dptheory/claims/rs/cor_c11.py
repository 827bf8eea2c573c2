"""rs.cor_c11: bound at a privacy budget falls with T."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from dptheory import convergence
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _budget_at_scale
from dptheory.claims.rs._budget_at_scale import printed_noise

row = new_row(
    id="rs.cor_c11",
    source=Source("rs", "Corollary C.1.1, on Theorem C.1 (cited from Abadi et al.)", tuple(range(90, 99))),
    verdict=Verdict.FALSE,
    kernel="rs/cor_c11.v",
    kernel_theorems=("printed_is_false",),
    printed=printed_noise,
    calculators=(convergence.privacy_term, convergence.private_bound, convergence.optimal_steps),
    proved=True,
)


_U = 1.5


@dataclass(frozen=True)
class Setting:
    """What does not depend on the number of steps."""

    objective_gap: float
    smoothness: float
    clip: float
    dim: int
    samples: int
    epsilon: float
    delta: float
    rate: float

    def __str__(self) -> str:
        return f"d = {self.dim}, N = {self.samples}, epsilon = {self.epsilon:g}, r = {self.rate:g}"

    @property
    def noise(self) -> float:
        """D of the calculators."""
        return convergence.privacy_term(
            epsilon=self.epsilon,
            delta=self.delta,
            clip_norm=self.clip,
            dim=self.dim,
            train_size=self.samples,
            constant=_U,
            drop_rate=self.rate,
        )


_SETTINGS = (
    Setting(2.0, 1.0, 1.0, 100_000, 50_000, 1.0, 1e-5, 0.0),
    Setting(2.0, 10.0, 0.5, 10_000_000, 50_000, 4.0, 1e-5, 0.5),
    Setting(0.5, 3.0, 2.0, 600_000, 60_000, 2.0, 1e-6, 0.9),
)


def _by_theorem(s: Setting, root: int, batch_size: int) -> float:
    """Theorem 3.5 with T = root^2 and the noise multiplier of equation 90."""
    sigma = _U * batch_size / s.samples * root * math.sqrt(math.log(1 / s.delta)) / s.epsilon
    gamma = 1 / (s.smoothness * root)
    return convergence.dpsgd_bound(
        objective_gap=s.objective_gap,
        learning_rate=gamma,
        steps=root**2,
        smoothness=s.smoothness,
        clip_norm=s.clip,
        noise_multiplier=sigma,
        dim=s.dim,
        batch_size=batch_size,
        drop_rate=s.rate,
        sampling="fixed",
    ).value


def _still_falls(s: Setting, root: int) -> bool:
    """Does Theorem 3.5's right side fall from T = root^2 to 4 T, with B = sqrt T as in the corollary?"""
    return _by_theorem(s, 2 * root, 2 * root) < _by_theorem(s, root, root)


def _optimum(s: Setting, sampling: str = "fixed") -> float:
    """Of batches of size 2, or of Poisson batches of that mean size and unknown rate."""
    return convergence.optimal_steps(
        objective_gap=s.objective_gap,
        smoothness=s.smoothness,
        clip_norm=s.clip,
        noise_per_root_step=s.noise,
        batch_size=2,
        sampling=sampling,
    )


@row.equal(
    lambda: [
        (setting, max(1, round(math.sqrt(share * _optimum(setting)))))
        for setting in _SETTINGS
        for share in (0.01, 0.2, 0.3, 4.0, 100.0)
    ],
    kind=Kind.COUNTEREXAMPLE,
)
def _(s: Setting, root: int) -> Sides:
    """falls up to T*, grows after it"""
    # from T to 4 T: A/sqrt T + D sqrt T falls iff A/(2 sqrt T) > D sqrt T, that is T < T*/2
    return root**2 < _optimum(s) / 2, lambda: _still_falls(s, root), True


def _searched_optimum(s: Setting, sampling: str) -> float:
    """The best T of Theorem 3.5's right side by search over log T; T enters as a real number; the noise does not depend on B."""
    moment = s.clip**2 if sampling == "fixed" else 1.5 * s.clip**2

    def value(log_steps: float) -> float:
        steps = math.exp(log_steps)
        sigma = _U / s.samples / s.epsilon * math.sqrt(steps * math.log(1 / s.delta))
        return convergence.alignment_bound(
            decrease=s.objective_gap / steps,
            learning_rate=1 / (s.smoothness * math.sqrt(steps)),
            smoothness=s.smoothness,
            second_moment=moment,
            noise_term=convergence.noise_term(
                smoothness=s.smoothness, clip_norm=s.clip, noise_multiplier=sigma, dim=s.dim, batch_size=1
            ),
            drop_rate=s.rate,
        ).value

    grid = np.linspace(0, 40, 81)
    best = grid[int(np.argmin([value(x) for x in grid]))]
    found = minimize_scalar(value, bracket=(best - 0.5, best, best + 0.5), tol=1e-12)
    return math.exp(float(found.x))


@row.equal(lambda: [(setting, sampling) for setting in _SETTINGS for sampling in ("fixed", "poisson")], tolerance=1e-5)
def _(s: Setting, sampling: str) -> Sides:
    """best number of steps, by search"""
    return _optimum(s, sampling), lambda: _searched_optimum(s, sampling), lambda: _optimum(s, sampling) / 2


@row.equal(
    lambda: [(budget, term) for budget in _budget_at_scale.BUDGETS for term in _budget_at_scale.TERMS], tolerance=1e-12
)
def _(budget: _budget_at_scale.Budget, term: str) -> Sides:
    """Theorem 3.5 with the noise put in, every term: from the law of a step on a quadratic"""
    return budget.stated(term), lambda: budget.by_hand(term), budget.by_printed(term)


@row.equal(lambda: [(budget,) for budget in _budget_at_scale.BUDGETS], tolerance=1e-12)
def _(budget: _budget_at_scale.Budget) -> Sides:
    """best number of steps: the two parts are equal"""
    return budget.stated_optimum(), budget.balanced_steps, budget.balanced_steps() / 2


@row.equal(lambda: [(dim,) for dim in (5, 10**6)])
def _(dim: int) -> Sides:
    """no budget: no noise, and no end to the steps"""
    # wrong: the falling part over a noise of 1
    return (
        convergence.optimal_steps(
            objective_gap=2.0,
            smoothness=1.0,
            clip_norm=1.0,
            noise_per_root_step=convergence.privacy_term(
                epsilon=math.inf, delta=1e-5, clip_norm=1.0, dim=dim, train_size=50_000, constant=1.5
            ),
        ),
        math.inf,
        2.5,
    )
