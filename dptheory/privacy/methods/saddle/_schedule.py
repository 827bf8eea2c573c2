r"""The law of the losses of steps of thousands of kinds, as a measure for the saddle line.

Kinds of few rates are taken one by one. Of more, log M(s) is an analytic function of the rate q and of the precision
p = noise multiplier^2, so that in a cell of near kinds it is, but for a proven remainder, the polynomial through its values at
Chebyshev points: a sum over ten thousand kinds is one over some hundreds, with weights of either sign.
proofs/privacy/saddle_line.md, step 15.
"""

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dptheory.privacy._bounds import Direction, Unresolved
from dptheory.privacy._parts import Steps
from dptheory.privacy.methods._sampled_loss import HALF, Complexes, Moments, Reals, log_shares
from dptheory.privacy.methods.saddle._kinds import NATS, Group, Rule, group_of, log_less, moments_about, rule_of, turned

Kind = tuple[float, float, float]
"""Rate, t^2 and count."""

_OCTAVES = 2.0
"""Of t^2, in kinds that share nodes."""
_POINTS, _MANY = 16, 64
"""Chebyshev points of a cell's side; kinds for which the points of both sides are worth it."""
_DISC, _PRECISIONS = 0.75, 0.12
"""The largest discs in which moments are bounded, over their middle: of rates, of precisions."""
_RATIO = 3.0
"""Of a disc's radius to half the side of its cell."""
_NEAR, _PLACES = 0.6, 32
"""By how much of itself a moment may vary in a cell's discs, and at how many places that is looked at."""
_MOST_RATES = 10_000
"""Products of matrices of their own: some seconds, and most of a gigabyte."""
_LINE = 0.5
"""The line, a root of two below the highest, on which moments are compared: its rule errs by 1e-14."""
_ROUNDED = 1e-14
"""What rounding of shares does: some units in the last place for each of the points."""
_NARROW = 1e-6
"""A side of a cell less than this share of its end is not told apart from rounding by Chebyshev points."""
_MOST_LOG = 600.0
_POWERS, _DENSE = 4, 20
"""Powers of a rate's losses, and products of matrices, take no longer than one in so many of other products."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """The law of the sum of the losses of sampled steps, "remove" or "add".

    Attributes:
        octaves: kinds that share nodes.
        guide: fewer kinds of about the same law, for what is no bound.
    """

    octaves: tuple[tuple[Kind, ...], ...]
    guide: tuple[Group, ...]
    direction: Direction
    left_out: float = 0.0

    def total(self, c: float) -> Moments:
        """About log M and its derivatives."""
        found = [moments_about(group, c) for group in self.guide]
        return Moments(
            math.fsum(one.value for one in found),
            math.fsum(one.slope for one in found),
            math.fsum(one.curvature for one in found),
        )

    def log_bound(self, c: float) -> float:
        if c in (0.0, -1.0):
            return 0.0  # M(0) = M(-1) = 1
        return _rules(self, c, 0.0).log_moment

    def at(self, c: float) -> "_ScheduleAt":
        return _ScheduleAt(self, c)


def schedule(steps: Steps, guide: Steps, direction: Direction) -> Schedule:
    groups = tuple(group_of(kinds, direction) for kinds in _octaves(guide))
    return Schedule(tuple(_octaves(steps)), groups, direction)


def _octaves(steps: Steps) -> Iterable[tuple[Kind, ...]]:
    octaves: dict[int, list[Kind]] = defaultdict(list)
    for step in steps:
        variance = step.noise_multiplier**-2.0
        octaves[math.floor(math.log2(variance) / _OCTAVES)].append((step.sampling_rate, variance, float(step.count)))
    return (tuple(kinds) for kinds in octaves.values())


@dataclass(frozen=True, eq=False)
class _ScheduleAt:
    """Its moments at c + iu, u >= 0: how near the kinds of a cell have to be depends on how far u goes."""

    schedule: Schedule
    c: float

    @property
    def log_moment(self) -> float:
        return _rules(self.schedule, self.c, 0.0).log_moment

    @property
    def size(self) -> int:
        return _rules(self.schedule, self.c, 0.0).size

    def log_decay(self, u: float) -> float:
        rules = self._up_to(u)
        return rules.log_decay(u) + rules.log_moment - self.log_moment

    def terms(self, h: float, count: int) -> tuple[Complexes, Reals]:
        return self._up_to(h * count).terms(h, count)

    def _up_to(self, u: float) -> "_Rules":
        return _rules(self.schedule, self.c, 2.0 ** math.ceil(math.log2(u)))


@dataclass(frozen=True, eq=False)
class _Rules:
    """The moments of all kinds, by some rules, of which each serves its own."""

    rules: tuple["Rule | _CellsAt", ...]

    @functools.cached_property
    def log_moment(self) -> float:
        return math.fsum(rule.log_moment for rule in self.rules)

    @property
    def size(self) -> int:
        return 1 + sum(rule.losses.size // _POWERS + rule.weights.size // _DENSE for rule in self.rules)

    def log_decay(self, u: float) -> float:
        return math.fsum(rule.log_decay(u) for rule in self.rules)

    def terms(self, h: float, count: int) -> tuple[Complexes, Reals]:
        found = [rule.terms(h, count) for rule in self.rules]
        return np.sum([logs for logs, _ in found], axis=0), np.sum([errors for _, errors in found], axis=0)


@functools.lru_cache(maxsize=3)
def _rules(schedule: Schedule, c: float, reach: float) -> _Rules:
    """That serve u up to ``reach``."""
    parts: list[tuple[Group, _Points | None]] = []
    for kinds in schedule.octaves:
        alone, cells = _apart(kinds, c, reach, schedule.direction)
        if alone:
            parts.append((group_of(alone, schedule.direction), None))
        if cells:
            points = _points_of(cells, schedule.direction)
            parts.append((points.group, points))
    rates = sum(group.rates.size for group, _ in parts)
    if rates > _MOST_RATES:
        raise Unresolved(f"{rates} rates that are not near one another")
    rules = [(rule_of(group, c), points) for group, points in parts]
    return _Rules(tuple(rule if points is None else _CellsAt(points, rule) for rule, points in rules))


@dataclass(frozen=True)
class _Cell:
    """Near kinds: a rectangle of rates and precisions, and a disc about the middle of either side."""

    kinds: tuple[Kind, ...]

    @functools.cached_property
    def rates(self) -> tuple[float, float]:
        rates = [rate for rate, _, _ in self.kinds]
        return min(rates), max(rates)

    @functools.cached_property
    def precisions(self) -> tuple[float, float]:
        variances = [variance for _, variance, _ in self.kinds]
        return 1 / max(variances), 1 / min(variances)

    @property
    def middle(self) -> Kind:
        return sum(self.rates) / 2, 2 / sum(self.precisions), 0.0

    @property
    def radius(self) -> float:
        """Of the disc of rates."""
        return _RATIO * (self.rates[1] - self.rates[0]) / 2

    @property
    def spread(self) -> float:
        """The radius of the disc of precisions over its middle."""
        low, high = self.precisions
        return _RATIO * (high - low) / (high + low)

    @property
    def sides(self) -> list[tuple[float, float]]:
        """Those that are interpolated."""
        return [self.rates] if self.spread == 0.0 else [self.rates, self.precisions]

    @property
    def pays(self) -> bool:
        """Whether its points can stand for its kinds, and take less time."""
        kinds = _POINTS if self.spread == 0.0 else _MANY
        wide = all(high - low > _NARROW * high for low, high in self.sides)
        return wide and len(self.kinds) > kinds and len({rate for rate, _, _ in self.kinds}) > _POINTS

    def halves(self) -> list["_Cell"]:
        middle = sum(self.rates) / 2
        return [_Cell(tuple(kind for kind in self.kinds if (kind[0] < middle) == low)) for low in (True, False)]


def _apart(kinds: Iterable[Kind], c: float, reach: float, direction: Direction) -> tuple[list[Kind], list[_Cell]]:
    """The kinds to be taken one by one, and the others' cells: so small that moments up to ``reach`` vary little in their discs."""
    columns: dict[tuple[bool, int], list[Kind]] = defaultdict(list)
    alone: list[Kind] = []
    for kind in kinds:
        if kind[0] == 1.0:
            alone.append(kind)
        else:
            columns[kind[0] < 0.5, _place(min(kind[0], 1.0 - kind[0]), _DISC)].append(kind)
    asked, cells = [cell for column in columns.values() for cell in _rows(column)], []
    while asked:
        alone += [kind for cell in asked if not cell.pays for kind in cell.kinds]
        asked = [cell for cell in asked if cell.pays]
        if asked:
            points = _group(asked, [], [], direction)
            near = _near(points, rule_of(points.group, c), reach)
            cells += list(itertools.compress(asked, near))
            asked = [half for cell in itertools.compress(asked, ~near) for half in cell.halves()]
    return alone, cells


