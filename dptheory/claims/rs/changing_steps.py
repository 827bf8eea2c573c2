import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dptheory import convergence
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _noisy_runs, _worst_case
from dptheory.claims.rs._noisy_runs import NoisyRun

# Masked SGD whose step size and mask change from step to step, on G |w|^2 / 2.


@dataclass(frozen=True)
class Schedule:
    """A run whose step t has ``rates[t]`` and keeps ``kept[t]`` entries; ``base`` says the rest."""

    base: NoisyRun
    rates: tuple[Fraction, ...]
    kept: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.base}, T = {len(self.rates)}, gamma {self.rates[0]} to {self.rates[-1]}, kept {self.kept[0]} to {self.kept[-1]}"

    @property
    def _steps(self) -> list[NoisyRun]:
        pairs = zip(self.rates, self.kept, strict=True)
        return [dataclasses.replace(self.base, steps=1, learning_rate=gamma, kept=kept) for gamma, kept in pairs]

    def stated(self, *, constant: bool = False) -> float:
        """The bound by the calculator; ``constant`` takes the first step for all."""
        base = self.base
        return convergence.noisy_sgd_bound(
            objective_gap=base.gap,
            learning_rate=float(self.rates[0]) if constant else [float(rate) for rate in self.rates],
            steps=len(self.rates),
            smoothness=float(base.smoothness),
            deviation_norm=float(base.deviation) * base.dim**0.5,
            sum_noise_std=float(base.sum_noise_std),
            dim=base.dim,
            batch_size=base.batch_size,
            drop_rate=1 - self.kept[0] / base.dim if constant else [1 - kept / base.dim for kept in self.kept],
            **base.sampling,  # type: ignore[arg-type]
        ).value

    def enumerated(self) -> float:
        """The weighted mean by enumeration of everything random."""
        return self._weighted(float(square) for square in _noisy_runs.enumerated_squares(self._steps))

    def by_entries(self) -> float:
        """The same from the second moment of one entry."""
        return self._weighted(_noisy_runs.squares_by_entries(self._steps))

    def _weighted(self, squares: Iterable[float]) -> float:
        growth = 1.0
        if self.base.examples is not None:
            growth += (1 - self.base.batch_size / self.base.examples) / self.base.batch_size
        moves = [float(rate * self.base.smoothness) for rate in self.rates]
        weights = [kept * move * (2 - growth * move) for kept, move in zip(self.kept, moves, strict=True)]
        return sum(w * s for w, s in zip(weights, squares, strict=True)) / sum(weights)


F = Fraction
SMALL = (
    Schedule(NoisyRun(2, 1, F(1), F(1), 1, F(0), F(0), 1, None), (F(1), F(1, 3), F(1, 10)), (1, 2, 1)),
    Schedule(NoisyRun(2, 1, F(1), F(2), 1, F(2), F(3), 2, None), (F(1, 10), F(4, 5)), (1, 2)),
    Schedule(NoisyRun(3, 1, F(1), F(1), 1, F(0), F(0), 1, None), (F(1, 2), F(1), F(1, 4), F(3, 2)), (1, 1, 2, 3)),
    Schedule(NoisyRun(1, 1, F(1), F(1), 1, F(2), F(1), 1, 2), (F(1, 2), F(1), F(1, 5)), (1, 1, 1)),
    Schedule(NoisyRun(2, 1, F(1), F(1), 1, F(1), F(3), 2, 4), (F(2, 3), F(1, 3)), (1, 2)),
)
LARGE = (
    Schedule(
        NoisyRun(10**6, 1, F(1), F(1), 1, F(2), F(200), 1024, None),
        tuple(F(1, 20 + t) for t in range(1500)),
        tuple(500_000 + 300 * t for t in range(1500)),
    ),
    Schedule(
        NoisyRun(550_000, 1, F(1), F(2), 1, F(10), F(1000), 512, 50_000),
        tuple(F(1, 4) if t < 200 else F(1, 40) for t in range(400)),
        tuple(55_000 if t < 300 else 550_000 for t in range(400)),
    ),
)


