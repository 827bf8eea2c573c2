import itertools
import math
from dataclasses import dataclass

import numpy as np

from dptheory import convergence
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.rs import _momentum_runs as runs
from dptheory.claims.rs import _worst_case

# A function of two entries whose gradient is large in the middle of every epoch and next to nothing at its start.
#
# L(u, v) = -a sin(omega u) sin(omega v) + psi(u + v), G-smooth, psi falls with slope eta and then levels off. At u, v in
# (pi / omega) Z the gradient is (-eta, -eta). An epoch that keeps u moves it by pi / omega, and dL/dv goes through a half-wave.


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


row = new_row(
    id="rs.held_steps",
    source=Source("rs", "new, on Theorem 3.2 and Algorithm 1"),
    verdict=Verdict.HOLDS,
    calculators=(convergence.momentum_mask_bound,),
)

_WAVES = tuple(
    (gamma, G, epochs, n) for gamma, G, epochs, n in ((1.0, 1.0, 2, 50), (0.5, 1.0, 4, 100), (0.2, 2.0, 4, 400))
)


@row.equal(*_WAVES, (1.0, 1.0, 2, 2), tolerance=1e-9)
def _(gamma: float, G: float, epochs: int, n: int) -> Sides:
    """the wave over all steps, walked through every sequence of masks"""
    wave = Wave(gamma, G, epochs, n)
    return wave.frequency**2 / 2 + 2 * wave.slope**2, lambda: wave.walked()[0], wave.frequency**2 / 2


@row.equal(*_WAVES, (1.0, 1.0, 1, 30), (0.9, 3.0, 3, 20), kind=Kind.COUNTEREXAMPLE)
def _(gamma: float, G: float, epochs: int, n: int) -> Sides:
    """the wave is above item 3 over all steps, and far below it at the starts"""
    wave = Wave(gamma, G, epochs, n)
    everywhere, starts = wave.walked()
    return True, everywhere >= wave.stated and starts < wave.stated / 5, starts >= wave.stated


@row.equal(*_WAVES, tolerance=1e-9)
def _(gamma: float, G: float, epochs: int, n: int) -> Sides:
    """the wave is smooth with its constant: the largest slope of its gradient, by differences"""
    wave = Wave(gamma, G, epochs, n)
    # the wave alone, where psi is straight: curvature +-a omega^2 along the diagonals, at the corners of the waves
    place, step = math.pi / wave.frequency, 1e-6 / wave.frequency
    slopes = [
        (wave.gradient(place + step, place + sign * step)[0] - wave.gradient(place, place)[0]) / step
        for sign in (1, -1)
    ]
    below = G * (1 - 1 / wave.tau)
    return below, max(abs(s) for s in slopes), G


def _slack_of_the_wave(gamma: float, n: float, epochs: float, scale: float = 1.0) -> float:
    """The bound over the wave's mean, less 1, G = 1."""
    epochs, n = round(epochs), round(n / gamma)
    wave = Wave(gamma, 1.0, epochs, n)
    exact = wave.frequency**2 / 2 + 2 * wave.slope**2
    return scale * runs.bound(gamma, 1.0, 0.0, 0.5, epochs, n, wave.gap) / exact - 1


def _fifth_of_the_wave(**point: float) -> float:
    return _slack_of_the_wave(**point, scale=0.2)


row.inequality(
    {"gamma": Range(0.001, 1, log=True), "n": Range(2, 1000, log=True), "epochs": Range(1, 10**4, log=True)},
    wrong=_fifth_of_the_wave,
    name="bound above the wave",
)(_slack_of_the_wave)

row.inequality(
    {
        "epochs": Range(1, 12, log=True),
        "n": Range(1, 12, log=True),
        "share": Range(0.01, 1.99, log=True),
        "mu": Range(0, 0.95),
        "rate": Range(0, 0.95),
        "spread": Range(0, 4),
        "curvature": Range(0.01, 1),
        "weight": Range(0.01, 1),
    },
    wrong=runs.halved_slack,
    name="bound above the exact moments on quadratics with noise and momentum, held masks",
)(runs.slack)