def _near(points: "_Points", rule: Rule, reach: float) -> NDArray[np.bool_]:
    """Of each cell, whether its moments and the bounds of their moduli vary by a small share of themselves in its discs."""
    h, rungs = reach / _PLACES, rule.rungs(reach)[points.middles]
    moments = _moved(points, rule, np.full(rungs.size, _LINE), h * np.arange(_PLACES + 1, dtype=np.float64))
    of_moments = (moments / np.maximum(np.abs(_values(points, rule, h, _PLACES)), 1e-300)).max(axis=1)
    logs, _ = rule.log_falls(reach, rungs[points.owners])
    of_moduli = _moved(points, rule, rungs, np.array([reach]))[:, 0] / np.exp(logs[points.middles])
    return np.asarray(np.maximum(of_moments, of_moduli) <= _NEAR)


def _values(points: "_Points", rule: Rule, h: float, count: int) -> Complexes:
    """M(c + iu) over M(c) of each cell's middle at u = 0, h .. h count."""
    losses = rule.losses[rule.group.places[points.middles]]
    weights = rule.weights[points.middles]
    return np.array([1 + one @ turned(of_rate, h, count) for one, of_rate in zip(weights, losses, strict=True)])


def _rows(column: list[Kind]) -> list[_Cell]:
    """Of one precision each where these are few, else those within a disc."""
    by_noise: dict[float, list[Kind]] = defaultdict(list)
    rows: dict[int, list[Kind]] = defaultdict(list)
    for kind in column:
        by_noise[kind[1]].append(kind)
        rows[_place(1 / kind[1], _PRECISIONS)].append(kind)
    return [_Cell(tuple(row)) for row in (by_noise if len(by_noise) <= _POINTS else rows).values()]


