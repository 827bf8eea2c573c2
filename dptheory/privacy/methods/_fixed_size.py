r"""Upper bounds of epsilon of Gaussian steps on batches of a fixed size, drawn afresh without replacement, replace-one.

The worst step is one of two pairs, s = 2 / noise_multiplier: "remove", (1-q) N(0,1) + q N(s,1) against N(0,1), for
gamma >= 1, "add", the same two in the other order, for gamma <= 1. Two bounds, of which the smaller counts:

- the pair that is both at once dominates every step, hence every composition;
- after many steps it promises too much, because no step is as bad as "add" at small gamma and as "remove" at large gamma.
  A bound of the Kullback-Leibler divergence of a step says how bad it can be at small gamma, and a pair with that
  divergence dominates in a weaker order that composition preserves.

proofs/privacy/fixed_size_batches.md proves both.
"""

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory.privacy._bounds import CHANCE, Found
from dptheory.privacy._parts import Step
from dptheory.privacy.methods._closed_forms import participation_delta, participation_epsilon
from dptheory.privacy.methods._sampled_loss import Loss
from dptheory.privacy.methods.lattice._epsilon import LEFT_OUT, Law, hockey_stick, largest_delta, least_epsilon
from dptheory.privacy.methods.lattice._sums import Kernel, LatticeMasses

Array = NDArray[np.float64]

# --- The largest Kullback-Leibler divergence of a Gaussian step on a batch of a fixed size, replace-one
#
# One record g against g' in place of the same other record, all three of norm at most 1. Over three unit vectors at the
# corners of a triangle without an obtuse angle,
#
# .. math:: KL = A(|g|) + B(|g'|, \langle g, g'\rangle)
#
# rises with both norms and falls with the inner product, so that a box of angles has a bound by its corners. Boxes are cut in
# two until the bound is near the divergence of the pair "remove", or there are too many: proofs/privacy/fixed_size_batches.md,
# step 8.


_NEAR = 1e-3  # relative: a box whose bound is as near to "remove" as this is left
_MOST_BOXES = 3000
_REACH = 10.0
_ROUNDING = 1e-9


@functools.lru_cache(maxsize=256)
def largest_divergence(noise_multiplier: float, sampling_rate: float) -> float:
    """An upper bound of the divergence, near that of (1-q) N(0,1) + q N(s,1) against N(0,1), s = 1 / noise_multiplier.

    Args:
        noise_multiplier: standard deviation of the noise over the largest distance of two records.
    """
    step = _Step(1.0 / noise_multiplier, sampling_rate)
    target = float(step.first(np.ones(1))[0]) * (1 + _NEAR)
    boxes, largest = np.array([[0.0, math.pi / 2, 0.0, math.pi / 2]]), target
    while boxes.size:
        bounds = step.bound(boxes)
        boxes, bounds = boxes[bounds > target], bounds[bounds > target]
        if len(boxes) > _MOST_BOXES:
            largest = max(largest, float(bounds.max()))
            break
        boxes = _halved(boxes)
    return largest * (1 + _ROUNDING)


class _Step:
    def __init__(self, shift: float, rate: float) -> None:
        self.shift, self.rate = shift, rate
        spacing = min(0.2, 0.3 / shift)
        self.z = np.arange(-_REACH, _REACH + spacing, spacing)
        self.weights = spacing * np.exp(-(self.z**2) / 2) / math.sqrt(2 * math.pi)

    def first(self, norm: Array) -> Array:
        """A: E_P log p, with the norm of g in units of the shift."""
        s = (self.shift * norm)[:, None]
        return self._mean(s * self.z - s * s / 2, s * self.z + s * s / 2)

    def second(self, norm: Array, along: Array) -> Array:
        """B: E_P[-log r], with the norm of g' and the part of g along g', both in units of the shift."""
        s, moved = (self.shift * norm)[:, None], (self.shift * along)[:, None]
        return -self._mean(s * self.z - s * s / 2, s * (self.z + moved) - s * s / 2)

    def bound(self, boxes: Array) -> Array:
        """Upper bounds over boxes of the angles at x' (opposite of g) and at x (opposite of g')."""
        first, second = np.sin(boxes[:, 1]), np.sin(boxes[:, 3])
        angles = np.clip(boxes[:, 0] + boxes[:, 2], math.pi / 2, math.pi)
        inner = -np.sin(boxes[:, 0]) * np.sin(boxes[:, 2]) * np.cos(angles)
        return self.first(first) + self.second(second, np.maximum(inner, 0.0) / np.maximum(second, 1e-300))

    def _mean(self, without: Array, with_: Array) -> Array:
        q = self.rate
        return np.asarray(
            (1 - q) * (self._log_mixture(without) @ self.weights) + q * (self._log_mixture(with_) @ self.weights)
        )

    def _log_mixture(self, exponent: Array) -> Array:
        q = self.rate
        far = math.log(q) + exponent + np.log1p((1 - q) / q * np.exp(-np.maximum(exponent, 1.0)))
        return np.asarray(np.where(exponent > 1.0, far, np.log1p(q * np.expm1(np.minimum(exponent, 1.0)))))