@row.equal(
    *(
        (epochs, n, share * runs.longest_step(mu), mu, sigma, dim, size)
        for epochs, n, dim, size in (
            (300, 40, 1_000_000, 1024),
            (1000, 5, 1_000_000, 1024),
            (50, 1000, 1_000_000, 1024),
            (2000, 1, 1_000_000, 1024),
            (2, 3, 10, 4),
            (5, 1, 10, 4),
            (200, 3, 10, 40),
        )
        for share, mu in ((0.3, 0.9), (0.02, 0.0))
        for sigma in (0.0, 1.5)
    ),
    tolerance=1e-9,
)
def _(epochs: int, n: int, gamma: float, mu: float, sigma: float, dim: int, size: int) -> Sides:
    """masks that are tightened, deviations and noise, small and at the sizes of the papers, from the root of item 1"""
    G, gap, deviation = 1.5, 2.3, 3.0
    gamma /= G
    rates = np.linspace(0.0, 0.9, epochs)
    found = convergence.momentum_mask_bound(
        objective_gap=gap,
        learning_rate=gamma,
        momentum=mu,
        epochs=epochs,
        steps_per_epoch=n,
        smoothness=G,
        deviation_norm=deviation,
        sum_noise_std=sigma,
        dim=dim,
        batch_size=size,
        drop_rate=rates,
    )

    def stated() -> float:
        def kick(share: float) -> float:
            return (share if n == 1 else 1.0) * deviation**2 / size + share * dim * (sigma / size) ** 2

        steps, x = n * epochs, math.fsum(1 - rate for rate in rates) / epochs
        g, k, V = gamma * G / (1 - mu), gamma * G * mu / (1 - mu) ** 2, kick(x)
        N, R = (1 - mu) * V, 2 * gap * (1 - mu) / (gamma * steps) + g * V
        K = R
        for _ in range(2000):  # the root as a fixed point: it is attracting for these steps
            K = (R + 2 * k * math.sqrt(K * (K + N))) / (2 - g)
        drift = n * g * math.sqrt((1 - 1 / n) / 2) * (math.sqrt(K) + math.sqrt(V / n)) + k * math.sqrt(K + N)
        run = (math.sqrt(K) + (drift if n > 1 else 0.0)) ** 2 / x
        height = 2 * G * gap + g**2 * (1 + mu) * (steps - 1) * kick(1.0)
        return min(run, (math.sqrt(height) + k * math.sqrt((1 - mu) * (steps * K + kick(1.0)))) ** 2)

    return found, stated, 1.001 * found


@row.certificate(
    (0.2, 1.0, 0.0, 0.5, 2, 2),
    (1.0, 1.0, 0.0, 0.5, 2, 2),
    problem=_worst_case.momentum_run,
    looseness=0.8,
    wrong=lambda gamma, G, mu, rate, epochs, n: (
        convergence.held_mask_bound(
            objective_gap=1.0, learning_rate=gamma, epochs=epochs * n, steps_per_epoch=n, smoothness=G, drop_rate=rate
        ).value
    ),
)
def _(gamma: float, G: float, mu: float, rate: float, epochs: int, n: int) -> float:
    """above the worst case of two epochs of two steps; as if every step drew a mask and held it is below"""
    return runs.bound(gamma, G, mu, rate, epochs, n)


def _within_two(tau: float, n: float, x: float, noise: float, most: float = 2.0) -> float:
    """Item 2 in a long run, gamma G <= 1 / 2, no momentum: twice the bound of fresh masks over the bound, less 1."""
    n, epochs = round(n), 10**7
    gamma = min(tau / n, 0.5)
    gap = 1e4  # so that neither part of the bound is lost
    held = runs.bound(gamma, 1.0, 0.0, 1 - x, epochs, n, gap, noise)
    fresh = (2 * gap / (gamma * epochs * n) + gamma * x * noise) / ((2 - gamma) * x)
    return most * fresh / held - 1


def _within_less(**point: float) -> float:
    return _within_two(**point, most=1.3)


row.inequality(
    {"tau": Range(0.001, 1 / 9, log=True), "n": Range(1, 10**4, log=True), "x": Range(0.05, 1), "noise": Range(0, 4)},
    wrong=_within_less,
    name="without momentum at most twice the bound of fresh masks for tau up to 1/9",
)(_within_two)
