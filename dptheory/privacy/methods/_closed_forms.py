r"""Closed forms: the Gaussian mechanism, one sampled step, and which steps a record took part in.

**The Gaussian mechanism exactly**: mu = sensitivity / standard deviation of the noise against (epsilon, delta). With
R(x) = Phi(-x) / phi(x) (Mills' ratio) and x = epsilon / mu - mu / 2,

.. math:: \delta = \Phi(\mu/2 - \epsilon/\mu) - e^\epsilon\,\Phi(-\mu/2 - \epsilon/\mu) = \phi(x) (R(x) - R(x + \mu)),

where nothing overflows. Where the two terms are close, their difference is taken as
:math:`\int_0^\infty e^{-xt - t^2/2} (1 - e^{-\mu t})\,dt`, which has no cancellation. As a method: steps without sampling, and
what sampled steps spend at most. Sampling only helps: whoever knows in which steps the record took part knows no less.

**One sampled step** is one integral over its output; **participations** are a sum of Gaussian mechanisms.
"""

import math
from collections.abc import Callable
from typing import TypeGuard

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import _validate
from dptheory.privacy._bounds import CHANCE, CLOSED, MAX_STEPS, NOISE, ONE, RATE, Direction, Unresolved
from dptheory.privacy._parts import Parts, Step, Steps, chance, unsampled_mu
from dptheory.privacy.methods._method import Bracket
from dptheory.privacy.methods._sampled_loss import DELTA_ERROR, Loss

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)
# The integrand is below exp(-40) = 4e-18 beyond x t + t^2 / 2 = 40.
_DROP = 40.0
_OVERFLOWS = 1e150  # x^2 overflows beyond: delta is 0 in every format
_PRECISION = 1e-15


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    r"""log delta of the Gaussian mechanism, exactly; finite where delta itself underflows.

    Args:
        mu: sensitivity over standard deviation of the noise, >= 0; 0 says that nothing depends on the data.
        epsilon: >= 0; at 0 delta is the total variation distance 2 Phi(mu / 2) - 1.

    Returns:
        log delta <= 0, -inf where mu = 0. For mu <= 1e4 its error is below 1e-10 + 1e-15 abs(log delta).

    Source: Dong, Roth, Su, Gaussian differential privacy, Corollary 2.13; for GEP, Theorem 3.1 (gep.thm3.1).

    Example: far beyond what a delta as a floating-point number can say.
        >>> from dptheory.privacy import gaussian_log_delta
        >>> round(gaussian_log_delta(0.01, 8.0))
        -320015
    """
    mu = _validate.real("mu", mu, 0.0, ends="[)")
    epsilon = _validate.real("epsilon", epsilon, 0.0, ends="[)")
    return -math.inf if mu == 0.0 else log_delta_at(mu, epsilon / mu - mu / 2)