row = new_row(
    id="rs.changing_steps",
    source=Source("rs", "new, on Theorem 3.2"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.noisy_sgd_bound,),
)


@row.equal(lambda: [(one,) for one in SMALL], tolerance=1e-12)
def _(one: Schedule) -> Sides:
    """attained on a quadratic, by enumeration of masks, batches and noise"""
    return one.stated(), one.enumerated, lambda: one.stated(constant=True)


@row.equal(lambda: [(one,) for one in (*SMALL, *LARGE)], tolerance=1e-10)
def _(one: Schedule) -> Sides:
    """attained on a quadratic, entry by entry at the sizes of the papers"""
    return one.stated(), one.by_entries, lambda: one.stated(constant=True)


def _worst(learning_rates: tuple[float, ...], G: float, rates: tuple[float, ...], energy: float) -> float:
    return convergence.noisy_sgd_bound(
        objective_gap=1.0,
        learning_rate=learning_rates,
        steps=len(rates),
        smoothness=G,
        sum_noise_std=math.sqrt(energy / 4),
        dim=4,
        batch_size=1,
        drop_rate=rates,
        sampling="fixed",
    ).value


row.certificate(
    ((1.0, 0.3, 0.1), 1.0, (0.5, 0.0, 0.5), 0.0),
    ((0.05, 0.85, 0.25), 2.0, (0.5, 0.5, 0.0), 0.0),
    ((0.2, 1.0), 1.0, (0.5, 0.0), 1.0),
    problem=_worst_case.changing_run,
    wrong=lambda gammas, G, rates, energy: _worst(gammas[::-1], G, rates[::-1], energy),
    name="worst case of two and three changing steps over smooth functions",
)(_worst)


def _slack(
    steps: float, first: float, decay: float, rate: float, spread: float, curvature: float, scale: float = 1.0
) -> float:
    """Relative slack on a quadratic with curvatures (curvature, 1), entries kept with chances that rise to 1."""
    steps = round(steps)
    time = np.arange(steps)
    rates, drops = first * decay**time, rate * (1 - time / steps)
    moments, squares = np.ones(2), []
    slopes = np.array([curvature, 1.0])
    for gamma, drop in zip(rates, drops, strict=True):
        squares.append(float(moments @ slopes**2))
        moments = moments + (1 - drop) * (moments * ((1 - gamma * slopes) ** 2 - 1) + gamma**2 * spread)
    weights = (1 - drops) * rates * (2 - rates)
    bound = convergence.noisy_sgd_bound(
        objective_gap=(curvature + 1) / 2,
        learning_rate=rates,
        steps=steps,
        smoothness=1.0,
        sum_noise_std=math.sqrt(spread),
        dim=2,
        batch_size=1,
        drop_rate=drops,
        sampling="fixed",
    ).value
    return scale * bound / (float(weights @ squares) / float(weights.sum())) - 1


def _halved(**point: float) -> float:
    return _slack(**point, scale=0.5)


row.inequality(
    {
        "steps": Range(1, 60, log=True),
        "first": Range(0.02, 1.9, log=True),
        "decay": Range(0.8, 1.0),
        "rate": Range(0, 0.95),
        "spread": Range(0, 4),
        "curvature": Range(0, 1),
    },
    wrong=_halved,
    name="bound above the recursion on quadratics, any decay",
)(_slack)


@row.equal((Fraction(1), Fraction(1, 20)), (Fraction(1, 2), Fraction(1, 2)), kind=Kind.COUNTEREXAMPLE)
def _(first: Fraction, later: Fraction) -> Sides:
    """with equal weights a zigzag gradient can be worse than the quadratic"""
    # three gradients, gap 1, G = 1, no mask
    steps = (first, later)
    # gradient 1 at every iterate, less between them by slopes of -1 and 1; after the last it falls to 0
    zigzag = 1 / (sum(gamma - gamma**2 / 4 for gamma in steps) + Fraction(1, 2))
    squares = [Fraction(2)]
    for gamma in steps:
        squares.append(squares[-1] * (1 - gamma) ** 2)
    return first != later, zigzag > sum(squares) / 3, first == later