def _halved(boxes: Array) -> Array:
    """Both halves across the longer side, without those that hold no triangle: the angles add up to at least pi / 2."""
    first = boxes[:, 1] - boxes[:, 0] > boxes[:, 3] - boxes[:, 2]
    middles = np.where(first, boxes[:, 0] + boxes[:, 1], boxes[:, 2] + boxes[:, 3]) / 2
    low, high = boxes.copy(), boxes.copy()
    low[first, 1] = high[first, 0] = middles[first]
    low[~first, 3] = high[~first, 2] = middles[~first]
    both = np.concatenate([low, high])
    return np.asarray(both[both[:, 1] + both[:, 3] >= math.pi / 2])


_TOUCH = np.linspace(0.01, 0.99, 197)
_HELD = 1e-290  # probabilities below lose digits


@dataclass(frozen=True, eq=False)
class _Cells:
    """The losses l of "remove" above 0, by cells [kh, (k+1)h): probability by P and by Q; P(loss beyond the last cell)."""

    spacing: float
    by_p: Array
    by_q: Array
    beyond_p: float
    beyond_q: float

    @property
    def edges(self) -> Array:
        return np.asarray(self.spacing * np.arange(self.by_p.size + 1, dtype=np.float64))


def fixed_size_epsilon(alike: Step, delta: float) -> Found:
    """An upper bound of epsilon, and which of the two gave it: "dominating pair" or "divergence".

    Args:
        alike: the Poisson step that is attained where all other records are alike: half of the noise; a rate below 1.
    """
    guard = participation_epsilon(1.0 / alike.noise_multiplier, alike.sampling_rate, alike.count, delta)
    found = Found(0.0, math.inf)
    for name, law, span, kernel in _laws(alike, delta):
        found = found.with_upper(least_epsilon(law, span, alike.count, delta, kernel), name)
    return found.with_upper(guard, CHANCE)


def fixed_size_delta(alike: Step, epsilon: float, delta: float) -> Found:
    """An upper bound of delta, close where that is about ``delta``, and what gave it; ``alike`` as above."""
    guard = participation_delta(1.0 / alike.noise_multiplier, alike.sampling_rate, alike.count, epsilon)
    found = Found(0.0, 1.0)
    for name, law, span, kernel in _laws(alike, delta):
        found = found.with_upper(largest_delta(law, span, alike.count, epsilon, delta, kernel), name)
    return found.with_upper(guard, CHANCE)


def _laws(alike: Step, delta: float) -> Iterator[tuple[str, Law, float, Callable[[float], tuple[Kernel, float]]]]:
    """Name, law on a lattice, largest loss and kernel of both bounds; of a step's losses next to nothing of delta is left out."""
    removed = Loss("remove", alike.noise_multiplier, alike.sampling_rate)
    largest = _largest(removed, LEFT_OUT * delta / alike.count)
    yield "dominating pair", lambda h: _dominating(_cells(removed, h, largest)), largest, hockey_stick
    divergence = largest_divergence(alike.noise_multiplier, alike.sampling_rate)
    yield "divergence", lambda h: _with_divergence(_cells(removed, h, largest), divergence), largest, _touching


def _touching(tilt: float) -> tuple[Kernel, float]:
    """a (x + m - 1 + exp(-x - m)) for x > -m, which touches 1 - exp(-x) from above; m is chosen for the tilt."""
    log_u = np.log(_TOUCH)
    shifts = np.log1p(-_TOUCH) - log_u - np.log(-log_u)
    best = int(np.argmin(tilt * shifts - np.log(-log_u)))
    height, shift = -1.0 / float(log_u[best]), float(shifts[best])

    def kernel(over: Array) -> Array:
        x = np.maximum(over + shift, 0.0)
        return np.asarray(height * (x + np.expm1(-x)))

    return kernel, -shift