def gaussian_delta(mu: float, epsilon: float) -> float:
    r"""The smallest delta for which the Gaussian mechanism is (epsilon, delta)-differentially private.

    .. math:: \delta = \Phi(\mu/2 - \epsilon/\mu) - e^\epsilon\,\Phi(-\mu/2 - \epsilon/\mu)

    Rises with mu, falls with epsilon.

    Args:
        mu: sensitivity over standard deviation of the noise, >= 0.
        epsilon: >= 0.

    Returns:
        delta, in [0, 1].

    Source: Dong, Roth, Su, Gaussian differential privacy, Corollary 2.13; for GEP, Theorem 3.1 (gep.thm3.1).

    Example: at epsilon 0 it is the total variation distance of two normal laws, 2 Phi(1/2) - 1.
        >>> from dptheory.privacy import gaussian_delta
        >>> round(gaussian_delta(1.0, 0.0), 4), round(gaussian_delta(1.0, 3.0), 4)
        (0.3829, 0.0015)
    """
    return math.exp(gaussian_log_delta(mu, epsilon))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0 for which the Gaussian mechanism is (epsilon, delta)-differentially private.

    Args:
        mu: sensitivity over standard deviation of the noise, in [0, 1e100].
        delta: in (0, 1).

    Returns:
        0 where delta is at least the total variation distance 2 Phi(mu / 2) - 1.

    Source: inverse of :func:`gaussian_delta`; for GEP, Theorem 3.1 (gep.thm3.1).

    Example: noise as large as the sensitivity.
        >>> from dptheory.privacy import gaussian_epsilon
        >>> round(gaussian_epsilon(1.0, 1e-5), 4)
        4.3772
    """
    mu = _validate.real("mu", mu, 0.0, 1e100)
    log_delta = math.log(_delta(delta))
    if mu == 0.0 or log_delta_at(mu, -mu / 2) <= log_delta:
        return 0.0
    far = math.sqrt(-2 * log_delta) + 1.0  # where the conversion of gaussian_rdp_epsilon has x, and a step more
    # Beyond 40 widths below 0 delta is 1 to every digit.
    near = max(-mu / 2, -40.0)
    x = _root(lambda x: log_delta_at(mu, x) - log_delta, near, far)
    return max(0.0, mu * (x + mu / 2))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which a Gaussian mechanism is (epsilon, delta)-differentially private.

    Noise of standard deviation sensitivity / mu is the least that does it.

    Args:
        epsilon: in [0, 1e100].
        delta: in (0, 1).

    Returns:
        mu, >= 0.

    Source: inverse of :func:`gaussian_delta`; for GEP, Theorem 3.1 (gep.thm3.1).

    Example: an epsilon of 1 asks for noise 3.73 times as large as the sensitivity.
        >>> from dptheory.privacy import gaussian_mu
        >>> round(1 / gaussian_mu(1.0, 1e-5), 3)
        3.731
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, 1e100)
    delta = _delta(delta)
    log_delta = math.log(delta)
    low = max(
        gaussian_rdp_mu(epsilon, delta), 2 * math.sqrt(2) * float(scipy.special.erfinv(delta))
    )  # mu rises with epsilon
    high = low
    while log_delta_at(high, epsilon / high - high / 2) <= log_delta:
        high *= 1.5

    def excess(log_ratio: float) -> float:
        mu = low * math.exp(log_ratio)
        return log_delta_at(mu, epsilon / mu - mu / 2) - log_delta

    return low * math.exp(_root(excess, -0.1, math.log(high / low) + 0.1))


def gaussian_rdp_epsilon(mu: float, delta: float) -> float:
    r"""The epsilon that Renyi differential privacy gives at its best order: mu^2 / 2 + mu sqrt(2 log(1 / delta)).

    The least over the order a > 1 of a mu^2 / 2 + log(1 / delta) / (a - 1); larger than :func:`gaussian_epsilon`.

    Args:
        mu: sensitivity over standard deviation of the noise, in [0, 1e100].
        delta: in (0, 1).

    Returns:
        Epsilon, >= 0.

    Source: Mironov, Renyi differential privacy, Proposition 3; GEP, Theorem 3.1, equation 5 (gep.thm3.1).

    Example: by hand: 1/2 + sqrt(2 * 11.51); the exact value is 4.38.
        >>> from dptheory.privacy import gaussian_rdp_epsilon
        >>> round(gaussian_rdp_epsilon(1.0, 1e-5), 4)
        5.2985
    """
    mu = _validate.real("mu", mu, 0.0, 1e100)
    return mu * (mu / 2 + math.sqrt(-2 * math.log(_delta(delta))))


def gaussian_rdp_mu(epsilon: float, delta: float) -> float:
    r"""The largest mu that the conversion of :func:`gaussian_rdp_epsilon` accepts.

    .. math:: \mu = \frac{\sqrt2\,\epsilon}{\sqrt{L + \epsilon} + \sqrt L}, \qquad L = \log(1/\delta)

    Args:
        epsilon: in [0, 1e100].
        delta: in (0, 1).

    Returns:
        mu, >= 0.

    Source: GEP, Theorem 3.1, equation 5 at its best order (gep.thm3.1).

    Example: an epsilon of 1 asks for noise 4.9 times as large as the sensitivity, exact accounting for 3.7.
        >>> from dptheory.privacy import gaussian_rdp_mu
        >>> round(1 / gaussian_rdp_mu(1.0, 1e-5), 2)
        4.9
    """
    epsilon = _validate.real("epsilon", epsilon, 0.0, 1e100)
    log_inverse = -math.log(_delta(delta))
    return math.sqrt(2) * epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))


def _delta(delta: float) -> float:
    return _validate.real("delta", delta, 0.0, 1.0, ends="()")


def log_delta_at(mu: float, x: float) -> float:
    """log(phi(x) (R(x) - R(x + mu))) for mu > 0, x >= -mu / 2: log E[e^(-x z) (1 - e^(-mu z)); z > 0] - x^2 / 2, z normal."""
    if x > _OVERFLOWS:
        return -math.inf
    if x < -1.0:  # most of the mass: 1 - delta = Phi(x) + phi(x) R(x + mu)
        return math.log1p(-math.exp(-x * x / 2 - _LOG_ROOT_2PI) * (_mills(-x) + _mills(x + mu)))
    gap = _mills(x) - _mills(x + mu) if mu >= 1.0 + x else _mills_gap(x, mu)
    return min(0.0, -x * x / 2 - _LOG_ROOT_2PI + math.log(gap)) if gap > 0.0 else -math.inf


def _mills(x: float) -> float:
    return math.sqrt(math.pi / 2) * float(scipy.special.erfcx(x / math.sqrt(2)))


def _mills_gap(x: float, mu: float) -> float:
    """R(x) - R(x + mu) for x >= -1 and mu <= 1 + x, by Gauss-Legendre where the integrand is not negligible."""
    root = math.sqrt(x * x + 2 * _DROP)
    end = 2 * _DROP / (x + root) if x > 0 else root - x
    t = 0.5 * end * (_NODES + 1.0)
    return float(0.5 * end * (_WEIGHTS @ (np.exp(-t * (x + t / 2)) * -np.expm1(-mu * t))))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(scipy.optimize.brentq(function, low, high, xtol=_PRECISION, rtol=4 * _PRECISION, maxiter=500))


Curve = Callable[[float], tuple[float, float]]
"""Bounds of delta at an epsilon."""

CLOSED_FORM = 3e-10
"""Error of log delta of a Gaussian mechanism, for |log delta| < 1e5."""
LEAST = 5e-324
"""An upper end is never rounded down to 0."""
_MAX_MU = 1e100


class Gaussian:
    """The closed form: exact without sampling, an upper bound with it."""

    name = CLOSED

    def serves(self, parts: Parts, direction: Direction) -> bool:
        steps = tuple(part for part in parts if isinstance(part, Step))
        return len(steps) == len(parts) and unsampled_mu(steps, direction) <= _MAX_MU

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        low, high = gaussian_bracket(unsampled_mu(steps, direction), epsilon)
        return Bracket(low, high, True) if _unsampled(steps) else Bracket(0.0, high)

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        mu = unsampled_mu(steps, direction)
        if gaussian_bracket(mu, 0.0)[1] <= delta:
            return Bracket(0.0, 0.0, True)
        try:
            low, high, _ = unsampled_ends(mu, delta)
        except Unresolved as refused:
            return Bracket(refused.lower, refused.upper)
        return Bracket(low, high, True) if _unsampled(steps) else Bracket(0.0, high)


def _unsampled(steps: Steps) -> bool:
    return all(step.sampling_rate == 1.0 for step in steps)


def gaussian_bracket(mu: float, epsilon: float) -> tuple[float, float]:
    x, reach = epsilon / mu - mu / 2, 2.0**-49 * (epsilon / mu + mu / 2)  # mu and both terms are rounded
    low, high = log_delta_at(mu, x + reach) - CLOSED_FORM, log_delta_at(mu, x - reach) + CLOSED_FORM
    return math.exp(low), min(1.0, max(math.exp(high), LEAST))


def unsampled_ends(mu: float, delta: float) -> tuple[float, float, Curve]:
    """Bounds of epsilon of a Gaussian mechanism, and the bracket of delta that they come from."""

    def bracket(epsilon: float) -> tuple[float, float]:
        return gaussian_bracket(mu, epsilon)

    epsilon = gaussian_epsilon(mu, delta)
    step = 1e-12 * epsilon + 1e-300
    return (
        first_that_holds(lambda e: bracket(e)[0] >= delta, epsilon, -step),
        first_that_holds(lambda e: bracket(e)[1] <= delta, epsilon, step),
        bracket,
    )


def first_that_holds(holds: Callable[[float], bool], epsilon: float, step: float) -> float:
    """The first of epsilon + step, + 2 step, + 4 step, ... that holds; 0 where it falls below."""
    for _ in range(40):
        if epsilon + step <= 0:
            return 0.0
        if holds(epsilon + step):
            return epsilon + step
        step *= 2
    raise Unresolved(f"no bound of epsilon near {epsilon!r}: delta is known too roughly there")


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
        return Bracket(low, min(1.0, high + LEAST), True)

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
    log_weights += counts * math.log(rate) + scipy.special.xlog1py(steps - counts, -rate)
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
    tail = np.where(x < 0, scipy.special.ndtr(-x), density * _mills_of(np.maximum(x, 0.0)))
    return np.maximum(tail - density * _mills_of(x + mu), 0.0)


def _mills_of(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(math.sqrt(math.pi / 2) * scipy.special.erfcx(x / math.sqrt(2)))
