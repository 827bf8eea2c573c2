"""Few or rare steps as methods: their losses on a lattice, from above and from below.

Where a record takes part in a step next to never, the law of the losses has two scales, and no line of the integral is narrow.
Here each step's loss is put on a lattice, and the sum is formed by a transform (proofs/privacy/fixed_size_batches.md, step 9),
or, of few steps, by plain convolution, which rounds each mass by no more than a share of it.

:class:`RareSteps` takes what one extreme output alone makes of delta in closed form: what is left lives on one scale
(proofs/privacy/saddle_line.md, step 14).
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from dptheory.privacy._bounds import LATTICE, MAX_STEPS, NOISE, RATE, RTOL, Direction, Unresolved
from dptheory.privacy._parts import Parts, Step, Steps
from dptheory.privacy.methods._closed_forms import one_step_epsilon
from dptheory.privacy.methods._method import Bracket
from dptheory.privacy.methods._sampled_loss import Array, Loss, interval
from dptheory.privacy.methods.lattice._epsilon import LEFT_OUT, largest_delta, least_epsilon, positive_part
from dptheory.privacy.methods.lattice._rising_loss import LossCells, sampled_loss
from dptheory.privacy.methods.lattice._sums import LatticeMasses, LatticeSum, TiltedSum, power, radius, tilted_sum_of
from dptheory.privacy.methods.random_allocation._losses import convex_corners

_SHARE = LEFT_OUT / 2  # of delta: the largest outputs
_ROUNDED = 2.0**-50
"""What rounding moves a step's loss by: differences of masses are rounded, and a cell's split with them."""
_MARGIN = 1e-9  # relative, on masses: of convolutions, whose errors are some thousand units in the last place
_FEW = 64
_POINTS = 2**15  # of the sum of few steps
_PASSES = 3


class Lattice:
    """Steps of one kind on a lattice: wider than the line where the line is narrow, far narrower where it is not.

    Proof: proofs/privacy/fixed_size_batches.md, steps 7 to 9: losses rounded up and down to cells, their sum, what is left out.
    """

    name = LATTICE

    def serves(self, parts: Parts, direction: Direction) -> bool:
        return len(parts) == 1 and _one_kind(parts[0])

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        step, guess = steps[0], 1e-12
        lower, upper = 0.0, 1.0
        for _ in range(_PASSES):
            found = _Sum(step, direction, guess)
            lower, upper = max(lower, found.lower_delta(epsilon)), min(upper, found.upper_delta(epsilon))
            if upper >= guess / 100:
                break
            guess = max(upper, 1e-300)
        return Bracket(lower, upper)

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        found = _Sum(steps[0], direction, delta)
        return Bracket(found.lower_epsilon(), found.upper_epsilon())


def _one_kind(part: object) -> bool:
    return (
        isinstance(part, Step)
        and 1 < part.count <= MAX_STEPS
        and NOISE[0] / 2 <= part.noise_multiplier <= NOISE[1]
        and RATE[0] <= part.sampling_rate < 1.0
    )


class _Sum:
    """The losses of all steps; what is left out of them is small against ``delta``."""

    def __init__(self, step: Step, direction: Direction, delta: float) -> None:
        self._count, self._delta = step.count, delta
        loss = sampled_loss(step.noise_multiplier, step.sampling_rate, direction)
        self._cells: LossCells = loss.cells(math.log(_SHARE * delta / step.count))
        self._span = float(max(np.ptp(self._cells.losses), self._cells.losses[-1]))
        spacing = self._span * self._count / _POINTS
        few = self._count <= _FEW and spacing > 0.0
        self._above = power(self._cells.from_above(spacing), self._count) if few else None
        self._below = power(self._cells.from_below(spacing), self._count) if few else None

    @property
    def _nothing(self) -> bool:
        """Whether all that has a loss above 0 is left out, and less likely than delta."""
        return bool(self._cells.losses[-1] <= 0.0)

    def upper_epsilon(self) -> float:
        if self._nothing:
            return 0.0
        moved = self._count * _ROUNDED
        found = least_epsilon(self._cells.from_above, self._span, self._count, self._delta) + moved
        if self._above is not None:
            allowed = self._delta * (1 - LEFT_OUT - _MARGIN)
            found = min(found, _crossing(_hockey_stick(self._above), allowed, down=False) + moved)
        return found

    def lower_epsilon(self) -> float:
        if self._below is None or self._nothing:
            return 0.0
        found = _crossing(_hockey_stick(self._below), self._delta * (1 + _MARGIN), down=True)
        return max(0.0, found - self._count * _ROUNDED)

    def upper_delta(self, epsilon: float) -> float:
        left_out = LEFT_OUT * self._delta
        if self._nothing:
            return left_out
        less = max(0.0, epsilon - self._count * _ROUNDED)
        found = largest_delta(self._cells.from_above, self._span, self._count, less, self._delta)
        if self._above is not None:
            found = min(found, _hockey_stick(self._above)(less) * (1 + _MARGIN) + left_out)
        return found

    def lower_delta(self, epsilon: float) -> float:
        if self._below is None or self._nothing:
            return 0.0
        return _hockey_stick(self._below)(epsilon + self._count * _ROUNDED) * (1 - _MARGIN)


def _hockey_stick(total: LatticeMasses) -> Callable[[float], float]:
    """E (1 - exp(epsilon - loss))+ as a function of epsilon."""
    losses, masses = total.losses, total.masses

    def value(epsilon: float) -> float:
        first = int(np.searchsorted(losses, epsilon))
        return float(masses[first:] @ -np.expm1(epsilon - losses[first:]))

    return value


def _crossing(falling: Callable[[float], float], level: float, *, down: bool) -> float:
    """Just before a falling function crosses a level, or just after; 0 where it never exceeds it."""

    def excess(epsilon: float) -> float:
        return math.log(max(falling(epsilon), 1e-320)) - math.log(level)

    if excess(0.0) <= 0.0:
        return 0.0
    high = 1e-12
    while excess(high) > 0.0:
        high *= 4.0
    root = float(scipy.optimize.brentq(excess, 0.0, high, xtol=1e-13 * high, rtol=1e-12))
    step = 2e-12 * root + 2e-13 * high
    return max(0.0, root - step) if down else root + step


_MOST_KINDS, _MOST_CHANCE = 128, 1.0
_COARSE = 1000
_ROUGH, _FINE = (2**11, 2**13), (2**15, 2**17)
"""Cells of the outputs of all kinds, and lattice points of the sum."""
_SHARED = 8
"""Kinds that share the cells: of more, each has as many."""
_RELATIVE = 1e-11
"""Relative, of a loss: rounding of an exponent and of the probabilities that it is taken from."""
_FARTHEST, _SCALES = 38.0, 23.0
"""Outputs: beyond its mean, where no double holds a probability; and nats below the largest gain that are told apart."""
_TURNS = 16
_USEFUL, _NOTHING = 1e-3, 1e-40
"""Relative width at which no other method is asked, unless a narrower one is wanted; and a delta that nobody asks for."""
_WIDER, _TIMES = 3.0, 16
"""By what, and how often at most, the largest of the gains that are one label is multiplied, until the label has enough of Q."""
_FARTHEST_EPSILON = 600.0
"""Beyond about 709 no double holds its exponential."""
_LEAST_MASS = 1e-280
"""What is less likely is left out from below: it has no relative precision."""
_LOWERED = 1e-11
"""Relative, taken off a divergence that has to be at most another one: both are sums of some thousand numbers >= 0."""
_AHEAD, _FIT = 1.1, 0.7
"""Epsilon up to which the gains serve, over the one that is looked for; and the share of the largest gain that has to be needed."""


@dataclass(frozen=True)
class RareSteps:
    """Steps in which a record hardly ever takes part, of several kinds, one extreme output apart from all others.

    Proof: proofs/privacy/saddle_line.md, step 14.

    Attributes:
        rtol: relative width at which nothing is asked that takes long.
    """

    rtol: float = RTOL
    name = LATTICE

    def serves(self, parts: Parts, direction: Direction) -> bool:
        steps = tuple(part for part in parts if isinstance(part, Step))
        return (
            direction != "replace"
            and len(parts) == len(steps) <= _MOST_KINDS
            and all(
                NOISE[0] / 2 <= step.noise_multiplier <= NOISE[1] and RATE[0] <= step.sampling_rate < 0.5
                for step in steps
            )
            and 1 < sum(step.count for step in steps) <= MAX_STEPS
            and sum(step.count * step.sampling_rate for step in steps) <= _MOST_CHANCE
        )

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        if direction == "add" and epsilon >= _drift(steps) * (1 + _RELATIVE):
            return Bracket(0.0, 0.0, settled=True)  # beyond the largest loss
        try:
            total = _Gains(steps, direction, epsilon, epsilon, _FINE)
            lower, upper = total.lower_delta(epsilon), total.upper_delta(epsilon)
        except Unresolved:
            return Bracket(0.0, 1.0)
        return Bracket(lower, upper, upper - lower <= self._enough * upper or upper <= _NOTHING)

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        lower, upper = 0.0, math.inf
        try:
            about = _rough_epsilon(steps, direction, delta)
            total = _Gains(steps, direction, about, _farther(about, direction), _FINE)
            upper = _crossing_within(total.upper_delta, delta, total.range, down=False)
            lower = _crossing_within(total.lower_delta, delta, total.range, down=True)
        except Unresolved:
            pass
        return Bracket(lower, upper, upper < math.inf and upper - lower <= self._enough * upper)

    @property
    def _enough(self) -> float:
        return _USEFUL if self.rtol >= RTOL else self.rtol


def _farther(epsilon: float, direction: Direction) -> float:
    """An epsilon that needs larger gains."""
    return epsilon * _AHEAD if direction == "remove" else epsilon / _AHEAD


def _drift(steps: Steps) -> float:
    """By how much the loss is below 0 without any gain, or above it."""
    return -math.fsum(step.count * math.log1p(-step.sampling_rate) for step in steps)


def _rough_epsilon(steps: Steps, direction: Direction, delta: float) -> float:
    """About where delta crosses ``delta``: few cells and points, from gains that are made to fit."""
    count = sum(step.count for step in steps)
    about = farthest = 0.0
    if direction == "remove":
        alone = (Loss(direction, step.noise_multiplier, step.sampling_rate) for step in steps)
        about = max(one_step_epsilon(loss, delta / count)[0] for loss in alone)
        farthest = _farther(about, direction)
    for _ in range(_TURNS):
        total = _Gains(steps, direction, about, farthest, _ROUGH)
        low, high = total.range
        if total.upper_delta(high) > delta:
            about, farthest = high, 2 * high - low
            continue
        about = _crossing_within(total.upper_delta, delta, total.range, down=False)
        if about == 0.0 or total.needed(_farther(about, direction)) >= _FIT * total.needed(farthest):
            break
        farthest = _farther(about, direction)
    return about


class _Gains:
    """The sum of what each step's loss is above log(1 - q), or below its negative: g = log(1 + q e^(tz - t^2 / 2) / (1 - q)).

    One output of a gain beyond ``top`` alone decides whether the loss exceeds epsilon, for all epsilons in ``range``.
    """

    def __init__(
        self, steps: Steps, direction: Direction, about: float, farthest: float, size: tuple[int, int]
    ) -> None:
        self._steps, self._removed = steps, direction == "remove"
        cells, self._points = size
        self._drift = _drift(steps)
        self._about = about
        top = self.needed(farthest) * (1 + 10 * _RELATIVE)
        self.range = (0.0, farthest) if self._removed else (farthest, self._drift)
        if not top > 0.0:
            raise Unresolved("an epsilon beyond the largest loss")
        if farthest > _FARTHEST_EPSILON:
            raise Unresolved("an epsilon whose exponential is no number")
        self._laws = tuple(_gain_cells(step, top, max(cells // len(steps), cells // _SHARED)) for step in steps)
        self._decided = _Decided.by(steps, top) if self._removed else _Decided(0.0, 0.0)

    def needed(self, epsilon: float) -> float:
        """The gain by which one output alone decides whether the loss exceeds epsilon."""
        return self._drift + epsilon if self._removed else self._drift - epsilon

    def upper_delta(self, epsilon: float) -> float:
        epsilon = epsilon * (1 - _RELATIVE) - self._moved
        value, wrong = self._above.expectation(positive_part, 0.0, self._place(epsilon))
        return min(1.0, (self._decided.bounds(epsilon)[1] + self._scale * (value + wrong)) * (1 + _MARGIN))

    def lower_delta(self, epsilon: float) -> float:
        epsilon = epsilon * (1 + _RELATIVE) + self._moved
        total, start = self._below
        value, wrong = total.expectation(positive_part, 0.0, self._place(epsilon) - start)
        found = self._decided.bounds(epsilon)[0] + self._scale * max(0.0, value - wrong)
        return max(0.0, found * (1 - _MARGIN))

    @property
    def _moved(self) -> float:
        """By what rounding moves the sum of all losses, beside a share of it."""
        return sum(step.count for step in self._steps) * _ROUNDED + _RELATIVE * self._drift

    @property
    def _scale(self) -> float:
        return math.exp(-self._drift) if self._removed else 1.0

    def _place(self, epsilon: float) -> float:
        """Where the sum of the gains, or of their negatives, has to be above for a loss above epsilon."""
        return epsilon + self._drift if self._removed else epsilon - self._drift

    @functools.cached_property
    def _rough(self) -> LatticeSum:
        return self._spread(max(float(law.gains[-1]) for law in self._laws) / _COARSE)

    @functools.cached_property
    def _tilt(self) -> float:
        """At which the mean of the sum is about where it has to be."""
        low, high = 1e-3 / self.needed(self._about), 1e4 / self.needed(self._about)
        while high > 1.05 * low:
            middle = math.sqrt(low * high)
            less = self._rough.cumulants(middle)[1] < self._place(self._about)
            low, high = (middle, high) if less else (low, middle)
        return high

    @functools.cached_property
    def _spacing(self) -> float:
        return max(2 * radius(self._rough, 1, self._tilt) / self._points, self._rough.spacing * _COARSE / self._points)

    @functools.cached_property
    def _above(self) -> TiltedSum:
        return tilted_sum_of(self._spread(self._spacing), self._tilt, self._rough)

    @functools.cached_property
    def _below(self) -> tuple[TiltedSum, float]:
        """The sum, and the place that it is counted from."""
        found = [law.contracted(self._spacing, self._removed) for law in self._laws]
        laws = tuple((law, step.count) for (law, _), step in zip(found, self._steps, strict=True))
        start = math.fsum(step.count * begin for (_, begin), step in zip(found, self._steps, strict=True))
        return tilted_sum_of(LatticeSum(laws), self._tilt), start

    def _spread(self, spacing: float) -> LatticeSum:
        laws = tuple(law.spread(spacing, self._removed) for law in self._laws)
        return LatticeSum(tuple((law, step.count) for law, step in zip(laws, self._steps, strict=True)))


@dataclass(frozen=True, eq=False)
class _GainCells:
    """The outputs of a gain up to a largest one, in cells.

    Attributes:
        gains: at the edges, rising from 0.
        without: their probabilities by Q.
        more: those by P over 1 - q, less these.
    """

    gains: Array
    without: Array
    more: Array

    def spread(self, spacing: float, removed: bool) -> LatticeMasses:
        """A law of the gains, or of their negatives, on the lattice with no smaller divergence at any gamma."""
        if removed:
            return LossCells(self.gains, self.without + self.more, self.without).from_above(spacing)
        backwards = slice(None, None, -1)
        sampled = (self.without + self.more)[backwards]
        return LossCells(-self.gains[backwards], self.without[backwards], sampled).from_above(spacing)

    def contracted(self, spacing: float, removed: bool) -> tuple[LatticeMasses, float]:
        """A law with no larger divergence at any gamma, and the gain, or its negative, that the lattice begins with."""
        for k in range(_TIMES):
            excess, q = self._labels(spacing / 2 * _WIDER**k)
            places = _places(excess, spacing)
            masses = _smaller(excess, q, places)
            if masses is not None:
                start = math.log1p(excess[0])
                if removed:
                    return LatticeMasses(spacing, 0, masses * (1 + places)), start
                return LatticeMasses(spacing, 1 - masses.size, masses[::-1]), -start
        raise Unresolved("no pair that is smaller on the lattice")

    def _labels(self, least: float) -> tuple[Array, Array]:
        """By how much the likelihood ratio of each cell is above 1, rising, and its probability by Q; gains up to ``least`` are one."""
        first = max(int(np.searchsorted(self.gains, least, side="right")) - 1, 1)
        without = np.concatenate([[self.without[:first].sum()], self.without[first:]])
        more = np.concatenate([[self.more[:first].sum()], self.more[first:]])
        taken = without > _LEAST_MASS
        excess = more[taken] / without[taken]
        order = np.argsort(excess, kind="stable")
        return excess[order], without[taken][order]


def _places(excess: Array, spacing: float) -> Array:
    """The lattice's likelihood ratios, less 1: from the least to beyond the largest."""
    start = math.log1p(excess[0])
    places = np.expm1(start + spacing * np.arange(math.ceil((math.log1p(excess[-1]) - start) / spacing) + 2))
    places[0] = excess[0]
    return np.asarray(places)


