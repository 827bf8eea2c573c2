r"""Epsilon by the numerical composition of prv-accountant, between two bounds that hold.

The loss Y of one step is rounded to a grid of mesh h and shifted so that the mean stays; the T-fold convolution comes from
one FFT. Two things are ours.

*The mean.* It is integrated over the output, where the integrand is smooth, and not over the loss.

*The tilt.* The grid's probabilities :math:`p_i` are composed as :math:`p_i e^{\lambda t_i - K(\lambda)}`, which moves the
bulk of the convolution to where epsilon is; undoing the tilt afterwards is exact. Rounding errors of the FFT are then relative
to delta, so that delta = 1e-15 is resolved after 1e6 steps, and no domain has to reach far beyond epsilon.

What is left is bounded. With probability 1 - eta the rounding moves the sum by at most
:math:`a = h \sqrt{T \log(2/\eta) / 2}` (Hoeffding; never more than T h). Sums that leave the window wrap around: their tilted
probability is at most a Chernoff bound r, and with the FFT's rounding they change delta(epsilon) by at most
:math:`(r + c\,T) e^{-\lambda\epsilon + T K(\lambda)}`. Single losses outside the grid add T times their probability. Hence

.. math:: \hat\delta(\epsilon + a) - \mathrm{slack} \le \delta(\epsilon) \le \hat\delta(\epsilon - a) + \mathrm{slack}.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.fft import next_fast_len
from scipy.optimize import brentq
from scipy.special import logsumexp

from dptheory.accounting._loss import Array, Loss

_SHARE = 1e-3  # of delta, for each of: rounding (eta), losses outside the grid
_WRAP = 1e-7  # tilted probability that may wrap around
_FFT = 1e-14  # rounding of a transform, a step
_QUADRATURE = 1e-13  # relative error of the mean
_MIN_CELLS = 4096
_ALIGNED = 1 - 1e-12  # rounding must not add a cell
MAX_CELLS = 2**21


@dataclass(frozen=True)
class Plan:
    """Tilt, half width of the grid and rough epsilon, found before anything is discretised."""

    tilt: float
    radius: float
    epsilon: float


@functools.lru_cache(maxsize=256)
def prv_bracket(loss: Loss, steps: int, delta: float, width: float, max_cells: int = MAX_CELLS) -> tuple[float, float]:
    """Lower and upper bound of epsilon for ``steps`` steps with this loss, about ``width`` max(1, epsilon) apart.

    They are further apart where ``max_cells`` grid points do not suffice.

    Raises:
        ArithmeticError: no bracket came out.
    """
    plan = plan_for(loss, steps, delta)
    spread = math.sqrt(steps * math.log(2 / (_SHARE * delta)) / 2)
    wanted = min(max(2 * plan.radius * min(spread, steps) / (0.45 * width * max(1.0, plan.epsilon)), _MIN_CELLS), max_cells)
    mesh = plan.radius / (next_fast_len(math.ceil(wanted / 2)) - 1)
    composed = _compose(loss, steps, delta, plan, mesh)
    moved = mesh * min(spread, float(steps)) + composed.mean_error
    upper = composed.upper(delta)
    bracket = (max(0.0, float(composed.lower(delta, upper) - moved)), float(upper + moved))
    if not bracket[0] <= bracket[1] < math.inf:
        raise ArithmeticError(f"prv-accountant gave {bracket}")
    return bracket


def plan_for(loss: Loss, steps: int, delta: float) -> Plan:
    """Where the composed loss lies when it is tilted so that the saddle point is at the epsilon of ``delta``."""
    values, log_weights = loss.nodes()
    kept = np.isfinite(log_weights)
    values, log_weights = values[kept], log_weights[kept]

    def cumulants(tilt: float) -> tuple[float, float, float]:
        exponents = log_weights + tilt * values
        log_mgf = float(logsumexp(exponents))
        p = np.exp(exponents - log_mgf)
        mean = float(p @ values)
        return log_mgf, mean, float(p @ (values - mean) ** 2)

    def log_delta(tilt: float) -> float:  # the saddle point's estimate, at epsilon = T K'(tilt)
        log_mgf, mean, variance = cumulants(tilt)
        size = max(1.0, tilt * (tilt + 1) * math.sqrt(2 * math.pi * steps * variance))
        return steps * (log_mgf - tilt * mean) - math.log(size)

    low, high = -30.0, math.log(1e12)  # of log tilt
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if log_delta(math.exp(middle)) > math.log(delta) else (low, middle)
    tilt = math.exp(low)
    log_mgf, mean, variance = cumulants(tilt)
    scale = 1.0 / math.sqrt(max(steps * variance, 1e-300))
    ends = [abs(steps * mean)]
    for sign in (1.0, -1.0):
        bounds = []
        for size in np.geomspace(0.25, 16.0, 25):
            shift = sign * size * scale
            bounds.append((steps * (cumulants(tilt + shift)[0] - log_mgf) - math.log(_WRAP / 4)) / abs(shift))
        ends.append(min(bounds))
    outside = _SHARE * delta / (2 * steps)
    ends.append(_radius_of_one(values, log_weights, math.log(outside)))
    ends.append(_radius_of_one(values, log_weights + tilt * values - log_mgf, math.log(_WRAP / (4 * steps))))
    return Plan(tilt, 1.05 * float(max(ends)) + 1e-12, max(0.0, steps * mean))


def _radius_of_one(values: Array, log_weights: Array, log_level: float) -> float:
    """A radius beyond which one loss lies with probability at most ``exp(log_level)``."""
    order = np.argsort(np.abs(values))[::-1]
    tail = np.logaddexp.accumulate(log_weights[order])
    first = int(np.searchsorted(tail, log_level))
    return float(np.abs(values[order[max(first - 1, 0)]]))


@dataclass(frozen=True)
class _Composed:
    """The composed loss on its grid, tilted, with what delta may be wrong by."""

    losses: Array  # ascending
    tilted: Array
    tilt: float
    log_mgf: float  # of all steps
    wrong: float  # tilted probability: wrapped around, FFT rounding
    missed: float  # probability: moved further than the Hoeffding bound, outside the grid
    mean_error: float

    def upper(self, delta: float) -> float:
        """The least epsilon >= 0 at which delta(epsilon) is certainly at most ``delta``, before rounding of the losses."""
        return self._crossing(lambda e: sum(self.delta(e)), delta, 0.0, float(self.losses[-1]))

    def lower(self, delta: float, upper: float) -> float:
        """An epsilon >= 0 at which delta(epsilon) is certainly at least ``delta``, before rounding of the losses.

        Undoing the tilt magnifies what is wrong at smaller epsilon: the search steps down from the upper bound.
        """

        def least(epsilon: float) -> float:
            estimate, wrong = self.delta(epsilon)
            return estimate - wrong

        for step in np.append(np.geomspace(1e-8, 1.0, 33) * float(self.losses[-1]), upper):
            low = max(0.0, upper - float(step))
            if least(low) >= delta:
                return self._crossing(least, delta, low, upper)
        return 0.0

    @staticmethod
    def _crossing(bound: Callable[[float], float], delta: float, low: float, high: float) -> float:
        def excess(epsilon: float) -> float:
            return math.log(max(bound(epsilon), 1e-300)) - math.log(delta)

        if excess(low) <= 0 or low == high:
            return low
        if excess(high) > 0:
            raise ArithmeticError("epsilon lies outside the grid")
        return float(brentq(excess, low, high, xtol=1e-12 * high, rtol=1e-11))

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Estimate of delta(epsilon), and how much it may be wrong."""
        first = int(np.searchsorted(self.losses, epsilon, side="right"))
        over = self.losses[first:] - epsilon
        log_scale = min(self.log_mgf - self.tilt * epsilon, 700.0)
        with np.errstate(under="ignore"):
            tilted = float(self.tilted[first:] @ (np.exp(-self.tilt * over) * -np.expm1(-over)))
        scale = math.exp(log_scale)
        return scale * tilted, scale * self.wrong + self.missed