def _place(value: float, disc: float) -> int:
    """Of the cell, by the ratio of its ends that the disc allows."""
    return math.floor(math.log(value) / math.log((1 + disc / _RATIO) / (1 - disc / _RATIO)))


@dataclass(frozen=True, eq=False)
class _Points:
    """The Chebyshev points that stand for the kinds of some cells, with the cells' middles.

    Attributes:
        group: of both; the counts of points are weights of either sign, those of middles 0.
        owners: of each its cell.
        middles: of each cell its middle's place in the group.
        cells: the cells.
    """

    group: Group
    owners: NDArray[np.intp]
    middles: NDArray[np.intp]
    cells: list[_Cell]

    @functools.cached_property
    def counts(self) -> Reals:
        """Of each cell the number of steps."""
        return np.array([math.fsum(count for _, _, count in cell.kinds) for cell in self.cells])

    @functools.cached_property
    def shrink(self) -> Reals:
        """Of each cell the remainders of its sides' polynomials over the most that log M varies by in its discs."""
        rho = _RATIO + math.sqrt(_RATIO**2 - 1)  # the sum of half-axes of an ellipse in the disc
        one = 4 * rho ** (1 - _POINTS) / (rho - 1)
        return np.array([one if cell.spread == 0.0 else one * (1 + _norm()) for cell in self.cells])

    @functools.cached_property
    def roundings(self) -> Reals:
        """What rounding of the points does, over what log M varies by, and of the weights, over its values; for each cell.

        A rational function with weights of exact points goes through rounded ones: saddle_line.md, step 15.
        """
        of_points = [
            8 * HALF * _POINTS**2 * _norm() * sum(high / (high - low) for low, high in cell.sides)
            for cell in self.cells
        ]
        of_sums = [(_ROUNDED + HALF * len(cell.kinds)) * _norm() ** 2 for cell in self.cells]
        return np.array([of_points, of_sums])

    def sums(self, values: Reals) -> Reals:
        """Of each cell, over its points."""
        return np.asarray(np.bincount(self.owners, values), dtype=np.float64)


