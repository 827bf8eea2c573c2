"""One sampled step, and which steps a record took part in: bounds by a single integral or sum."""

import math
from collections.abc import Callable
from typing import TypeGuard

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory.privacy._bounds import CHANCE, MAX_STEPS, NOISE, ONE, RATE, Direction
from dptheory.privacy._parts import Parts, Step, Steps, chance
from dptheory.privacy.methods._method import Bracket
from dptheory.privacy.methods._sampled_loss import DELTA_ERROR, Loss
from dptheory.privacy.methods.gaussian._gaussian import gaussian_epsilon

_LEAST = 5e-324
_LEAST_COUNTED = 1e-3  # noise: with less the sums overflow
_ROUNDING = 1e-8  # relative, added to every bound
_FAR = 316.0  # standard deviations beyond which a normal density counts as that at it; 1e5 in the square
_DROPPED = 1e-40
_ROOT = 2e-12  # relative: where the search for one step's epsilon ends


class OneStep:
    """A single sampled step: delta is one integral over its output."""

    name = ONE

    def serves(self, parts: Parts, direction: Direction) -> bool:
        return len(parts) == 1 and _sampled_in_range(parts[0]) and parts[0].count == 1

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        low, high = _loss(steps[0], direction).delta_bounds(epsilon)
        return Bracket(low, min(1.0, high + _LEAST), True)

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        return Bracket(*one_step_epsilon(_loss(steps[0], direction), delta), True)


class Participations:
    """Steps that also say when the record took part, which they never do: an upper bound, close where little is hidden.

    Of steps of several kinds: that it took part at all.
    """

    name = CHANCE

    def serves(self, parts: Parts, direction: Direction) -> bool:
        return all(isinstance(part, Step) for part in parts)

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        high = chance(steps)
        if _counted(steps):
            high = min(
                high, participation_delta(_shift(steps, direction), steps[0].sampling_rate, steps[0].count, epsilon)
            )
        return Bracket(0.0, high)

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        if chance(steps) <= delta:
            return Bracket(0.0, 0.0, True)
        if not _counted(steps):
            return Bracket(0.0, math.inf)
        step = steps[0]
        return Bracket(0.0, participation_epsilon(_shift(steps, direction), step.sampling_rate, step.count, delta))


def _sampled_in_range(part: object) -> TypeGuard[Step]:
    return (
        isinstance(part, Step) and NOISE[0] <= part.noise_multiplier <= NOISE[1] and RATE[0] <= part.sampling_rate < 1.0
    )


def _counted(steps: Steps) -> bool:
    """Whether the number of participations has a law that is quick to sum up."""
    return len(steps) == 1 and steps[0].count <= MAX_STEPS and steps[0].noise_multiplier >= _LEAST_COUNTED


def _shift(steps: Steps, direction: Direction) -> float:
    return (2.0 if direction == "replace" else 1.0) / steps[0].noise_multiplier


def _loss(step: Step, direction: Direction) -> Loss:
    return Loss(direction, step.noise_multiplier, step.sampling_rate)


def unsampled_epsilon(shift: float, steps: int, delta: float) -> float:
    """Epsilon of ``steps`` Gaussian mechanisms of mu = ``shift``: subsampling only helps."""
    return gaussian_epsilon(shift * math.sqrt(steps), delta) * (1 + _ROUNDING)


def one_step_epsilon(loss: Loss, delta: float) -> tuple[float, float]:
    """Lower and upper bound of epsilon of a single step, from delta(epsilon) as an integral."""

    def excess(epsilon: float, error: float) -> float:
        return math.log(max(loss.delta(epsilon), 1e-300)) - math.log(delta) + error

    def root(error: float) -> float:
        if excess(0.0, error) <= 0:
            return 0.0
        high = 1e-12
        while excess(high, error) > 0:
            high *= 4.0
        return float(scipy.optimize.brentq(excess, 0.0, high, args=(error,), xtol=1e-13 * high, rtol=1e-12))

    # Near delta(0) a small error of delta is a large one of epsilon.
    low, high = root(-DELTA_ERROR) * (1 - _ROOT), root(DELTA_ERROR) * (1 + _ROOT)
    return max(0.0, low - loss.rounding(low)), high + loss.rounding(high)


