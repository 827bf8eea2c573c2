"""What tuning on the private records would cost instead: the best of a random number of private runs, within the same budget."""

import math
from dataclasses import dataclass

from scipy.optimize import brentq

from dptheory.privacy.samplers import selection_epsilon_upper_bound
from dptheory.training.planning._point import Range

MEAN_RUNS = 5
_MOST_NOISE = 1000.0
_PRECISION = 1e-3


@dataclass(frozen=True, kw_only=True)
class PrivateTuning:
    """Random stopping: a geometric number of private runs with settings drawn without looking at the data, the best published.

    Attributes:
        mean_runs: expected number of runs.
        noise_multiplier: that each of them needs for the budget.
        gain: of the metric over the choice, a range of 95 % from pilots: what the larger noise alone changes, at the very setting
            that was chosen. How good a setting such a search finds comes on top, and so does the price of scoring the runs, so
            that this is more than it can give.
    """

    mean_runs: float
    noise_multiplier: float
    gain: Range


def noise_of_tuned_runs(
    *,
    epsilon: float,
    delta: float,
    sampling_rate: float,
    steps: int,
    noise_multiplier: float,
    mean_runs: float = MEAN_RUNS,
) -> float | None:
    """The noise multiplier that keeps the budget for the best of ``mean_runs`` runs on average; None above 1000.

    Args:
        epsilon: of the budget.
        delta: of the budget.
        sampling_rate: of each run.
        steps: of each run.
        noise_multiplier: that one run alone needs; the search starts there.
        mean_runs: expected number of runs.
    """

    def excess(log_noise: float) -> float:
        spent = selection_epsilon_upper_bound(
            noise_multiplier=math.exp(log_noise),
            sampling_rate=sampling_rate,
            steps=steps,
            delta=delta,
            mean_runs=mean_runs,
        )
        return math.log(min(spent, 1e6) / epsilon)

    low = high = math.log(noise_multiplier)
    while excess(high) > 0:
        low, high = high, high + 0.5
        if high > math.log(_MOST_NOISE):
            return None
    if low == high:
        return noise_multiplier
    return math.exp(float(brentq(excess, low, high, xtol=_PRECISION)) + _PRECISION)
