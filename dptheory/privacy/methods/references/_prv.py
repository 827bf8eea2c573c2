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
import scipy

from dptheory.privacy.methods._sampled_loss import Array, Loss

_SHARE = 1e-4  # of delta, for each of: rounding (eta), losses outside the grid
_WRAP = 1e-4  # of delta: what may wrap around
_FFT = 1e-14  # rounding of a transform, a step
_QUADRATURE = 1e-13  # relative error of the mean
_ROOT = 2e-11  # of the grid's radius: where the search for a crossing ends
_MIN_CELLS = 2**15
_ALIGNED = 1 - 1e-12  # rounding must not add a cell
MAX_CELLS = 2**22


@dataclass(frozen=True)
class SaddlePoint:
    """Where the composed loss lies when it is tilted to the epsilon of a given delta; approximate."""

    epsilon: float
    tilt: float
    log_mgf: float  # of one step, at the tilt
    deviation: float  # of the sum, tilted


@functools.lru_cache(maxsize=256)
def prv_bracket(loss: Loss, steps: int, delta: float, width: float, max_cells: int = MAX_CELLS) -> tuple[float, float]:
    """Lower and upper bound of epsilon for ``steps`` steps with this loss, about ``width`` max(1, epsilon) apart.

    They are further apart where ``max_cells`` grid points do not suffice.
    """
    lower, upper = 0.0, math.inf
    for attempt in range(3):
        # Where the saddle point is far off (few steps, rare large losses): at the epsilon found, and without a tilt.
        if attempt == 0:
            point = saddle_point(loss, steps, delta)
            scale = max(1.0, point.epsilon)
        elif attempt == 1:
            point = _tilted_to(loss, steps, delta, (lower + min(upper, point.epsilon)) / 2)
        else:
            point = _solve_tilt(loss, steps, delta, lambda *_: False)
        try:
            least = _MIN_CELLS * 8**attempt
            low, high, moved = _bracket_at(loss, steps, delta, point, 0.9 * width * scale, (least, max_cells))
        except ArithmeticError:
            scale = 1.0
            continue
        lower, upper = max(lower, low), min(upper, high)
        wanted = width * max(1.0, lower)
        # Close enough, or what is left is the grid's, and the grid was not made for a larger epsilon.
        if upper - lower <= 1.2 * wanted or (upper - lower <= 2.5 * moved and width * scale <= 1.2 * wanted):
            break
        scale = max(1.0, lower)
    if not lower <= upper < math.inf:
        raise ArithmeticError(f"prv-accountant gave [{lower}, {upper}]")
    return lower, upper


def prv_or_none(loss: Loss, steps: int, delta: float, width: float) -> tuple[float, float] | None:
    """:func:`prv_bracket`; None where it gives none."""
    try:
        return prv_bracket(loss, steps, delta, width)
    except (ArithmeticError, RuntimeError, MemoryError):  # RuntimeError: the package's own
        return None


def _bracket_at(
    loss: Loss, steps: int, delta: float, point: SaddlePoint, width: float, cells: tuple[int, int]
) -> tuple[float, float, float]:
    """Lower and upper bound with this tilt, and how much of them is due to the grid."""
    spread = min(math.sqrt(steps * math.log(2 / (_SHARE * delta)) / 2), float(steps))
    radius, shifts = grid_radius(loss, steps, delta, point)
    wanted = min(max(2 * radius * spread / (0.5 * width), cells[0]), cells[1])
    mesh = radius / (scipy.fft.next_fast_len(math.ceil(wanted / 2)) - 1)
    composed = _compose(loss, steps, delta, point.tilt, shifts, radius, mesh)
    moved = float(mesh * spread + composed.mean_error + _ROOT * radius)
    upper = composed.upper(delta)
    return max(0.0, float(composed.lower(delta, upper) - moved)), float(upper + moved), moved