def _largest(step: Loss, probability: float) -> float:
    """A loss l that no pair exceeds with more than this probability, which is at most P(loss > l - a) / (1 - exp(-a))."""
    z = np.linspace(1.0 / (2 * step.noise_multiplier), 39.0 + 1.0 / step.noise_multiplier, 4001)[1:]
    losses = step.at(z)
    gap = np.minimum(1.0, losses)  # a
    tails = np.logaddexp(
        math.log1p(-step.sampling_rate) + scipy.special.log_ndtr(-z),
        math.log(step.sampling_rate) + scipy.special.log_ndtr(1.0 / step.noise_multiplier - z),
    )
    first = int(np.argmax(tails <= math.log(probability) + np.log(-np.expm1(-gap))))
    return float(losses[first] + gap[first])


def _cells(step: Loss, spacing: float, largest: float) -> _Cells:
    edges = spacing * np.arange(math.ceil(largest / spacing) + 1, dtype=np.float64)
    # mirrored, the losses of "add" are those of "remove" under the other law
    other = Loss("add", step.noise_multiplier, step.sampling_rate)
    infinite = np.array([math.inf])
    return _Cells(
        spacing=spacing,
        by_p=step.probability(edges[:-1], edges[1:]),
        by_q=other.probability(-edges[1:], -edges[:-1]),
        beyond_p=float(step.probability(edges[-1:], infinite)[0]),
        beyond_q=float(other.probability(-infinite, -edges[-1:])[0]),
    )


def _split(by_p: Array, by_q: Array, lower: Array, spacing: float) -> tuple[Array, Array]:
    """A cell's probability by P, put on the lower and the upper edge so that the probability by Q is kept as well."""
    with np.errstate(divide="ignore"):  # where the probability by Q is not held, nothing is taken off: more is revealed
        moved = np.where(by_q > _HELD, np.exp(np.log(by_q) + lower), 0.0)
    upper = (by_p - moved) / -math.expm1(-spacing)
    upper = np.clip(upper, 0.0, by_p)
    return by_p - upper, upper


def _positive(cells: _Cells) -> Array:
    """Masses at 0, h, 2h, ... whose divergence is at least that of "remove" for gamma >= 1; what lies beyond on top."""
    lower, upper = _split(cells.by_p, cells.by_q, cells.edges[:-1], cells.spacing)
    above = math.ceil(min(math.log(2), cells.edges[-1]) / cells.spacing)
    masses = np.zeros(cells.by_p.size + 1 + above)
    masses[: lower.size] += lower
    masses[1 : upper.size + 1] += upper
    masses[-1] += cells.beyond_p / -math.expm1(-above * cells.spacing)
    return masses


def _dominating(cells: _Cells) -> LatticeMasses:
    """Both pairs at once: the losses of "remove" above 0, of "add" below, and what is left of the probability at 0."""
    up = _positive(cells)
    lower, upper = _split(cells.by_q, cells.by_p, -cells.edges[1:], cells.spacing)
    down = np.zeros(cells.by_p.size + 1)  # at 0, -h, -2h, ...
    down[1:] += lower
    down[:-1] += upper
    down[-1] += cells.beyond_q
    masses = np.concatenate([down[:0:-1], up])
    at_zero = down.size - 1
    rest = 1.0 - float(cells.by_p.sum() + cells.by_q.sum()) - cells.beyond_p - cells.beyond_q
    masses[at_zero] += down[0] + max(rest, 0.0)
    return LatticeMasses(cells.spacing, -at_zero, masses)


def _with_divergence(cells: _Cells, divergence: float) -> LatticeMasses | None:
    """ "remove" for gamma >= 1, and one loss -y below 0 that makes the divergence as large as that of any step."""
    h, up = cells.spacing, _positive(cells)
    losses = h * np.arange(up.size, dtype=np.float64)
    total, distance = float(up[1:].sum()), float(-np.expm1(-losses[1:]) @ up[1:])
    above = float(up @ (losses + np.expm1(-losses)))
    wanted = divergence - above
    if wanted >= 0.999 * distance or total >= 1.0:
        return None
    y = _depth(max(wanted, 0.0) / distance)
    y = max(y, math.log1p(distance / (1.0 - total)))  # so that the mass at 0 is >= 0
    down = max(1, math.ceil(y / h))
    lowest = distance / math.expm1(down * h)
    masses = np.concatenate([np.zeros(down), up])
    masses[0] = lowest
    masses[down] = max(1.0 - total - lowest, 0.0)
    return LatticeMasses(h, -down, masses)


def _depth(share: float) -> float:
    """y with 1 - y / (e^y - 1) = share, in [0, 1)."""
    if share <= 0.0:
        return 0.0
    return float(scipy.optimize.brentq(lambda y: 1.0 - share - (y / math.expm1(y) if y > 0 else 1.0), 0.0, 700.0)) * (
        1 + 1e-9
    )
