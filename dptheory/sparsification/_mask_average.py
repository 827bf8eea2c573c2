r"""E[f(Y)] for the share Y of a gradient's squared norm that a random mask keeps, between two proved bounds.

Notation: p_1, ..., p_d >= 0 with sum 1, a mask keeps ``keep`` of them, every choice equally likely; Y = their sum, x = keep / d,
f(Y) = min(s Y, sqrt Y) with s >= 1, y0 = 1 / s^2 the point where its pieces meet.

The entries are put into levels of nearly equal size. How many of each level are kept is followed level by level, largest
entries first; states with the same number kept and nearly the same mean of Y are merged. Of every state the mean and the
variance of Y given that state are kept exactly. f is concave, so f(mean) bounds the state's part from above; a parabola
below f bounds it from below by mean and variance. Nothing is drawn at random.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dptheory._arrays import Array

Index = NDArray[np.intp]

_TOLERANCE = 1e-3  # half-width over value at which refining stops
_SPREADS = (0.03, 0.006, 0.0012, 0.0003)  # variance of Y / mean within a state that each refinement aims at
_SINGLE = 8  # so many of the largest entries are levels of their own
_NEGLIGIBLE = 1e-15  # chance below which a state is dropped, and counted among the missing
_LOG_TAIL = 40.0  # a level's count is followed until its tails have a chance below 2 e^-40
_SMALL = 1e-8  # means below this share of x are all merged
_LARGEST_SCALE = 1e50  # beyond, s changes E[f] by less than 1e-50
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Bracket:
    """low <= E[f(Y)] <= high, proved."""

    low: float
    high: float

    @property
    def middle(self) -> float:
        return 0.5 * (self.low + self.high)

    @property
    def half_width(self) -> float:
        return 0.5 * (self.high - self.low)


@dataclass(frozen=True)
class Shares:
    """p_1 <= ... <= p_d, shape (d,), with sum 1."""

    ascending: Array

    @property
    def dim(self) -> int:
        return self.ascending.size

    @cached_property
    def up_to(self) -> Array:
        """p_1 + ... + p_i, i = 1, ..., d."""
        return np.cumsum(self.ascending)

    @cached_property
    def squares_up_to(self) -> Array:
        """p_1^2 + ... + p_i^2, i = 1, ..., d."""
        return np.cumsum(np.square(self.ascending))


def mean_descent(shares: Shares, keep: int, scale: float) -> Bracket:
    """Bracket of E[f(Y)], refined until its half-width is a thousandth of it or the finest levels are reached.

    Source: RS, Lemma 3.3 (rs.kappa, rs.kappa_error).
    """
    x, scale = keep / shares.dim, min(scale, _LARGEST_SCALE)
    if scale == 1.0 or keep == shares.dim:
        return Bracket(x, x)
    if keep == 1:
        exact = float(np.mean(descent(shares.ascending, scale)))
        return Bracket(exact, exact)
    step = _only_step(shares.ascending)
    if step is not None:
        return _by_levels(shares, keep, scale, step, 1.0)
    low, high = x, min(x * scale, math.sqrt(x))  # rs.lem3.3
    for spread in (math.inf, *_SPREADS):
        cuts = _cuts(shares, keep, scale, spread)
        width = math.sqrt(12.0 * spread / (cuts.size + 1)) if cuts.size else 1.0
        found = _by_levels(shares, keep, scale, cuts, width)
        low, high = max(low, found.low), min(high, found.high)
        if high - low <= 2.0 * _TOLERANCE * low:
            break
    return Bracket(min(low, high), high)


def descent(y: Array, scale: float) -> Array:
    """f(y) = min(s y, sqrt y)."""
    return np.asarray(np.minimum(scale * y, np.sqrt(y)))


# --- levels -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Level:
    """``count`` entries: their mean, their least, and their sum of squares about the mean over count - 1."""

    count: int
    mean: float
    least: float
    variance: float


def _only_step(p: Array) -> Index | None:
    """Where the second size begins if there are at most two sizes of entries."""
    second = int(np.searchsorted(p, float(p[0]) * (1.0 + _ROUNDING), side="right"))
    if second == p.size:
        return np.zeros(0, dtype=np.intp)
    return np.array([second]) if float(p[second]) >= float(p[-1]) * (1.0 - _ROUNDING) else None


def _cuts(shares: Shares, keep: int, scale: float, spread: float) -> Index:
    """Where levels begin, the first at 0 apart: geometric from the largest entries down, one wide level of little variance."""
    if math.isinf(spread):
        return np.zeros(0, dtype=np.intp)
    p, x = shares.ascending, keep / shares.dim
    # the mean without the entries of which one is kept on average: rare large ones move x, not the typical sum
    typical = x * float(shares.up_to[shares.dim - math.ceil(shares.dim / keep) - 1])
    allowed = spread * typical * max(typical, scale**-2.0) / (x * (1.0 - x))
    rest = int(np.searchsorted(shares.squares_up_to, allowed, side="right"))
    rest = int(np.searchsorted(p, p[min(rest, p.size - 1)], side="left"))  # equal entries stay together
    ratio = 1.0 + math.sqrt(12.0 * spread / min(1.0, float(shares.squares_up_to[-1]) / x))
    steps = math.ceil(math.log(float(p[-1]) / max(float(p[rest]), 1e-300)) / math.log(ratio)) + 1
    ends = float(p[-1]) * ratio ** -np.arange(1.0, steps + 1)
    cuts = np.concatenate([[rest], np.searchsorted(p, ends), np.arange(p.size - _SINGLE, p.size)])
    return np.asarray(np.unique(cuts[(cuts >= max(rest, 1)) & (cuts < p.size)]))


def _levels(p: Array, cuts: Index) -> list[_Level]:
    """Levels from the largest entries to the smallest."""
    starts = np.concatenate([[0], cuts]).astype(np.intp)
    counts = np.diff(np.append(starts, p.size))
    means = np.add.reduceat(p, starts) / counts
    about = np.add.reduceat(np.square(p - np.repeat(means, counts)), starts) / np.maximum(counts - 1, 1)
    found = zip(counts.tolist(), means.tolist(), p[starts].tolist(), about.tolist(), strict=True)
    return [_Level(*one) for one in found][::-1]


# --- states -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _States:
    """Masks that agree on the levels seen so far up to merging; one entry per state.

    ``kept`` of these levels, ``chance`` of the state, and of the sum over these levels given the state its ``mean``, its
    ``variance`` and a lower bound ``least``.
    """

    kept: Index
    chance: Array
    mean: Array
    variance: Array
    least: Array

    def extended(self, level: _Level, hits: Index, chance: Array) -> "_States":
        """``hits`` of the next level are kept, with the chance given."""
        part = level.variance * hits * (1.0 - hits / level.count)
        return _States(
            self.kept + hits,
            self.chance * chance,
            self.mean + hits * level.mean,
            self.variance + part,
            self.least + hits * level.least,
        )

    def chosen(self, which: Index | NDArray[np.bool_]) -> "_States":
        return _States(self.kept[which], self.chance[which], self.mean[which], self.variance[which], self.least[which])

    def merged(self, key: Index) -> "_States":
        """States with equal keys, which have equal ``kept``, become one; mean and variance of the mixture are exact."""
        used = np.bincount(key) > 0
        key = (np.cumsum(used) - 1)[key]
        chance: Array = np.bincount(key, self.chance).astype(np.float64)
        mean = np.bincount(key, self.chance * self.mean) / chance
        variance = np.bincount(key, self.chance * (self.variance + np.square(self.mean - mean[key]))) / chance
        kept: Index = np.zeros(chance.size, dtype=np.intp)
        least: Array = np.full(chance.size, np.inf)
        kept[key] = self.kept
        np.minimum.at(least, key, self.least)
        return _States(kept, chance, mean, variance, least)


def _by_levels(shares: Shares, keep: int, scale: float, cuts: Index, width: float) -> Bracket:
    """The bracket with these levels; means that differ by less than a factor e^width may be merged."""
    levels = _levels(shares.ascending, cuts)
    zero: Array = np.zeros(1)
    none: Index = np.zeros(1, dtype=np.intp)
    states = _States(none, zero + 1.0, zero, zero, zero)
    left, total = shares.dim, 1.0
    for level in levels[:-1]:
        states = _next(states, level, left, keep)
        left, total = left - level.count, total - level.count * level.mean
        expected = states.mean + (keep - states.kept) * max(total, 0.0) / left
        cell = np.floor(np.log(np.maximum(expected, _SMALL * keep / shares.dim)) / width).astype(np.intp)
        cell -= cell.min()
        states = states.merged((states.kept - states.kept.min()) * (cell.max() + 1) + cell)
    states = states.extended(levels[-1], keep - states.kept, np.ones(1))
    return _bounds(states, keep / shares.dim, scale)


def _next(states: _States, level: _Level, left: int, keep: int) -> _States:
    """Every state with every number of hits among the level's entries that has a chance to speak of."""
    kept, which = np.unique(states.kept, return_inverse=True)
    first, law = _hypergeometric(left, level.count, keep - kept)
    wanted = law > _NEGLIGIBLE
    start, length = wanted.argmax(axis=1), wanted.sum(axis=1)
    repeats = length[which]
    parent = np.repeat(np.arange(which.size), repeats)
    column = np.arange(parent.size) - np.repeat(np.cumsum(repeats) - repeats, repeats) + start[which][parent]
    row = which[parent]
    chance = law[row, column]
    bold = states.chance[parent] * chance > _NEGLIGIBLE**2
    parent, row, column, chance = parent[bold], row[bold], column[bold], chance[bold]
    return states.chosen(parent).extended(level, first[row] + column, chance)