@functools.lru_cache(maxsize=256)
def saddle_point(loss: Loss, steps: int, delta: float) -> SaddlePoint:
    """The tilt at which the saddle point estimate of delta(T K'(tilt)) is ``delta``."""

    def too_small(log_mgf: float, mean: float, variance: float, tilt: float) -> bool:
        size = max(1.0, tilt * (tilt + 1) * math.sqrt(2 * math.pi * steps * variance))
        return steps * (log_mgf - tilt * mean) - math.log(size) > math.log(delta)

    return _solve_tilt(loss, steps, delta, too_small)


def _tilted_to(loss: Loss, steps: int, delta: float, epsilon: float) -> SaddlePoint:
    """The tilt T K'(tilt) = ``epsilon``, at which Chernoff's bound is best."""
    return _solve_tilt(loss, steps, delta, lambda log_mgf, mean, variance, tilt: steps * mean < epsilon)


def _solve_tilt(
    loss: Loss, steps: int, delta: float, too_small: Callable[[float, float, float, float], bool]
) -> SaddlePoint:
    _, values, log_weights = _kept(loss, steps, delta)
    low, high = -30.0, math.log(1e12)  # of log tilt
    for _ in range(26):
        middle = (low + high) / 2
        tilt = math.exp(middle)
        low, high = (middle, high) if too_small(*_cumulants(values, log_weights, tilt), tilt) else (low, middle)
    tilt = math.exp(low)
    log_mgf, mean, variance = _cumulants(values, log_weights, tilt)
    return SaddlePoint(max(0.0, steps * mean), tilt, log_mgf, math.sqrt(max(steps * variance, 1e-300)))


def grid_radius(loss: Loss, steps: int, delta: float, point: SaddlePoint) -> tuple[float, tuple[float, float]]:
    """Half width of a grid that the composed loss and every kept single loss stay on; the shifts of the tilt that show it."""
    _, values, log_weights = _kept(loss, steps, delta)
    # What wraps around counts exp(-tilt epsilon + T K) times its tilted probability.
    magnified = steps * point.log_mgf - point.tilt * point.epsilon
    log_wrap = min(math.log(1e-7), math.log(_WRAP * delta) - magnified)
    ends, best = [point.epsilon, -float(values[0]), float(values[-1])], []
    for sign in (1.0, -1.0):
        shifts = sign * np.geomspace(0.02, 16.0, 30) / point.deviation
        gains = [_cumulants(values, log_weights, point.tilt + s)[0] - point.log_mgf for s in shifts]
        bounds = (steps * np.array(gains) - (log_wrap - math.log(4))) / np.abs(shifts)
        ends.append(float(bounds.min()))
        best.append(float(shifts[bounds.argmin()]))
    return 1.05 * max(ends) + 1e-12, (best[0], best[1])


def _cumulants(values: Array, log_weights: Array, tilt: float) -> tuple[float, float, float]:
    exponents = log_weights + tilt * values
    largest = float(exponents.max())
    weights = np.exp(exponents - largest)
    total = float(weights.sum())
    mean = float(weights @ values) / total
    return largest + math.log(total), mean, float(weights @ (values - mean) ** 2) / total


