import functools
import math

import numpy as np

from dptheory import papers, privacy
from dptheory._arrays import Array
from dptheory.claims._row import Sides, Source, Verdict, new_row

# --- Epsilon of subsampled Gaussian steps by inverting the moments of the loss: no grid of losses, no convolution
#
# With M(s) = E_P e^(sL) and any c > 0,
#
# .. math:: \delta(\epsilon) = \frac1{2\pi}\int M(c + iu)^T \frac{e^{-(c+iu)\epsilon}}{(c+iu)(c+1+iu)}\,du,
#
# as (1 - e^-x)^+ has the two-sided Laplace transform 1/(s(s+1)). The trapezoid rule converges faster than any power of its step.


_NODES = np.linspace(-13.0, 13.0, 651)


@functools.cache
def _loss(sigma: float, rate: float, sign: int) -> tuple[Array, Array]:
    """Losses and weights: "remove" (the mixture against N(0, 1)) for sign 1, "add" for -1."""
    z = np.concatenate([_NODES, _NODES + 1 / sigma]) if sign > 0 else _NODES
    step = _NODES[1] - _NODES[0]
    density = np.exp(-(_NODES**2) / 2) / math.sqrt(2 * math.pi) * step
    weights = np.concatenate([(1 - rate) * density, rate * density]) if sign > 0 else density
    return sign * np.log1p(rate * np.expm1(z / sigma - 0.5 / sigma**2)), weights


def delta(sigma: float, rate: float, steps: int, epsilon: float, sign: int) -> float:
    """delta(epsilon) of ``steps`` steps in one direction."""
    losses, weights = _loss(sigma, rate, sign)

    def log_moment(s: float) -> float:
        return steps * math.log(float(weights @ np.exp(s * losses))) - s * epsilon

    points = np.geomspace(0.5, min(200.0, 600.0 / float(np.abs(losses).max())), 60)
    saddle = float(points[np.argmin([log_moment(s) - math.log(s * (s + 1)) for s in points])])
    mean = float(weights @ losses)
    spread = math.sqrt(steps * float(weights @ np.square(losses - mean)))
    u = np.arange(0.0, 9.0 / spread, min(0.1 / spread, 0.2 * saddle))
    s = saddle + 1j * u
    moments = np.array([np.log(weights @ np.exp(one * losses)) for one in s])  # the argument stays small for every node
    terms = np.exp(steps * moments - s * epsilon) / (s * (s + 1))
    return float((terms.real.sum() - terms.real[0] / 2) * (u[1] - u[0]) / math.pi)


def worst_delta(sigma: float, rate: float, steps: int, epsilon: float) -> float:
    """The larger of both directions."""
    return max(delta(sigma, rate, steps, epsilon, sign) for sign in (1, -1))


PRINTED = {
    # table: the setting; delta = 1e-5, CIFAR-10 with N = 50,000
    "Table 5, End-to-end CNN, epsilon 3": "rf.end-to-end-cnn.eps3",
    "Table 5, End-to-end CNN, epsilon 7.53": "rf.end-to-end-cnn.eps7.53",
    "Table 6, DP-Transfer Learning, epsilon 2": "rf.dp-transfer-learning.eps2",
    "Table 7, Handcrafted CNN, epsilon 3": "rf.handcrafted-cnn.eps3",
    "Table 9, adjusted End-to-end CNN, epsilon 3": "rf.adjusted-end-to-end-cnn.eps3",
    "Table 9, adjusted End-to-end CNN, epsilon 7.53": "rf.adjusted-end-to-end-cnn.eps7.53",
}

_DELTA = 1e-5
_QUICK = "Table 7, Handcrafted CNN, epsilon 3"  # the search for its least noise is quick


def _run(where: str) -> tuple[float, float, float, int]:
    """(epsilon, sigma, sampling rate, steps) of a row."""
    one = papers.setting(PRINTED[where])
    rate = one.number("batch_size") / one.number("train_size")
    return one.number("epsilon"), one.number("noise_multiplier"), rate, round(one.number("epochs") / rate)


def _spent(where: str, scale: float = 1.0) -> privacy.EpsilonBounds:
    _, sigma, rate, steps = _run(where)
    return privacy.epsilon_bounds(noise_multiplier=scale * sigma, sampling_rate=rate, steps=steps, delta=_DELTA)


def _least(where: str) -> float:
    epsilon, _, rate, steps = _run(where)
    return privacy.least_noise_multiplier(epsilon=epsilon, delta=_DELTA, sampling_rate=rate, steps=steps)