def _smaller(excess: Array, q: Array, places: Array) -> Array | None:
    """Probabilities by Q of a pair with ratios at the places and no larger divergence.

    None where the first label has too little, or the second place is too far from it.
    """
    most, first = _below_divergence(excess, q, places)
    lowered = most * (1 - _LOWERED)
    lowered[0] = first
    # A chord from a value that is not lowered is to be below the tangent there; to 0 it would not be where the tangent ends below.
    tangent = first - float(q[1:].sum()) * (places[1] - places[0])
    if not tangent >= 0.0:
        return None
    lowered[1] = min(lowered[1], tangent)
    corners = convex_corners(places, lowered)
    slopes = np.append(np.diff(lowered[corners]) / np.diff(places[corners]), 0.0)
    rest = float(q.sum()) + float(slopes[0])
    if not rest > 0.0:
        return None
    masses = np.zeros(places.size)
    masses[corners] = np.maximum(np.append(rest, np.diff(slopes)), 0.0)  # below 0 by rounding alone
    found = _mean_excess(places, masses)
    holds = found[0] <= first * (1 + _RELATIVE) and bool((found[1:] <= most[1:] * (1 - _LOWERED / 2)).all())
    if not holds or abs(float(masses.sum()) - float(q.sum())) > _MARGIN / 1e6:
        raise Unresolved("a pair that is not smaller on the lattice")
    return masses