@functools.lru_cache(maxsize=16)
def _kept(loss: Loss, steps: int, delta: float) -> tuple[Array, Array, Array]:
    """Outputs, losses and log weights of a quadrature rule, without the tails that all steps together seldom reach.

    They have to go before a tilt is chosen: it would magnify them.
    """
    outputs, values, log_weights = loss.nodes()
    level = math.log(_SHARE * delta / (2 * steps))
    low = int(np.searchsorted(np.logaddexp.accumulate(log_weights), level))
    high = int(np.searchsorted(np.logaddexp.accumulate(log_weights[::-1]), level))
    inside = slice(max(0, low - 1), len(values) - max(0, high - 1))
    return outputs[inside], values[inside], log_weights[inside]


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
        return float(scipy.optimize.brentq(excess, low, high, xtol=1e-12 * high, rtol=1e-11))

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Estimate of delta(epsilon), and how much it may be wrong."""
        # Beyond 100 / tilt the weights are below exp(-100).
        ends = np.searchsorted(self.losses, [epsilon, epsilon + 100.0 / self.tilt], side="right")
        inside = slice(int(ends[0]), int(ends[1]))
        over = self.losses[inside] - epsilon
        log_scale = min(self.log_mgf - self.tilt * epsilon, 700.0)
        with np.errstate(under="ignore"):
            tilted = float(self.tilted[inside] @ (np.exp(-self.tilt * over) * -np.expm1(-over)))
        scale = math.exp(log_scale)
        return scale * tilted, scale * self.wrong + self.missed


def _compose(
    loss: Loss, steps: int, delta: float, tilt: float, shifts: tuple[float, float], radius: float, mesh: float
) -> _Composed:
    from prv_accountant.composers import Fourier
    from prv_accountant.discrete_privacy_random_variable import DiscretePrivacyRandomVariable
    from prv_accountant.discretisers import CellCentred
    from prv_accountant.domain import Domain

    domain = Domain.create_aligned(-radius * _ALIGNED, radius * _ALIGNED, mesh)
    outputs = _kept(loss, steps, delta)[0]
    variable = _Variable(loss, (float(outputs[0]), float(outputs[-1])))
    discrete = CellCentred().discretise(variable, domain)
    p = np.asarray(discrete.pmf, dtype=np.float64)
    grid = np.asarray(discrete.domain.ts(), dtype=np.float64)
    support = np.flatnonzero(p)
    log_p, t = np.log(p[support]), grid[support]

    def log_mgf(at: float) -> float:
        return float(scipy.special.logsumexp(log_p + at * t))

    whole = log_mgf(tilt)
    tilted = np.zeros_like(p)
    tilted[support] = np.exp(log_p + tilt * t - whole)
    composed = Fourier([DiscretePrivacyRandomVariable(tilted, discrete.domain)]).compute_composition([steps])
    # The convolution is periodic. Its window has drifted by T shifts of the mean: back to the middle.
    drift = round((steps * float(discrete.domain.shifts())) / domain.dt())
    losses = np.asarray(composed.domain.ts(), dtype=np.float64) - drift * domain.dt()
    pmf = np.roll(np.asarray(composed.pmf, dtype=np.float64), drift)
    wrapped = 0.0
    for end, shift in ((losses[-1], shifts[0]), (losses[0], shifts[1])):
        wrapped += math.exp(min(0.0, steps * (log_mgf(tilt + shift) - whole) - shift * float(end)))
    size = float(np.abs(t) @ np.exp(log_p))
    outside = steps * loss.outside(*variable.outputs)
    # The shift keeps the mean of the kept losses; Hoeffding's bound is about that given that they are kept.
    moved = domain.dt() * outside
    return _Composed(
        losses=losses,
        tilted=pmf,
        tilt=tilt,
        log_mgf=steps * whole,
        wrong=wrapped + _FFT * steps,
        missed=_SHARE * delta + outside,
        mean_error=_QUADRATURE * steps * size + 4e-16 * (abs(float(losses[0])) + abs(float(losses[-1]))) + moved,
    )


class _Variable:
    """The loss of outputs between two ends, in the form that prv-accountant's discretiser takes."""

    pm_inf = 0.0

    def __init__(self, loss: Loss, outputs: tuple[float, float]) -> None:
        self._loss, self.outputs = loss, outputs

    def probability(self, low: Array, high: Array) -> Array:
        low, high = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        least, largest = self._loss.at(np.array(self.outputs))
        p = np.zeros(len(low))
        inside = (high >= least) & (low <= largest)
        p[inside] = self._loss.probability(low[inside], high[inside], self.outputs)
        return p

    def mean(self) -> float:
        return self._loss.mean_within(*self.outputs)
