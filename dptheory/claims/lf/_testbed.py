"""Small private training runs whose expectations are exact: every batch and every sign of the noise in turn.

f(theta) is the mean over the examples x of the sum over coordinates of loss(theta_j - x_j), with the loss u^2 / 2 or
log cosh u; both are 1-smooth. Batches are drawn with replacement. Noise +-tau on every coordinate that is trained: the bounds
use its mean and covariance alone.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dptheory import clipping, convergence, freezing_bound

Array = NDArray[np.float64]
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
    """A run of DP-SGD-LF.

    Attributes:
        loss: a key of ``LOSSES``.
        examples: the data, one row each.
        start: theta_1.
        learning_rates: eta_1..eta_T.
        frozen: how many of the first coordinates are frozen at each step.
        clip: C.
        noise_multiplier: sigma.
        batch_size: B.
    """

    loss: str
    examples: Rows
    start: tuple[float, ...]
    learning_rates: tuple[float, ...]
    frozen: tuple[int, ...]
    clip: float
    noise_multiplier: float
    batch_size: int

    def __str__(self) -> str:
        start, rates = (", ".join(f"{value:g}" for value in row) for row in (self.start, self.learning_rates))
        return f"theta_1 = ({start}), eta = ({rates}), C = {self.clip:g}, sigma = {self.noise_multiplier:g}, B = {self.batch_size}"

    @property
    def tau(self) -> float:
        """Standard deviation of an entry of the noise."""
        return self.noise_multiplier * self.clip / self.batch_size

    @property
    def dims(self) -> tuple[int, ...]:
        """Number of coordinates trained at each step."""
        return tuple(len(self.start) - m for m in self.frozen)


@dataclass(frozen=True)
class Expectations:
    """Exact expectations, one entry a step t = 1..T; ``objective`` and ``whole`` have t = 1..T + 1.

    Attributes:
        objective: E f(theta_t).
        whole: E|grad f(theta_t)|^2.
        trained: E|P_t grad f(theta_t)|^2, the coordinates that are trained.
        alignment: E<grad f, s^B>.
        moment: E|s^B|^2.
        private_moment: E|s^P|^2.
    """

    objective: Array
    whole: Array
    trained: Array
    alignment: Array
    moment: Array
    private_moment: Array

    @property
    def bias(self) -> Array:
        """E<grad f, b> with b = E s^B - P grad f."""
        return self.alignment - self.trained

    @property
    def decrease(self) -> float:
        """f(theta_1) - E f(theta_{T+1})."""
        return float(self.objective[0] - self.objective[-1])


@lru_cache(maxsize=256)
def expectations(run: Run) -> Expectations:
    """Walk through every outcome of the run."""
    examples, (loss, slope) = np.array(run.examples), LOSSES[run.loss]
    nodes = np.array([run.start])
    rows: list[tuple[float, ...]] = []
    for eta, frozen in zip(run.learning_rates, run.frozen, strict=True):
        gradients = slope(nodes[:, None, :] - examples)  # node, example, coordinate
        true = gradients.mean(axis=1)
        trained = gradients.copy()
        trained[..., :frozen] = 0.0
        clipped = clipping.clip(trained, run.clip)
        batches = np.array(list(itertools.product(range(len(examples)), repeat=run.batch_size)))
        signals = clipped[:, batches, :].mean(axis=2)  # node, batch, coordinate
        noise = np.zeros((2 ** (len(run.start) - frozen), len(run.start)))
        noise[:, frozen:] = list(itertools.product((run.tau, -run.tau), repeat=len(run.start) - frozen))
        private = signals[:, :, None, :] + noise
        rows.append(
            (
                float(loss(nodes[:, None, :] - examples).sum(axis=2).mean()),
                float((true**2).sum(axis=1).mean()),
                float((true[:, frozen:] ** 2).sum(axis=1).mean()),
                float((signals * true[:, None, :]).sum(axis=2).mean()),
                float((signals**2).sum(axis=2).mean()),
                float((private**2).sum(axis=3).mean()),
            )
        )
        nodes = (nodes[:, None, None, :] - eta * private).reshape(-1, len(run.start))
    last = slope(nodes[:, None, :] - examples).mean(axis=1)
    columns = np.array(rows).T
    return Expectations(
        np.append(columns[0], loss(nodes[:, None, :] - examples).sum(axis=2).mean()),
        np.append(columns[1], (last**2).sum(axis=1).mean()),
        *columns[2:],
    )


def mean_trained(run: Run) -> float:
    """Mean of E|P_t grad|^2 weighted with the step sizes: what the bound is about."""
    return float(np.average(expectations(run).trained, weights=run.learning_rates))


def corrected(run: Run) -> float:
    """The corrected bound, fed with the exact expectations of the run."""
    return bound(run).value


def bound(run: Run) -> convergence.DescentBound:
    """The corrected bound by its terms."""
    found = expectations(run)
    return convergence.layer_freezing_bound(
        found.decrease,
        run.learning_rates,
        len(run.learning_rates),
        1.0,
        run.clip,
        run.noise_multiplier,
        run.dims,
        run.batch_size,
        found.moment,
        found.bias,
    )


def private_moment(run: Run) -> float:
    """E|s^P|^2 of the first step by the calculator."""
    moment = float(expectations(run).moment[0])
    return freezing_bound.private_second_moment(moment, run.clip, run.noise_multiplier, run.dims[0], run.batch_size)


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
)
"""Runs on quadratics with the Hessian I, where the corrected bound is an equality."""


def random_run(
    seed: float, learning_rate: float, ratio: float, clip: float, noise_multiplier: float, spread: float, frozen: int
) -> Run:
    """A run of two steps on log cosh losses, two examples in the plane; ``frozen`` coordinates frozen at the second step."""
    draws = spread * np.random.default_rng(round(seed)).standard_normal((3, 2))
    examples: Rows = tuple(tuple(row) for row in draws[:2].tolist())
    rates = (learning_rate, ratio * learning_rate)
    return Run("log cosh", examples, tuple(draws[2].tolist()), rates, (0, frozen), clip, noise_multiplier, 1)
