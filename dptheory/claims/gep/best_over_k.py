import math

import numpy as np

from dptheory import privacy
from dptheory.claims._row import Sides, Source, Verdict, new_row

row = new_row(
    id="gep.best_over_k",
    source=Source("gep", "section 4, results, Table 1"),
    verdict=Verdict.CONDITIONAL,
    calculators=(privacy.least_noise_multiplier,),
)

_RATE, _STEPS, _DELTA = 0.02, 10_000, 1e-5
"""CIFAR-10 at epsilon = 8: batches of 1,000 of 50,000 records, 200 epochs."""


def _mean_of_largest(count: int) -> float:
    """E max of standard normal numbers: 0, 1 / sqrt pi, 3 / (2 sqrt pi), 3 / sqrt pi (1/2 + asin(1/3) / pi) for one to four."""
    return (
        0.0,
        1 / math.sqrt(math.pi),
        1.5 / math.sqrt(math.pi),
        3 / math.sqrt(math.pi) * (0.5 + math.asin(1 / 3) / math.pi),
    )[count - 1]


def _by_midpoints(count: int) -> float:
    """int 1 - F^n over x > 0 less int F^n over x < 0, on a grid of midpoints."""
    edges = np.linspace(-9.0, 9.0, 36_001)
    middle = (edges[1:] + edges[:-1]) / 2
    below = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in middle]) ** count
    step = edges[1] - edges[0]
    return float(step * (np.sum(1 - below[middle > 0]) - np.sum(below[middle < 0])))


@row.equal((2,), (3,), (4,), tolerance=1e-6)
def _(count: int) -> Sides:
    """the best of equal ones is above their mean by so many deviations"""
    return _mean_of_largest(count), lambda: _by_midpoints(count), _mean_of_largest(count % 4 + 1)


def _noise() -> float:
    return privacy.least_noise_multiplier(epsilon=8.0, delta=_DELTA, sampling_rate=_RATE, steps=_STEPS)


def _epsilon(runs: int) -> float:
    """Of so many runs, one part of a composition each, at the noise that one of them needs for epsilon = 8."""
    part = privacy.Step(noise_multiplier=_noise(), sampling_rate=_RATE, count=_STEPS)
    return float(privacy.Composition((part,) * runs).epsilon(_DELTA).upper)


@row.equal((1, 8.0), (4, 18.8913), tolerance=1e-5)
def _(runs: int, epsilon: float) -> Sides:
    """epsilon of all runs among which the best is chosen"""
    return epsilon, lambda: _epsilon(runs), 8.0 * runs  # wrong: basic composition