def _points_of(cells: list[_Cell], direction: Direction) -> _Points:
    points: list[Kind] = []
    owners: list[int] = []
    for number, cell in enumerate(cells):
        counts = np.array([count for _, _, count in cell.kinds])
        rates, of_rates = _interpolation(*cell.rates, [rate for rate, _, _ in cell.kinds])
        precisions, of_precisions = np.array(cell.precisions[:1]), np.ones((counts.size, 1))
        if cell.spread > 0.0:
            own = [1 / variance for _, variance, _ in cell.kinds]
            precisions, of_precisions = _interpolation(*cell.precisions, own)
        weights = (of_rates * counts[:, None]).T @ of_precisions
        pairs = itertools.product(rates.tolist(), precisions.tolist())
        points += [(rate, 1 / one, weight) for (rate, one), weight in zip(pairs, weights.ravel().tolist(), strict=True)]
        owners += [number] * weights.size
    return _group(cells, points, owners, direction)


def _group(cells: list[_Cell], points: list[Kind], owners: list[int], direction: Direction) -> _Points:
    kinds = points + [cell.middle for cell in cells]
    order = sorted(range(len(kinds)), key=kinds.__getitem__)  # as a group has them
    of_kinds = np.array([*owners, *range(len(cells))])
    return _Points(group_of(kinds, direction), of_kinds[order], np.argsort(order)[len(points) :], cells)


def _interpolation(low: float, high: float, places: list[float]) -> tuple[Reals, Reals]:
    """Chebyshev points with both ends, and for each place the shares of the values at these."""
    points = (low + high) / 2 - (high - low) / 2 * np.cos(np.pi * np.arange(_POINTS) / (_POINTS - 1))
    points[0], points[-1] = low, high
    signs = (-1.0) ** np.arange(_POINTS)
    signs[[0, -1]] /= 2
    gaps = np.subtract.outer(np.array(places), points)
    hits = gaps == 0.0
    shares = signs / np.where(hits, 1.0, gaps)
    shares /= shares.sum(axis=1, keepdims=True)
    return points, np.where(hits.any(axis=1, keepdims=True), hits, shares)


def _norm() -> float:
    """Of interpolation at Chebyshev points: no sum of the moduli of the shares is larger."""
    return 1 + 2 / math.pi * math.log(_POINTS)


