"""A function of two entries whose gradient is large in the middle of every epoch and next to nothing at its start.

L(u, v) = -a sin(omega u) sin(omega v) + psi(u + v), G-smooth, psi falls with slope eta and then levels off. At u, v in
(pi / omega) Z the gradient is (-eta, -eta). An epoch that keeps u moves it by pi / omega, and dL/dv goes through a half-wave.
"""

import itertools
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Wave:
    """E epochs of n >= 2 steps; tau = n gamma G > 1, wave and slope share the smoothness as (1 - 1/tau) : 1/tau; a = 1."""

    learning_rate: float
    smoothness: float
    epochs: int
    steps_per_epoch: int

    @property
    def tau(self) -> float:
        return self.steps_per_epoch * self.learning_rate * self.smoothness

    @property
    def frequency(self) -> float:
        return math.sqrt((1 - 1 / self.tau) * self.smoothness)

    @property
    def slope(self) -> float:
        """eta: an epoch moves its entry by half a wave."""
        return math.pi / (self.frequency * self.learning_rate * self.steps_per_epoch)

    @property
    def gap(self) -> float:
        """L(0, 0) minus a lower bound on L: the wave's depth, the way down, and the levelling off."""
        return 1 + self.epochs * self.slope * math.pi / self.frequency + self.slope**2 * self.tau / self.smoothness

    @property
    def stated(self) -> float:
        """What the page says of the mean over all steps, at this gap."""
        tau = self.tau
        return self.gap * self.smoothness / 2 * (tau - 1) ** 2 / (tau * (tau - 1 + math.pi**2 * (self.epochs + 1)))

    def gradient(self, u: float, v: float) -> tuple[float, float]:
        beyond = max(0.0, u + v - (self.epochs + 1e-9) * math.pi / self.frequency)
        fall = min(0.0, -self.slope + beyond * self.smoothness / self.tau / 2)
        first, second = self.frequency * u, self.frequency * v
        return (
            -self.frequency * math.cos(first) * math.sin(second) + fall,
            -self.frequency * math.sin(first) * math.cos(second) + fall,
        )

    def walked(self) -> tuple[float, float]:
        """Mean of E|grad|^2 over all steps, and over the starts of the epochs; one entry kept, every sequence of masks."""
        everywhere, starts = [], []
        for path in itertools.product((0, 1), repeat=self.epochs):
            place = [0.0, 0.0]
            for entry in path:
                for step in range(self.steps_per_epoch):
                    gradient = self.gradient(*place)
                    everywhere.append(gradient[0] ** 2 + gradient[1] ** 2)
                    if step == 0:
                        starts.append(everywhere[-1])
                    place[entry] -= self.learning_rate * gradient[entry]
        return math.fsum(everywhere) / len(everywhere), math.fsum(starts) / len(starts)