def participation_epsilon(shift: float, sampling_rate: float, steps: int, delta: float) -> float:
    r"""Epsilon of the mechanism that also says in which steps the example took part; releasing more never helps.

    .. math:: \delta(\epsilon) \le \sum_k \binom{T}{k} q^k (1-q)^{T-k}\, \delta_{\mathrm{Gauss}}(\sqrt k\,\mu, \epsilon)

    Close where single steps give themselves away (small noise, few participations). Never above
    :func:`unsampled_epsilon`.
    """
    highest = unsampled_epsilon(shift, steps, delta)
    if highest == 0.0 or sampling_rate == 1.0:
        return highest
    counts, weights, rest = _participations(sampling_rate, steps, delta * 1e-6)
    mu = shift * np.sqrt(counts)

    def excess(epsilon: float) -> float:
        total = float(weights @ _gaussian_deltas(mu, epsilon)) * (1 + _ROUNDING) + rest
        return math.log(max(total, 1e-300)) - math.log(delta)

    if excess(0.0) <= 0:
        return 0.0
    if excess(highest) >= 0:
        return highest
    root = float(scipy.optimize.brentq(excess, 0.0, highest, xtol=1e-12 * highest, rtol=1e-10))
    return min(highest, root * (1 + _ROUNDING) + 2e-12 * highest)


def participation_delta(shift: float, sampling_rate: float, steps: int, epsilon: float) -> float:
    """delta(epsilon) of the same mechanism."""
    counts, weights, rest = _participations(sampling_rate, steps, _DROPPED)
    return float(weights @ _gaussian_deltas(shift * np.sqrt(counts), epsilon)) * (1 + _ROUNDING) + rest


def _participations(rate: float, steps: int, dropped: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Numbers of participations k >= 1, their probabilities, and a bound on the probability of those left out."""
    high = _quantile(lambda k: float(scipy.special.bdtrc(k, steps, rate)), steps, dropped)
    low = steps - _quantile(lambda k: float(scipy.special.bdtr(steps - k - 1, steps, rate)), steps, dropped)
    counts = np.arange(max(1, low), high + 1, dtype=np.float64)
    if counts.size == 0:
        return np.ones(1), np.zeros(1), dropped
    log_weights = (
        scipy.special.gammaln(steps + 1) - scipy.special.gammaln(counts + 1) - scipy.special.gammaln(steps - counts + 1)
    )
    log_weights += counts * math.log(rate) + (steps - counts) * math.log1p(-rate)
    return counts, np.exp(log_weights), 2 * dropped


def _quantile(tail: Callable[[int], float], steps: int, level: float) -> int:
    """The least k in 0..steps with tail(k) <= level, for a falling tail."""
    low, high = 0, steps
    while low < high:
        middle = (low + high) // 2
        if tail(middle) <= level:
            high = middle
        else:
            low = middle + 1
    return high


def _gaussian_deltas(mu: NDArray[np.float64], epsilon: float) -> NDArray[np.float64]:
    """delta of Gaussian mechanisms, for many mu > 0 at once (gaussian_delta takes one)."""
    x = epsilon / mu - mu / 2
    density = np.exp(-np.square(np.clip(x, -_FAR, _FAR)) / 2) / math.sqrt(2 * math.pi)
    tail = np.where(x < 0, scipy.special.ndtr(-x), density * _mills(np.maximum(x, 0.0)))
    return np.maximum(tail - density * _mills(x + mu), 0.0)


def _mills(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(math.sqrt(math.pi / 2) * scipy.special.erfcx(x / math.sqrt(2)))