def _next_to_renyi(where: str) -> bool:
    """Is the least noise by Renyi privacy, which is never below the least, at most 1.1 times it?

    Its epsilon falls as the noise rises.
    """
    epsilon, _, rate, steps = _run(where)
    below, above = (
        privacy.rdp_epsilon(noise_multiplier=x * _least(where), sampling_rate=rate, steps=steps, delta=_DELTA)
        for x in (0.9999, 1.1)
    )
    return below > epsilon >= above


def _least_by_inversion(where: str, factor: float) -> bool:
    """Does ``factor`` times the least noise keep the budget, and 0.4 % less not?"""
    epsilon, _, rate, steps = _run(where)
    keeps, breaks = (worst_delta(x * factor * _least(where), rate, steps, epsilon) for x in (1.0, 0.996))
    return keeps <= _DELTA < breaks


# noise, rate, steps, delta
_USED = ((1.0, 0.02, 1000, 1e-5), (10.0, 4096 / 45_000, 875, 1e-5), (10.0, 0.01, 1000, 1e-5))
_REACH = (
    1e-6  # how far a bound may be from epsilon, times max(1, epsilon); the inversion here is the less exact of the two
)


def _bracket_holds(sigma: float, rate: float, steps: int, delta: float, field: str, moved: float = 0.0) -> bool:
    """Is a field of the bracket, moved by a share of itself, next to the true epsilon?"""
    found = privacy.epsilon_bounds(noise_multiplier=sigma, sampling_rate=rate, steps=steps, delta=delta)
    at, reach = (1 + moved) * float(getattr(found, field)), _REACH * max(1.0, found.estimate)
    low, high = at - reach, at + reach
    # delta falls in epsilon: the true epsilon lies between the two
    return worst_delta(sigma, rate, steps, low) >= delta >= worst_delta(sigma, rate, steps, high)


def _moved_bracket_holds(sigma: float, rate: float, steps: int, delta: float, field: str) -> bool:
    """Wrong statement: so is the field half a percent further in (the estimate: further down)."""
    return _bracket_holds(sigma, rate, steps, delta, field, 0.005 if field == "lower" else -0.005)


def _spent_fields() -> list[tuple[float, float, int, float, str]]:
    return [(*run, field) for run in _USED for field in ("lower", "estimate", "upper")]


def _most_by_inversion(epsilon: float, sigma: float, rate: float, factor: float) -> bool:
    """Do ``factor`` times the most steps keep the budget, and one more, or 0.4 % more, do not?"""
    most = round(factor * privacy.max_steps(epsilon=epsilon, delta=_DELTA, noise_multiplier=sigma, sampling_rate=rate))
    more = max(most + 1, round(1.004 * most))
    fits, exceeds = (worst_delta(sigma, rate, n, epsilon) for n in (most, more))
    return fits <= _DELTA < exceeds


row = new_row(
    id="rf.sigmas",
    source=Source("rf", "Tables 5 to 7 and 9"),
    verdict=Verdict.LOOSE,
    calculators=(privacy.epsilon_bounds, privacy.least_noise_multiplier, privacy.max_steps),
    figure="accountants",
)


@row.equal(lambda: [(where,) for where in PRINTED])
def _(where: str) -> Sides:
    """the printed noise keeps the budget"""
    return _spent(where).upper <= _run(where)[0], True, lambda: _spent(where, 0.9).lower <= _run(where)[0]


@row.equal((_QUICK,))
def _(where: str) -> Sides:
    """the least noise, against Renyi privacy"""
    return _next_to_renyi(where), True, lambda: _least(where) >= _run(where)[1]


@row.equal((_QUICK,))
def _(where: str) -> Sides:
    """the least noise spends the budget, by inversion"""
    return _least_by_inversion(where, 1.0), True, lambda: _least_by_inversion(where, 1.01)


@row.equal(_spent_fields)
def _(sigma: float, rate: float, steps: int, delta: float, field: str) -> Sides:
    """each bound within 1e-6 of epsilon by inversion"""
    run = (sigma, rate, steps, delta, field)
    return _bracket_holds(*run), True, lambda: _moved_bracket_holds(*run)


@row.equal((1.0, 2.0, 0.1), (3.0, 1.5, 0.2), (1.0, 1.5, 0.02))
def _(epsilon: float, sigma: float, rate: float) -> Sides:
    """the most steps, by inversion"""
    return _most_by_inversion(epsilon, sigma, rate, 1.0), True, lambda: _most_by_inversion(epsilon, sigma, rate, 1.01)
