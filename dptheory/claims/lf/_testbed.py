"""Small private training runs whose expectations are exact: every batch and every sign of the noise in turn.

f(theta) is the mean over the examples x of the sum over coordinates of loss(theta_j - x_j), with the loss u^2 / 2 or
log cosh u; both are 1-smooth. Batches are drawn with replacement, or as Poisson batches divided by their expected size. Noise
+-tau on every coordinate that is trained: the bounds use its mean and covariance alone.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dptheory import convergence, freezing
from dptheory._arrays import Array, ArrayLike
from dptheory.checks import Range
from dptheory.claims.rs._runs import clip, spelled

Rows = tuple[tuple[float, ...], ...]


def log_cosh(u: Array) -> Array:
    """log cosh u, without overflow."""
    return np.asarray(np.abs(u) + np.log1p(np.exp(-2 * np.abs(u))) - np.log(2))


LOSSES: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "square": (lambda u: u**2 / 2, lambda u: u),
    "log cosh": (log_cosh, np.tanh),
}
"""Loss of a coordinate and its derivative."""


@dataclass(frozen=True)
class Run:
    """A run of DP-SGD-LF: how many of the first coordinates are ``frozen`` at each step; Poisson batches have the rate B / N."""

    loss: str
    examples: Rows
    start: tuple[float, ...]
    learning_rates: tuple[float, ...]
    frozen: tuple[int, ...]
    clip: float
    noise_multiplier: float
    batch_size: int
    poisson: bool = False

    def __str__(self) -> str:
        start, rates = (", ".join(f"{value:g}" for value in row) for row in (self.start, self.learning_rates))
        return f"theta_1 = ({start}), eta = ({rates}), C = {self.clip:g}, sigma = {self.noise_multiplier:g}, B = {self.batch_size}"

    @property
    def tau(self) -> float:
        """Standard deviation of an entry of the noise."""
        return self.noise_multiplier * self.clip / self.batch_size

    @property
    def rate(self) -> float | None:
        """Sampling rate of Poisson batches."""
        return self.batch_size / len(self.examples) if self.poisson else None

    def batches(self) -> tuple[Array, Array]:
        """How often each example is in each batch, shape (batches, examples), and the chances of the batches."""
        n = len(self.examples)
        if self.poisson:
            counts = np.array(list(itertools.product((0.0, 1.0), repeat=n)))
            drawn = counts.sum(axis=1)
            q = self.batch_size / n
            return counts, q**drawn * (1 - q) ** (n - drawn)
        draws = list(itertools.product(range(n), repeat=self.batch_size))
        counts = np.array([np.bincount(draw, minlength=n) for draw in draws], dtype=np.float64)
        return counts, np.full(len(draws), 1 / len(draws))

    @property
    def dims(self) -> tuple[int, ...]:
        """Number of coordinates trained at each step."""
        return tuple(len(self.start) - m for m in self.frozen)


@dataclass(frozen=True)
class Expectations:
    """Exact expectations, one entry per step t = 1..T; the first three have t = 1..T + 1."""

    objective: Array
    whole: Array  # E|grad f|^2
    alignment: Array  # E<grad f, s^B>; the last one with what is trained in the last step
    trained: Array  # E|P_t grad f|^2, the coordinates that are trained
    moment: Array  # E|s^B|^2
    private_moment: Array

    @property
    def bias(self) -> Array:
        """E<grad f, b> with b = E s^B - P grad f."""
        return self.alignment[:-1] - self.trained

    @property
    def decrease(self) -> float:
        """f(theta_1) - E f(theta_{T+1})."""
        return float(self.objective[0] - self.objective[-1])


@lru_cache(maxsize=1024)
def expectations(run: Run) -> Expectations:
    """Walk through every outcome of the run."""
    loss, slope = LOSSES[run.loss]
    examples = np.array(run.examples)
    counts, chances = run.batches()
    nodes, law = np.array([run.start]), np.ones(1)
    at: list[tuple[float, float, float]] = []
    of_step: list[tuple[float, float, float]] = []
    for eta, frozen in zip((*run.learning_rates, None), (*run.frozen, run.frozen[-1]), strict=True):
        gradients = slope(nodes[:, None, :] - examples)  # node, example, coordinate
        true = gradients.mean(axis=1)
        trained = gradients.copy()
        trained[..., :frozen] = 0.0
        signals = np.einsum("be,nec->nbc", counts, clip(trained, run.clip)) / run.batch_size
        value = float(law @ loss(nodes[:, None, :] - examples).sum(axis=2).mean(axis=1))
        alignment = float(law @ (signals * true[:, None, :]).sum(axis=2) @ chances)
        at.append((value, float(law @ (true**2).sum(axis=1)), alignment))
        if eta is None:
            break
        noise = np.zeros((2 ** (len(run.start) - frozen), len(run.start)))
        noise[:, frozen:] = list(itertools.product((run.tau, -run.tau), repeat=len(run.start) - frozen))
        private = signals[:, :, None, :] + noise
        trained_square = float(law @ (true[:, frozen:] ** 2).sum(axis=1))
        moment = float(law @ (signals**2).sum(axis=2) @ chances)
        of_step.append((trained_square, moment, float(law @ (private**2).sum(axis=3).mean(axis=2) @ chances)))
        nodes = (nodes[:, None, None, :] - eta * private).reshape(-1, len(run.start))
        law = np.repeat(np.outer(law, chances).ravel() / len(noise), len(noise))
    return Expectations(*np.array(at).T, *np.array(of_step).T)


def mean_trained(run: Run) -> float:
    """Mean of E|P_t grad|^2 weighted with the step sizes: what the bound is about."""
    return float(np.average(expectations(run).trained, weights=run.learning_rates))


def corrected(run: Run) -> float:
    """The corrected bound, fed with the exact expectations of the run."""
    return bound(run).value


def bound(run: Run, dims: ArrayLike | None = None) -> convergence.DescentBound:
    """The corrected bound by its terms; with the noise of as many parameters, or of those that are trained."""
    found = expectations(run)
    known = {"second_moment": found.moment, "bias": found.bias}
    return convergence.layer_freezing_bound(**_arguments(run) | known | ({} if dims is None else {"dim": dims}))


def _arguments(run: Run) -> dict[str, Any]:
    """What the bound is told of a run beside its second moment and bias."""
    found = spelled(decrease=expectations(run).decrease, gamma=run.learning_rates, T=len(run.learning_rates), G=1.0)
    found |= spelled(C=run.clip, sigma=run.noise_multiplier, d=run.dims, B=run.batch_size, q=run.rate)
    return found | {"sampling": "poisson" if run.poisson else "fixed"}


def mean_alignment(run: Run) -> float:
    """Mean of E<grad, s^B> weighted with the step sizes: what the bound without bias is about."""
    return float(np.average(expectations(run).alignment[:-1], weights=run.learning_rates))


def alignment_bound(run: Run) -> float:
    """The bound without bias and without the run's own second moment."""
    return convergence.layer_freezing_bound(**_arguments(run)).value