def _below_divergence(excess: Array, q: Array, places: Array) -> tuple[Array, float]:
    """At each place a value such that chords between them are at most E_Q (excess - place)+; and that at the first place."""
    values, right = _mean_excess(excess, q), np.append(np.cumsum(q[::-1])[::-1], 0.0)
    place = np.searchsorted(excess, places)
    beyond = np.minimum(place, excess.size - 1)
    at = np.where(place < excess.size, values[beyond] + right[place] * (excess[beyond] - places), 0.0)
    over = np.zeros(places.size - 1)  # by how much the chord of a cell is above
    np.maximum.at(over, np.searchsorted(places, excess[1:]) - 1, np.interp(excess[1:], places, at) - values[1:])
    over[0] = 0.0
    low = (over > 0.0) & ((at[:-1] < over) | (at[1:] < over))
    nothing = np.append(low, False) | np.append(False, low)
    return np.where(nothing, 0.0, at - np.maximum(np.append(over, 0.0), np.append(0.0, over))), float(at[0])


def _mean_excess(places: Array, masses: Array) -> Array:
    """sum (place - z)+ at each place z, by sums of numbers >= 0 alone."""
    heavier = np.cumsum(masses[::-1])[::-1][1:]
    return np.append(np.cumsum((np.diff(places) * heavier)[::-1])[::-1], 0.0)


