"""RS: the bound at a privacy budget, and its best number of steps."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from dptheory import convergence
from dptheory.checks import ExactCheck, Kind
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.rs import _budget_at_scale
from dptheory.claims.rs._budget_at_scale import printed_noise

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
        return convergence.privacy_term(self.epsilon, self.delta, self.clip, self.dim, self.samples, _U, self.rate)


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
        s.objective_gap, gamma, root**2, s.smoothness, s.clip, sigma, s.dim, batch_size, s.rate, sampling="fixed"
    ).value


def _still_falls(s: Setting, root: int) -> bool:
    """Does Theorem 3.5's right side fall from T = root^2 to 4 T, with B = sqrt T as in the corollary?"""
    return _by_theorem(s, 2 * root, 2 * root) < _by_theorem(s, root, root)


def _optimum(s: Setting, sampling: str = "fixed") -> float:
    """Of batches of size 2, or of Poisson batches of that mean size and unknown rate."""
    return convergence.optimal_steps(s.objective_gap, s.smoothness, s.clip, s.noise, batch_size=2, sampling=sampling)


def _searched_optimum(s: Setting, sampling: str) -> float:
    """The best T of Theorem 3.5's right side by search over log T; T enters as a real number; the noise does not depend on B."""
    moment = s.clip**2 if sampling == "fixed" else 1.5 * s.clip**2

    def value(log_steps: float) -> float:
        steps = math.exp(log_steps)
        sigma = _U / s.samples / s.epsilon * math.sqrt(steps * math.log(1 / s.delta))
        return convergence.alignment_bound(
            s.objective_gap / steps,
            1 / (s.smoothness * math.sqrt(steps)),
            s.smoothness,
            moment,
            convergence.noise_term(s.smoothness, s.clip, sigma, s.dim, 1),
            s.rate,
        ).value

    grid = np.linspace(0, 40, 81)
    best = grid[int(np.argmin([value(x) for x in grid]))]
    found = minimize_scalar(value, bracket=(best - 0.5, best, best + 0.5), tol=1e-12)
    return math.exp(float(found.x))


_COR = Claim(
    id="rs.cor_c11",
    title="bound at a privacy budget falls with T",
    source=Source("rs", "Corollary C.1.1, on Theorem C.1 (cited from Abadi et al.)", tuple(range(90, 99))),
    statement=r"With $\gamma = 1/(G\sqrt T)$, $B = \sqrt T$, $\sigma = uq\sqrt{T\log(1/\delta)}/\varepsilon$, $q = B/N$: the right side of Theorem 3.5 is "
    r"$\frac1\kappa(\frac{\Delta_LG}{\sqrt T}+\frac{C^2}{2\sqrt T}-\bar b)+\frac{1-r}\kappa\Delta_\varepsilon$, "
    r"$\Delta_\varepsilon = \frac{dC^2u^2q^2\log(1/\delta)}{2\sqrt T\varepsilon^2}$, and decreases in $T$.",
    verdict=Verdict.FALSE,
    conditions=("those of Theorem 3.5", "N fixed", "eps < v q^2 T for the accountant's constant v", "1 <= B <= N"),
    correction=r"$q = \sqrt T/N$ grows with $T$, and $B$ cancels for every choice of it: $\Delta_\varepsilon = "
    r"\frac{dC^2u^2\log(1/\delta)}{2N^2\varepsilon^2}\sqrt T$. With $A = G\Delta_L+C^2/2$, $D = (1-r)\Delta_\varepsilon/\sqrt T$ and no bias the right "
    r"side is $(A/\sqrt T+D\sqrt T)/\kappa$: smallest, $2\sqrt{AD}/\kappa$, at $T^* = A/D$, and unbounded as $T\to\infty$. For Poisson batches "
    r"$C^2$ is $C^2(1+\frac{1-q}B)$.",
    printed=printed_noise,
    calculators=(convergence.privacy_term, convergence.private_bound, convergence.optimal_steps),
    checks=(
        ExactCheck(
            name="falls up to T*, grows after it",
            cases=lambda: [
                (setting, max(1, round(math.sqrt(share * _optimum(setting)))))
                for setting in _SETTINGS
                for share in (0.01, 0.2, 0.3, 4.0, 100.0)
            ],
            truth=_still_falls,
            # from T to 4 T: A/sqrt T + D sqrt T falls iff A/(2 sqrt T) > D sqrt T, that is T < T*/2
            statement=lambda s, root: root**2 < _optimum(s) / 2,
            wrong=lambda s, root: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="best number of steps, by search",
            cases=lambda: [(setting, sampling) for setting in _SETTINGS for sampling in ("fixed", "poisson")],
            truth=_searched_optimum,
            statement=_optimum,
            wrong=lambda s, sampling: _optimum(s, sampling) / 2,
            tolerance=1e-5,
        ),
        *_budget_at_scale.BUDGET,
    ),
    proved=True,
)

CLAIMS: tuple[Claim, ...] = (_COR,)
