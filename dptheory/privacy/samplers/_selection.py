"""The cost of choosing the best of several runs."""

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory.privacy._bounds import DELTA, MAX_STEPS, NOISE, RATE
from dptheory.privacy._composition import delta_bounds
from dptheory.privacy.methods.renyi._conversion import conversion, epsilon_from_rdp
from dptheory.privacy.methods.renyi._curves import ORDERS, subsampled_gaussian_rdp
from dptheory.privacy.methods.renyi._sampled import RELATIVE_ERROR

Array = NDArray[np.float64]

RUNS_LAWS = ("geometric", "logarithmic", "poisson")
MAX_RUNS = 1e6
_WHOLE = np.array([*ORDERS, 512, 1024], dtype=np.float64)
_FIRST = np.unique(np.concatenate([_WHOLE, 1.0 + np.geomspace(1e-6, 1e6, 85)]))
_ROUNDS, _BETWEEN = 5, 8
_LEAST_RATE = 1e-4  # below, the accountant can take ten seconds for one delta


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

    Every pair of orders gives a bound. Whole orders and a row of real ones from 1 + 1e-6 to 10^6 are tried, then more about the
    best pair. For Poisson's law delta(.) is what the Renyi curve proves, and for rates from 1e-4 what :func:`delta_bounds` does,
    which is less. With many runs its best a is next to 1: there log(1 + 1/(a - 1)) is large.

    A fixed number of runs is not covered: choosing among k of them openly costs up to k times as much.

    Args:
        noise_multiplier: standard deviation of the noise over the clipping norm, in [0.05, 1000].
        sampling_rate: in [1e-8, 1].
        steps: of one run, 1 to 10^6.
        delta: in [1e-30, 0.99].
        mean_runs: EK, in [1, 10^6].
        runs_law: "geometric", "logarithmic" or "poisson".

    Returns:
        The upper bound, by Renyi privacy at real orders; inf where none of them gives a number.

    Source: Papernot, Steinke, "Hyperparameter tuning with Renyi differential privacy" (2022), Theorems 2 and 6, cited; of the
        five papers none accounts for its choices.

    Example: the best of ten runs on average costs not quite twice one run.
        >>> from dptheory.privacy import rdp_epsilon
        >>> from dptheory.privacy.samplers import selection_epsilon_upper_bound
        >>> run = {"noise_multiplier": 1.0, "sampling_rate": 0.02, "steps": 100, "delta": 1e-5}
        >>> round(rdp_epsilon(**run), 2), round(selection_epsilon_upper_bound(**run, mean_runs=10), 2)
        (1.84, 3.44)
    """
    sigma = _validate.real("noise_multiplier", noise_multiplier, *NOISE)
    q = _validate.real("sampling_rate", sampling_rate, *RATE)
    steps = _validate.integer("steps", steps, 1, MAX_STEPS)
    delta = _validate.real("delta", delta, *DELTA)
    mean = _validate.real("mean_runs", mean_runs, 1.0, MAX_RUNS)
    law = _validate.choice("runs_law", runs_law, RUNS_LAWS)

    def renyi(orders: Array) -> Array:
        found = subsampled_gaussian_rdp(orders=orders, sampling_rate=q, noise_multiplier=sigma)
        return np.asarray(steps * (1.0 + RELATIVE_ERROR) * found)

    orders, curve = _FIRST, renyi(_FIRST)
    for _ in range(_ROUNDS):
        a, b = _best_pair(orders, _selected(orders, curve, mean, law), delta)
        more = np.setdiff1d(np.concatenate([_about(orders, a), _about(orders, b)]), orders)
        order = np.argsort(np.concatenate([orders, more]))
        orders, curve = (np.concatenate(both)[order] for both in ((orders, more), (curve, renyi(more))))
    found = epsilon_from_rdp(orders=orders, rdp=_selected(orders, curve, mean, law)[0], delta=delta)
    if law != "poisson" or q < _LEAST_RATE:
        return found

    def by_accountant(log_excess: float) -> float:
        excess = math.exp(log_excess)
        order = np.array([1.0 + excess])
        spent = delta_bounds(noise_multiplier=sigma, sampling_rate=q, steps=steps, epsilon=math.log1p(1.0 / excess))
        rdp = renyi(order) + mean * spent.upper + math.log(mean) / excess
        return epsilon_from_rdp(orders=order, rdp=rdp, delta=delta)

    start = math.log(float(orders[_best_pair(orders, _selected(orders, curve, mean, law), delta)[0]]) - 1.0)
    best = scipy.optimize.minimize_scalar(
        by_accountant, bounds=(start - 1.0, start + 3.0), method="bounded", options={"xatol": 1e-3}
    )
    return min(found, float(best.fun))


def _selected(orders: Array, curve: Array, mean: float, law: str) -> tuple[Array, NDArray[np.intp]]:
    """R' at every order a, and the number of the order b that gives it."""
    extra: Array
    if law == "poisson":
        logs = _log_deltas(orders, curve)
        best = logs.argmin(axis=1)
        extra = mean * np.exp(np.minimum(logs.min(axis=1), 0.0))
    else:
        shape = 1.0 if law == "geometric" else 0.0
        ways = (1 - 1 / orders) * curve + _log_inverse(mean, law) / orders
        best = np.full(orders.size, ways.argmin())
        extra = np.full(orders.size, (1 + shape) * ways.min())
    return curve + extra + math.log(mean) / (orders - 1), best


def _best_pair(orders: Array, selected: tuple[Array, NDArray[np.intp]], delta: float) -> tuple[int, int]:
    rdp, others = selected
    best = int(np.argmin(rdp + conversion(order=orders, delta=delta)))
    return best, int(others[best])


def _about(orders: Array, place: int) -> Array:
    """Orders between the neighbours of one, evenly in log(order - 1)."""
    low, high = orders[max(place - 1, 0)], orders[min(place + 1, orders.size - 1)]
    return np.asarray(1.0 + np.geomspace(low - 1.0, high - 1.0, _BETWEEN + 2)[1:-1])


def _log_inverse(mean: float, law: str) -> float:
    """log(1 / g) for the mean number of runs."""
    if law == "geometric":
        return math.log(mean)
    low, high = 0.0, 40.0
    while high - low > 1e-12 * high:  # expm1(x) / x rises
        middle = (low + high) / 2
        low, high = (middle, high) if math.expm1(middle) < mean * middle else (low, middle)
    return high


def _log_deltas(orders: Array, curve: Array) -> Array:
    """log of the delta that each order b proves at log(1 + 1/(a - 1)), a row for each order a."""
    excess = orders - 1
    epsilons = np.log1p(1 / excess)
    return np.asarray(excess * (curve - epsilons[:, None]) + excess * np.log(excess) - orders * np.log(orders))