def _hypergeometric(population: int, marked: int, draws: Index) -> tuple[Index, Array]:
    """First number of hits and chances of it and the following ones, a row for each number of ``draws``.

    By the ratio of neighbouring chances, over a window outside which Bernstein's inequality leaves 2 e^-40.
    """
    share = marked / population
    variance = draws * share * (1.0 - share)
    reach = np.ceil(_LOG_TAIL / 3.0 + np.sqrt(_LOG_TAIL**2 / 9.0 + 2.0 * _LOG_TAIL * variance)).astype(np.intp)
    least, most = np.maximum(0, draws + marked - population), np.minimum(draws, marked)
    first = np.maximum(least, np.floor(draws * share).astype(np.intp) - reach)
    last = np.minimum(most, np.ceil(draws * share).astype(np.intp) + reach)
    hits = first[:, None] + np.arange(int((last - first).max()) + 1)
    inside = hits <= last[:, None]
    before = np.where(inside, hits, last[:, None])[:, 1:] - 1.0
    n = draws[:, None]
    with np.errstate(divide="ignore"):
        ratio = np.log((marked - before) * (n - before)) - np.log(
            (before + 1.0) * (population - marked - n + before + 1.0)
        )
    log_law = np.concatenate([np.zeros((draws.size, 1)), np.cumsum(ratio, axis=1)], axis=1)
    log_law = np.where(inside, log_law, -np.inf)
    law = np.exp(log_law - log_law.max(axis=1, keepdims=True))
    return first, law / law.sum(axis=1, keepdims=True)


