"""The cost of choosing the best of several runs."""

import math

import numpy as np
from numpy.typing import NDArray

from dptheory import _validate
from dptheory.privacy._brackets import DELTA, MAX_STEPS, NOISE, RATE
from dptheory.privacy._joint_curves import ORDERS, subsampled_gaussian_rdp
from dptheory.privacy._renyi import epsilon_from_rdp

Array = NDArray[np.float64]

RUNS_LAWS = ("geometric", "logarithmic", "poisson")
MAX_RUNS = 1e6
_ORDERS = np.array([*ORDERS, *(2**power for power in range(9, 11))], dtype=np.float64)


def selection_epsilon_upper_bound(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    steps: int,
    delta: float,
    mean_runs: float,
    runs_law: str = "geometric",
) -> float:
    r"""Epsilon of choosing the best of a random number of runs of DP-SGD, of which only the best is published.

    Each run is Poisson-subsampled with fresh randomness, one record more or less; which settings a run takes is drawn
    independently of the data; how many runs there are is drawn before, and kept secret. With R the Renyi curve of one run,
    K the number of runs, h and g the parameters of its law, for all orders a, b > 1,

    .. math:: R'_a = R_a + (1 + h)\left(\left(1 - \tfrac1b\right) R_b + \tfrac1b \log\tfrac1g\right) + \frac{\log E K}{a - 1},

    h = 1 for the geometric law, g = 1 / EK, and h = 0 for the logarithmic one, EK = (1/g - 1) / log(1/g). For Poisson's law,
    where no run at all is possible, :math:`R'_a = R_a + EK\,\delta(\log(1 + \tfrac1{a-1})) + \frac{\log EK}{a-1}`.

    A fixed number of runs is not covered: choosing among k of them openly costs up to k times as much.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.05, 1000].
        sampling_rate: in [1e-8, 1].
        steps: of one run, 1 to 10^6.
        delta: in [1e-30, 0.99].
        mean_runs: EK, in [1, 10^6].
        runs_law: "geometric", "logarithmic" or "poisson".

    Returns:
        The upper bound, by Renyi privacy at whole orders; inf where none of them gives a number.

    Raises:
        ValueError: an argument outside its range.

    Source: Papernot, Steinke, "Hyperparameter tuning with Renyi differential privacy" (2022), Theorems 2 and 6, cited; of the
        five papers none accounts for its choices.

    Example: the best of ten runs on average costs not quite twice one run.
        >>> from dptheory.privacy import rdp_epsilon, selection_epsilon_upper_bound
        >>> run = {"noise_multiplier": 1.0, "sampling_rate": 0.02, "steps": 100, "delta": 1e-5}
        >>> round(rdp_epsilon(**run), 2), round(selection_epsilon_upper_bound(**run, mean_runs=10), 2)
        (1.84, 3.46)
    """
    sigma = _validate.real("noise_multiplier", noise_multiplier, *NOISE)
    q = _validate.real("sampling_rate", sampling_rate, *RATE)
    steps = _validate.integer("steps", steps, 1, MAX_STEPS)
    delta = _validate.real("delta", delta, *DELTA)
    mean = _validate.real("mean_runs", mean_runs, 1.0, MAX_RUNS)
    law = _validate.choice("runs_law", runs_law, RUNS_LAWS)
    curve = steps * subsampled_gaussian_rdp(orders=_ORDERS.astype(int), sampling_rate=q, noise_multiplier=sigma)
    extra: Array
    if law == "poisson":
        extra = mean * _deltas(curve, np.log1p(1 / (_ORDERS - 1)))
    else:
        shape = 1.0 if law == "geometric" else 0.0
        extra = np.asarray((1 + shape) * np.min((1 - 1 / _ORDERS) * curve + _log_inverse(mean, law) / _ORDERS))
    return epsilon_from_rdp(orders=_ORDERS, rdp=curve + extra + math.log(mean) / (_ORDERS - 1), delta=delta)


def _log_inverse(mean: float, law: str) -> float:
    """log(1 / g) for the mean number of runs."""
    if law == "geometric":
        return math.log(mean)
    low, high = 0.0, 40.0
    while high - low > 1e-12 * high:  # expm1(x) / x rises
        middle = (low + high) / 2
        low, high = (middle, high) if math.expm1(middle) < mean * middle else (low, middle)
    return high


def _deltas(curve: Array, epsilons: Array) -> Array:
    """The least delta that the curve proves at each epsilon."""
    excess = _ORDERS - 1
    logs = excess * (curve - epsilons[:, None]) + _ORDERS * np.log1p(-1 / _ORDERS) - np.log(excess)
    return np.asarray(np.exp(np.minimum(logs.min(axis=1), 0.0)))