def _compose(loss: Loss, steps: int, delta: float, plan: Plan, mesh: float) -> _Composed:
    from prv_accountant.composers import Fourier
    from prv_accountant.discrete_privacy_random_variable import DiscretePrivacyRandomVariable
    from prv_accountant.discretisers import CellCentred
    from prv_accountant.domain import Domain

    domain = Domain.create_aligned(-plan.radius * _ALIGNED, plan.radius * _ALIGNED, mesh)
    variable = _Variable(loss, float(domain.t_min()) - domain.dt() / 2, float(domain.t_max()) + domain.dt() / 2)
    discrete = CellCentred().discretise(variable, domain)
    p = np.asarray(discrete.pmf, dtype=np.float64)
    grid = np.asarray(discrete.domain.ts(), dtype=np.float64)
    support = np.flatnonzero(p)
    log_p, t = np.log(p[support]), grid[support]

    def log_mgf(tilt: float) -> float:
        return float(logsumexp(log_p + tilt * t))

    whole = log_mgf(plan.tilt)
    tilted = np.zeros_like(p)
    tilted[support] = np.exp(log_p + plan.tilt * t - whole)
    composed = Fourier([DiscretePrivacyRandomVariable(tilted, discrete.domain)]).compute_composition([steps])
    losses = np.asarray(composed.domain.ts(), dtype=np.float64)
    mean = float(tilted[support] @ t)
    scale = 1.0 / math.sqrt(max(steps * float(tilted[support] @ (t - mean) ** 2), 1e-300))
    wrapped = 0.0
    for end, sign in ((losses[-1], 1.0), (-losses[0], -1.0)):
        shifts = scale * np.array([1.0, 2.0, 3.0, 4.0, 6.0])
        wrapped += min(math.exp(min(0.0, steps * (log_mgf(plan.tilt + sign * s) - whole) - s * end)) for s in shifts)
    outside = max(0.0, variable.outside())
    size = float(np.abs(t) @ np.exp(log_p))
    return _Composed(
        losses=losses,
        tilted=np.asarray(composed.pmf, dtype=np.float64),
        tilt=plan.tilt,
        log_mgf=steps * whole,
        wrong=wrapped + _FFT * steps,
        missed=_SHARE * delta + steps * outside,
        mean_error=_QUADRATURE * steps * size + 4e-16 * (abs(float(losses[0])) + abs(float(losses[-1]))),
    )


class _Variable:
    """The loss on the cells of a domain, in the form that prv-accountant's discretiser takes."""

    pm_inf = 0.0

    def __init__(self, loss: Loss, low: float, high: float) -> None:
        self._loss, self._low, self._high = loss, low, high

    def probability(self, low: Array, high: Array) -> Array:
        return self._loss.probability(np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64))

    def mean(self) -> float:
        return self._loss.mean_within(self._low, self._high)

    def outside(self) -> float:
        ends = np.array([self._low, self._high])
        infinite = np.array([-math.inf, math.inf])
        return float(
            self._loss.probability(infinite[:1], ends[:1])[0] + self._loss.probability(ends[1:], infinite[1:])[0]
        )