@dataclass(frozen=True, eq=False)
class _CellsAt:
    """Moments of interpolated kinds at c + iu, u >= 0, by a rule for their points."""

    points: _Points
    rule: Rule

    @property
    def losses(self) -> Complexes:
        return self.rule.losses

    @property
    def weights(self) -> Complexes:
        return self.rule.weights

    @functools.cached_property
    def log_moment(self) -> float:
        ones = np.ones((len(self.points.cells), 1))
        return self.rule.log_moment + float(self._remainders(self._line, np.zeros(1), ones, ones, self._errors).sum())

    def terms(self, h: float, count: int) -> tuple[Complexes, Reals]:
        points, rule = self.points, self.rule
        u = h * np.arange(count + 1, dtype=np.float64)
        values = _values(points, rule, h, count)
        rounding = np.outer(rule.loss_rounding[points.middles], u)
        levels = np.abs(values) - 3 * self._errors[points.middles, None] - rounding
        # logarithms about the middle's: its disc does not hold 0, but may reach over the negative axis
        logs, errors = rule.terms(h, count, lambda rows: values[points.owners[rows]])
        phases = points.counts @ np.angle(values)
        logs += 1j * (phases if rule.group.direction == "remove" else -phases)
        errors += self._remainders(self._line, u, values, levels, self._errors).sum(axis=0)
        if not np.isfinite(errors).all():
            raise Unresolved("moments of near kinds are not bounded")
        return logs, errors

    def log_decay(self, u: float) -> float:
        """As of kinds one by one, but that all of a cell take one line."""
        points, rule, counts = self.points, self.rule, self.rule.group.counts
        rungs = rule.rungs(u)[points.middles]
        logs, shares = rule.log_falls(u, rungs[points.owners])
        errors = np.where(counts < 0, -log_less(shares), np.log1p(shares)) + rule.moment_errors
        values = np.asarray(np.exp(logs[points.middles, None]), dtype=np.float64)
        raised = np.exp(np.square(rule.height_of(rungs[points.owners])) / (2 * rule.group.variances))
        remainders = self._remainders(rungs, np.array([u]), values, values, rule.decay_errors * raised)[:, 0]
        bounds = points.sums(counts * logs + np.abs(counts) * errors) + remainders
        return float(np.minimum(bounds, 0.0).sum())

    @property
    def _line(self) -> Reals:
        return np.full(len(self.points.cells), _LINE)

    @property
    def _errors(self) -> Reals:
        """Of each point, of the rule on the line on which moments are compared."""
        return np.asarray(1.01 / math.expm1(NATS * 2.0**-_LINE) + self.rule.errors)

    def _remainders(self, rungs: Reals, u: Reals, values: Complexes | Reals, levels: Reals, errors: Reals) -> Reals:
        """Of each cell: how far the sum of its steps' logarithms may lie from that of its points.

        Args:
            rungs: of each cell the line whose sums are compared.
            u: places on the line.
            values: of each cell's middle at these places, over its M(c).
            levels: lower bounds of their moduli.
            errors: of each point's rule, over its M(c).
        """
        moved = _moved(self.points, self.rule, rungs, u)
        inside = moved < 0.99 * levels
        gaps = np.where(inside, levels - moved, 1.0)
        varied = np.where(inside, np.log(np.where(inside, levels, 1.0) / gaps), math.inf)
        sizes = np.abs(np.log(values)) + np.abs(self.rule.log_moments[self.points.middles, None])
        largest = np.zeros(len(self.points.cells))
        np.maximum.at(largest, self.points.owners, errors)
        rules = 4 * (1 + _norm() ** 2) * (self._of_corners * largest)[:, None] / gaps
        of_points, of_sums = self.points.roundings[:, :, None]
        remainders = (self.points.shrink[:, None] + of_points) * varied + rules + of_sums * (varied + sizes) + 8 * HALF
        return np.asarray(self.points.counts[:, None] * remainders)

    @functools.cached_property
    def _of_corners(self) -> Reals:
        """A bound of the errors of a cell's kinds over those of its corners, which are points: no M(c) is below their quarter."""
        if _moved(self.points, self.rule, self._line, np.zeros(1)).max() > _NEAR:
            raise Unresolved("kinds of a cell that are not near")
        ends, widest = self.rule.places[[0, -1]], float(self.rule.group.variances.max())
        # beyond the nodes the density's modulus is to rise with the variance, on the line, too
        if np.any(ends**2 - self.rule.height**2 <= widest**2 / 4 + widest):
            raise Unresolved("nodes that do not reach where the laws of near kinds fall")
        ratio = np.ones(len(self.points.cells))
        for slopes in self.rule.slopes:
            steepest, flattest = np.zeros(ratio.size), np.full(ratio.size, math.inf)
            np.maximum.at(steepest, self.points.owners, slopes)
            np.minimum.at(flattest, self.points.owners, slopes)
            ratio = np.maximum(ratio, steepest / flattest)
        return 4 * ratio


def _moved(points: _Points, rule: Rule, rungs: Reals, u: Reals) -> Reals:
    """Bounds of how far sums on a line are from the middle's, over its M(c), for all rates and precisions in a cell's discs."""
    found = []
    for middle, rung, cell in zip(points.middles, rungs, points.cells, strict=True):
        place, variance, height = rule.group.places[middle], rule.group.variances[middle], rule.height_of(rung)
        v = rule.places + 1j * height
        raised = log_shares(rule.group.rates[place], v)
        # |exp(v) - 1| over |Lambda|
        away = np.abs(np.expm1(-np.abs(v.real) + 1j * v.imag)) * np.exp(np.maximum(v.real, 0.0) - raised.real)
        if cell.radius * float(away.max()) >= 1.0:
            raise Unresolved("a disc of rates that reaches where the loss is infinite")
        of_rate = -np.log1p(-cell.radius * away)
        of_noise = cell.spread / 2 * np.abs(v**2 / variance - 1)
        of_noise += cell.spread / (1 - cell.spread) * (cell.spread / 4 + variance / 8)
        with np.errstate(divide="ignore"):  # weights that are 0
            logs = np.log(rule.real_weights[middle]) + height**2 / (2 * variance)
        logs += rule.exponent * (raised.real - rule.real_losses[place])
        logs = logs - np.multiply.outer(u, raised.imag)
        stretch = np.multiply.outer(abs(rule.exponent) + u, of_rate) + of_noise
        found.append((np.exp(np.minimum(logs + stretch, _MOST_LOG)) * -np.expm1(-stretch)).sum(axis=1))
    return 1.01 * np.array(found)
