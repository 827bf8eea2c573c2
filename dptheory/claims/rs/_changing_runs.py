"""Masked SGD whose step size and mask change from step to step, on G |w|^2 / 2."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from dptheory import convergence
from dptheory.claims.rs import _noisy_runs
from dptheory.claims.rs._noisy_runs import NoisyRun


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