def _gain_cells(step: Step, top: float, number: int) -> _GainCells:
    """The outputs of a gain up to ``top``."""
    highest = _output(step, top)
    shift, odds = 1 / step.noise_multiplier, step.sampling_rate / (1 - step.sampling_rate)
    if highest > shift + _FARTHEST:
        raise Unresolved("no output has so large a loss")
    lowest = max(highest - _SCALES / shift, min(-_FARTHEST, highest - 1.0))
    edges = np.concatenate([[-math.inf], np.linspace(lowest, highest, number)])
    gains = np.logaddexp(0.0, math.log(odds) + shift * edges[1:] - shift**2 / 2)
    return _GainCells(
        np.concatenate([[0.0], gains]),
        interval(edges[:-1], edges[1:]),
        odds * interval(edges[:-1] - shift, edges[1:] - shift),
    )


def _output(step: Step, gain: float) -> float:
    """The output with this gain."""
    shift = 1 / step.noise_multiplier
    log_excess = gain + math.log(-math.expm1(-gain))
    return (log_excess - math.log(step.sampling_rate) + math.log1p(-step.sampling_rate)) / shift + shift / 2


@dataclass(frozen=True)
class _Decided:
    """Of the runs with an output beyond the largest gain: their probability by Q, and by how much that by P is larger."""

    by_q: float
    more: float

    @classmethod
    def by(cls, steps: Steps, top: float) -> "_Decided":
        log_inside = log_ratio = 0.0
        for step in steps:
            shift, highest = 1 / step.noise_multiplier, _output(step, top)
            beyond = float(scipy.special.ndtr(-highest))
            more = step.sampling_rate * float(interval(np.array(highest - shift), np.array(highest)))
            log_inside += step.count * math.log1p(-beyond)
            log_ratio += step.count * math.log1p(-more / (1 - beyond))
        return cls(-math.expm1(log_inside), -math.expm1(log_ratio) * math.exp(log_inside))

    def bounds(self, epsilon: float) -> tuple[float, float]:
        """Of P - e^epsilon Q."""
        less, wrong = math.expm1(epsilon) * self.by_q, _RELATIVE * (self.more + abs(math.expm1(epsilon)) * self.by_q)
        return self.more - less - wrong, self.more - less + wrong


def _crossing_within(
    falling: Callable[[float], float], level: float, ends: tuple[float, float], *, down: bool
) -> float:
    """Just before a falling function crosses a level within the ends, or just after; 0 where it is below everywhere, going down."""
    low, high = ends

    def excess(epsilon: float) -> float:
        return math.log(max(falling(epsilon), 1e-320)) - math.log(level)

    if excess(low) <= 0.0:
        return 0.0 if down else low
    if excess(high) > 0.0:
        if down:
            return high
        raise Unresolved("delta crosses the level beyond", low)
    root = float(scipy.optimize.brentq(excess, low, high, xtol=1e-13 * high, rtol=1e-12))
    step = 2e-12 * root + 2e-13 * high
    while excess(root) < 0.0 if down else excess(root) > 0.0:  # the root is known to either side only
        root, step = min(max(root - step, low), high) if down else min(root + step, high), 2 * step
    return root