def private_moment(run: Run) -> float:
    """E|s^P|^2 of the first step by the calculator."""
    noise = spelled(C=run.clip, sigma=run.noise_multiplier, d=run.dims[0], B=run.batch_size)
    return freezing.private_second_moment(second_moment=float(expectations(run).moment[0]), **noise)


_TWO: Rows = ((1.0, -0.5), (-0.6, 2.0))
_THREE: Rows = ((0.3, 1.0, -0.2), (2.0, -0.4, 0.7), (-1.0, 0.1, 0.5))

RUNS = (
    # unclipped, clipped, batches of two, frozen in the middle of the run, no noise, one coordinate
    Run("square", _TWO, (0.8, -0.3), (0.3, 0.2), (0, 0), 50.0, 0.01, 1),
    Run("square", _TWO, (0.8, -0.3), (0.3, 0.2, 0.5), (0, 0, 0), 0.7, 0.6, 1),
    Run("square", _TWO, (0.8, -0.3), (0.4, 0.4), (0, 0), 1.0, 1.5, 2),
    Run("square", _THREE, (0.5, -0.5, 1.0), (0.3, 0.6), (0, 2), 0.8, 1.0, 1),
    Run("square", _THREE, (0.5, -0.5, 1.0), (0.5, 0.25, 0.125), (1, 1, 1), 0.8, 0.0, 1),
    Run("square", ((1.0,), (-3.0,)), (2.0,), (0.2, 0.1), (0, 0), 0.5, 2.0, 2),
    # Poisson batches, clipped and frozen
    Run("square", _THREE, (0.5, -0.5, 1.0), (0.3, 0.6), (0, 1), 0.8, 1.0, 2, True),
    Run("square", _TWO, (3.0, -4.0), (0.5, 0.25), (0, 0), 0.5, 0.3, 1, True),
)
"""Runs on quadratics with the Hessian I, where the corrected bound is an equality."""


def random_run(
    seed: float,
    learning_rate: float,
    ratio: float,
    clip: float,
    noise_multiplier: float,
    spread: float,
    frozen: int,
    poisson: float = 0.0,
) -> Run:
    """A run of two steps on log cosh losses, two examples in the plane; ``frozen`` coordinates frozen at the second step.

    ``poisson`` is 1 for Poisson batches, 0 for fixed ones.
    """
    draws = spread * np.random.default_rng(round(seed)).standard_normal((3, 2))
    examples: Rows = tuple(tuple(row) for row in draws[:2].tolist())
    rates = (learning_rate, ratio * learning_rate)
    return Run(
        "log cosh", examples, tuple(draws[2].tolist()), rates, (0, frozen), clip, noise_multiplier, 1, poisson == 1
    )


BOX = {
    "seed": Range(0, 50, integer=True),
    "learning_rate": Range(0.01, 2, log=True),
    "ratio": Range(0.2, 5, log=True),
    "clip": Range(0.05, 5, log=True),
    "noise_multiplier": Range(0, 3),
    "spread": Range(0.1, 5, log=True),
}
"""Where :func:`random_run` is searched."""


def relative_slack(value: float, run: Run) -> float:
    """Slack over the size of the terms."""
    return (value - mean_trained(run)) / size(run)


def size(run: Run) -> float:
    """Sum of the sizes of the bound's terms."""
    terms = bound(run)
    return abs(terms.optimization) + terms.clipping + terms.noise + abs(terms.bias)


def squares(dim: int, start: Fraction, eta: Fraction, tau: Fraction, steps: int) -> list[Fraction]:
    """E|theta_t|^2 of DP-SGD without clipping on |theta|^2 / 2, where grad f = s^B = theta, from |theta|^2 = start."""
    values = [start]
    for _ in range(steps):
        values.append((1 - eta) ** 2 * values[-1] + eta**2 * dim * tau**2)
    return values