# --- bounds -----------------------------------------------------------------------------------------------------------


def _bounds(states: _States, x: float, scale: float) -> Bracket:
    """Sum of the states' bounds; E[Y] = x says how much the states that were dropped can add."""
    missing = max(0.0, 1.0 - float(states.chance.sum()))
    missing_mean = max(0.0, x - float(states.chance @ states.mean))
    dropped = min(scale * missing_mean, math.sqrt(missing * missing_mean))
    high = (float(states.chance @ descent(states.mean, scale)) + dropped) * (1.0 + _ROUNDING)
    low = float(states.chance @ lower_bound(states.mean, states.variance, states.least, scale)) * (1.0 - _ROUNDING)
    return Bracket(low, high)


def lower_bound(mean: Array, variance: Array, least: Array, scale: float) -> Array:
    r"""Below E[f(Y)] for every Y >= ``least`` with this mean and variance.

    f = g - (s/2) (y0 - Y)_+ with g = sqrt Y from y0 on and its tangent before.

    Source: RS, Lemma 3.3 (rs.kappa_error, steps 3 and 4).
    """
    y0 = scale**-2.0
    above = mean >= y0
    gap, room = y0 - mean, np.maximum(y0 - least, 0.0)
    safe = np.where(mean > 0.0, mean, 1.0)
    root = np.sqrt(safe)
    parabola = np.where(
        above,
        np.minimum(scale / (8.0 * safe), 0.5 / (root * np.square(root + np.sqrt(np.minimum(least, safe))))),
        scale**3 / (8.0 * np.square(1.0 + np.sqrt(np.maximum(gap, 0.0) / y0))),
    )
    # E(y0 - Y)_+ less (y0 - mean)_+: Scarf's bound, or that for Y >= least where it is the smaller one
    reach = np.sqrt(variance + np.square(gap)) + np.abs(gap)
    excess = np.divide(0.5 * variance, reach, out=np.zeros_like(mean), where=reach > 0.0)
    centred = np.maximum(mean - least, 0.0)
    moment = np.square(centred) + variance
    wide = 2.0 * room * centred < moment
    share = np.divide(variance, moment, out=np.zeros_like(mean), where=moment > 0.0)
    excess = np.where(wide, np.minimum(excess, room * share - np.maximum(gap, 0.0)), excess)
    bound = descent(mean, scale) - parabola * variance - 0.5 * scale * np.maximum(excess, 0.0)
    return np.asarray(np.maximum(bound, np.maximum(mean, descent(least, scale))))
