"""The saddle line as a method: delta and epsilon of noisy values of Poisson samples, of steps that may differ.

The bounds hold everywhere and are as narrow as the errors that proofs/privacy/saddle_line.md bounds. Where the line's bracket of
delta is wide the law of the losses is split, in the runs without an extreme output and the rest, or bands of the rest, each with a
line of its own; or more nodes are taken; and closed forms bound what no line does. Epsilon is where delta crosses the one asked for.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from dptheory.privacy._bounds import LINE, RTOL, Direction, Unresolved
from dptheory.privacy._parts import Parts, Step, Steps, unsampled_mu
from dptheory.privacy.methods._closed_forms import (
    LEAST,
    Curve,
    first_that_holds,
    gaussian_bracket,
    gaussian_epsilon,
    one_step_epsilon,
    participation_delta,
    participation_epsilon,
    unsampled_ends,
)
from dptheory.privacy.methods._method import Bracket
from dptheory.privacy.methods.saddle._line import (
    LEFT_OUT,
    MOST,
    Line,
    Losses,
    Product,
    bands,
    cut,
    law,
    least_point,
    line_at,
    line_of,
    log_chernoff,
    output,
    plan_line,
    saddle_at,
    saddle_for,
    split,
    step_losses,
    total_of,
)

WIDEST = RTOL
"""Largest width of a bracket of delta, relative."""
WANTED = 5e-10  # relative: a bracket of delta that does this is not tried to better by a split
MANY_PRODUCTS = 50_000_000
"""After so many, some tenths of a second, a bracket that is narrow enough is not tried to better."""
_MOST_PRODUCTS, _USEFUL = 200_000_000, 3e-4
"""After so many no narrower bracket is sought where one is as narrow as this, unless it is asked for."""
_NEARLY = 1e-7  # relative: where a split does this, the one with outputs left out may do WANTED
_FINE = 1e-8  # relative: a line that does this needs no second one
_NARROW = 1e-6  # relative: a split that does this needs no other
_NOTHING = 1e-250  # a delta that nobody asks for, where a line would overflow
_CLOSED_WIDTH = 1e-9  # relative: closed forms that do this need no line
_NARROW_OF_ALL = 1e-10  # of 1 - delta: what a trade-off is made of
_CUTS = 3
_ROUGH_CUT = -25.0
"""log of the delta of a first cut."""
_SHARE = 0.94
_SPLITS = tuple((outputs, leave_out) for outputs in (1, 4, 16) for leave_out in (False, True))
"""Where the law is split: at ``_SHARE`` of the output as many of which add up to a loss of epsilon; and whether outputs far
beyond the one whose loss is epsilon are left out."""
_OF_SEVERAL, _LARGE = ((4, False), (16, False)), 20.0
_FAR_OUT = 26.0
"""Nats below what one output alone makes of delta."""
_SPLIT_NODES = 2**15
_LONG = 6 * MOST
"""Nodes of the line that is tried last: what a smoothing adds falls with their square."""
_MANY = 16
_BAND, _MOST_BANDS = 1.0, 8
_ROOM = 2.001
"""Times the width of a cut: between the highest floor and the cut."""
_BEFORE = (1.0, 0.7, 0.4)
"""Of the saddle's c, for Chernoff's bound: a moment with a cut may explode just beyond the saddle."""
_LOG_UNSEEN = -600.0


@dataclass(frozen=True)
class Chernoff:
    """delta of a part of the law that hardly matters: at most exp(log_bound - c epsilon)."""

    c: float
    log_bound: float
    products: int = 0

    def delta_bracket(self, epsilon: float) -> tuple[float, float]:
        return 0.0, min(1.0, math.exp(min(self.log_bound - self.c * epsilon, 0.0)))

    def middle(self, epsilon: float) -> tuple[float, float]:
        return 0.0, 0.0


Way = tuple[int, bool] | str
"""How the law is split: not at all, in few or many nodes; in bands; or as ``_SPLITS`` says."""


@dataclass(frozen=True)
class Lines:
    """The parts of the law, whose deltas add up; for epsilons near the one that it was made for; ``way``: how it was split."""

    epsilon: float
    parts: tuple[Line | Chernoff, ...]
    way: "Way" = "whole"

    @property
    def products(self) -> int:
        """What they cost."""
        return sum(part.products for part in self.parts)

    def delta_bracket(self, epsilon: float) -> tuple[float, float]:
        lower = upper = 0.0
        for part in self.parts:
            low, high = part.delta_bracket(epsilon)
            lower, upper = lower + low, upper + high
        return lower, min(1.0, max(upper * (1 + 1e-15), LEAST))

    def middle(self, epsilon: float) -> tuple[float, float]:
        """About delta(epsilon) and its derivative."""
        found = [part.middle(epsilon) for part in self.parts]
        return sum(value for value, _ in found), sum(slope for _, slope in found)


def without_lines(steps: Losses, epsilon: float) -> float:
    """Upper bound of delta of sampled steps that needs no line, and may be far above delta."""
    return min(by_participations(steps, epsilon), _chernoff(steps, epsilon))


def by_participations(steps: Losses, epsilon: float) -> float:
    """Upper bound of delta of steps of one kind, close where little is hidden; 1 of others."""
    if len(steps) > 1:
        return 1.0
    size = 2.0 if steps[0].direction == "replace" else 1.0
    return participation_delta(size * steps[0].shift, steps[0].sampling_rate, steps[0].count, epsilon)


def _chernoff(steps: Losses, epsilon: float) -> float:
    """An upper bound where no line is to be had, as for a delta of exp(-1000)."""
    whole = law(cut(steps, _LOG_UNSEEN))
    try:
        c = least_point(whole, epsilon).c
        return min(1.0, math.exp(min(log_chernoff(whole, c) - c * epsilon, 0.0)) + whole.left_out + LEAST)
    except Unresolved:
        return 1.0


def narrow(low: float, high: float) -> bool:
    return high - low <= WIDEST * high


def largest_loss(steps: Losses) -> float:
    """What the losses of all steps never exceed: without the record a sample's density is at most 1 / (1 - q) times the other."""
    if any(step.direction != "add" or step.sampling_rate == 1.0 for step in steps):
        return math.inf
    return -sum(step.count * math.log1p(-step.sampling_rate) for step in steps) * (1 + 2e-15)


def gaussian_mu(steps: Losses) -> float | None:
    """Losses without sampling are one Gaussian mechanism."""
    return None if any(step.sampling_rate < 1.0 for step in steps) else unsampled_mu(steps, steps[0].direction)


def closed_bounds(steps: Losses, epsilon: float) -> tuple[float, float]:
    r"""Bounds of delta(epsilon) without any inversion.

    One step: the integral over its output. Above: sampling only helps, and no loss exceeds the largest, L*. Below, for "add",
    from the runs all of whose outputs are at least z, of probability p, with :math:`e^{L^* - L} = \prod (1 + y_j)` and
    :math:`E[y_j; z_j \ge z] = q \Phi(-z - t) / (1 - q)`:

    .. math:: \delta(\epsilon) \ge p\,(1 - e^{\epsilon - L^*} \prod_j (1 + \rho_j)^{T_j}), \quad
        \rho_j = \frac{q_j \Phi(-z - t_j)}{(1 - q_j) \Phi(-z)} .

    It is close with little noise, where most outputs give the largest loss.
    """
    if len(steps) == steps[0].count == 1:
        low, high = steps[0].delta_bounds(epsilon)
        return low, high + LEAST
    high = gaussian_bracket(unsampled_mu(steps, steps[0].direction), epsilon)[1]
    largest = largest_loss(steps)
    if largest == math.inf:
        return 0.0, high
    if epsilon >= largest:
        return 0.0, 0.0
    z = np.linspace(-16.0, 8.0, 481)
    log_chance = sum(step.count * scipy.special.log_ndtr(-z) for step in steps)
    gap = epsilon - largest * (1 - 4e-15)
    for step in steps:
        odds = math.log(step.sampling_rate) - math.log1p(-step.sampling_rate)
        gap = gap + step.count * np.log1p(
            np.exp(odds + scipy.special.log_ndtr(-z - step.shift) - scipy.special.log_ndtr(-z))
        ) * (1 + 1e-12)
    low = float((np.exp(log_chance) * -np.expm1(np.minimum(gap, 0.0))).max()) * (1 - 1e-12)
    return low, min(high, -math.expm1(epsilon - largest) * (1 + 1e-12))


def about_log_delta(steps: Steps, epsilon: float, direction: Direction) -> float:
    """About log delta(epsilon), cheaply; -inf beyond all losses that occur."""
    return guessed_log_delta(step_losses(bins(steps, upper=None), direction), epsilon)


def guessed_log_delta(steps: Losses, epsilon: float) -> float:
    try:
        saddle = saddle_at(total_of(cut(steps, _ROUGH_CUT)), epsilon)
    except Unresolved:
        return -math.inf
    return saddle.log_value if saddle.c > 0 else math.log1p(-0.5 * math.exp(min(saddle.log_value, 0.0)))


def lines_near(
    steps: Losses,
    epsilon: float,
    enough: float = WIDEST,
    *,
    longest: bool = True,
    split_first: bool = False,
    first: Way | None = None,
    apart_from: float | None = None,
) -> Lines:
    """The lines for epsilon that give the narrowest bracket of delta there, or the first that are narrow.

    Args:
        enough: the relative width of delta at which no lines are sought that take long.
        longest: whether, where none is as narrow, the line that takes seconds is asked.
        apart_from: a delta: a bracket that lies far to one side of it need not be narrow.
    """
    best: Lines | None = None
    width = least = math.inf
    spent = 0
    splits = () if steps[0].direction == "add" or epsilon == 0 else _ways_to_split(steps, epsilon)
    ways: list[Way] = [*splits, "whole", "long"] if split_first else ["whole", *splits, "long"]
    if first in ways:
        ways.sort(key=lambda way: way != first)
    for at in ways:
        if at == "long" and (width <= enough or not longest):
            break
        try:
            found = maker_of(at)(steps, epsilon)
        except Unresolved:
            continue
        spent += found.products
        low, high = found.delta_bracket(epsilon)
        if high - low < width * high or (high - low == width * high and high < least):
            best, width, least = found, (high - low) / high, high
        if apart_from is not None and high < 2 * low and (low > 2 * apart_from or high < apart_from / 2):
            break
        last_of_its_kind = isinstance(at, str) or at[1]
        if width < WANTED or (spent > MANY_PRODUCTS and width <= enough):
            break
        if spent > _MOST_PRODUCTS and width <= _USEFUL and enough >= WIDEST:
            break
        if at != "whole" and width < enough / 4 and (last_of_its_kind or width > _NEARLY):
            break
    if best is None:
        raise Unresolved("no line through a saddle point")
    return best


class NearbyDeltas:
    """Brackets of delta at many epsilons: lines that were made for one serve those near it while they are as narrow as is wanted.

    Which lines serve depends on what was asked before; each bracket holds.
    """

    def __init__(self, steps: Losses) -> None:
        self._steps = steps
        self._made: list[Lines] = []

    def bracket(self, epsilon: float) -> tuple[float, float] | None:
        """Bounds of delta, or None where no line is narrow that takes less than seconds."""
        if self._made:
            nearest = min(self._made, key=lambda lines: abs(lines.epsilon - epsilon)).delta_bracket(epsilon)
            if _narrow_in_all(*nearest):
                return nearest
        for find in (whole_line, functools.partial(lines_near, first="whole", longest=False)):
            try:
                lines = find(self._steps, epsilon)
            except Unresolved:
                continue
            found = lines.delta_bracket(epsilon)
            if _narrow_in_all(*found):
                self._made.append(lines)
                return found
        return None


def _narrow_in_all(low: float, high: float) -> bool:
    """Whether delta is known closely, or 1 - delta."""
    return high - low <= max(WANTED * high, _NARROW_OF_ALL * (1.0 - high))


def _ways_to_split(steps: Losses, epsilon: float) -> tuple[Way, ...]:
    """Bands after the splits at one output, but of few steps, where the runs without an extreme output are no small part.

    Of a large epsilon, several outputs make it out, and nothing need be left out: these lines are the quickest, too.
    """
    ways: list[Way] = [*_SPLITS]
    if sum(step.count for step in steps) >= _MANY:
        ways.insert(2, "bands")
    if epsilon > _LARGE:
        ways.sort(key=lambda way: way not in _OF_SEVERAL)
    return tuple(ways)


def maker_of(way: Way) -> Callable[[Losses, float], Lines]:
    """What makes the lines of one way for an epsilon."""
    if isinstance(way, tuple):
        return functools.partial(_split_lines, outputs=way[0], leave_out=way[1])
    if way == "bands":
        return _band_lines
    return whole_line if way == "whole" else functools.partial(whole_line, most=_LONG)


@functools.lru_cache(maxsize=64)
def whole_line(steps: Losses, epsilon: float, *, most: int = MOST) -> Lines:
    """The line for epsilon, whose cut fits delta: it is made anew until what is left out does not matter."""
    log_delta = min(saddle_at(total_of(cut(steps, _ROUGH_CUT)), epsilon).log_value, -1.0)
    best, width = None, math.inf
    for nats in (LEFT_OUT, LEFT_OUT / 2):  # nearer cuts leave less of what delta has to be told from
        for _ in range(_CUTS):
            kept = cut(steps, log_delta, nats)
            line = line_of(plan_line(law(kept), saddle_at(total_of(kept), epsilon), most))
            low, high = line.delta_bracket(epsilon)
            hopeless = line.smoothing > 0 and low == 0.0  # the law hardly decays: another cut does not help
            if hopeless or line.left_out <= 2 * math.exp(-nats) * low:
                break
            log_delta = min(math.log(low) if low > 0.1 * high else log_delta - 12.0, log_delta - 1.0)
        if best is None or hopeless or high - low < width:
            best, width = line, high - low
        cuts_help = any(step.cut < math.inf for step in kept) and not (line.smoothing > 0 and width < WIDEST * high)
        if hopeless or width < _FINE * high or not cuts_help:
            break
    assert best is not None
    return Lines(epsilon, (best,), "whole" if most == MOST else "long")


@functools.lru_cache(maxsize=64)
def _split_lines(steps: Losses, epsilon: float, outputs: int, leave_out: bool) -> Lines:
    """Lines for the runs without an extreme output, and for the rest."""
    floors = [_SHARE * output(step, epsilon / outputs) for step in steps]
    if leave_out:
        steps = _far_cut(steps, epsilon)
    usual, rare = split(steps, floors)
    line = line_at(rare, least_point(rare, epsilon), _SPLIT_NODES)
    return Lines(epsilon, (line, _small_part(usual, epsilon, line.delta_bracket(epsilon)[1])), (outputs, leave_out))


@functools.lru_cache(maxsize=64)
def _band_lines(steps: Losses, epsilon: float) -> Lines:
    """Lines for the runs without an extreme output, and for bands of the extreme outputs: losses of many sizes."""
    steps = _far_cut(steps, epsilon)
    lowest = [_SHARE * output(step, epsilon) for step in steps]
    room = [step.cut - _ROOM / step.sharpness - floor for step, floor in zip(steps, lowest, strict=True)]
    if not 0 < min(room) <= max(room) < _MOST_BANDS * _BAND:
        raise Unresolved("the cut leaves no room above the floor")
    count = math.ceil(max(room) / _BAND)
    floors = [[floor + width * k / count for floor, width in zip(lowest, room, strict=True)] for k in range(count)]
    usual, rare = bands(steps, floors)
    lines = [line_at(band, least_point(band, epsilon), _SPLIT_NODES) for band in rare]
    rest = sum(line.delta_bracket(epsilon)[1] for line in lines)
    return Lines(epsilon, (*lines, _small_part(usual, epsilon, rest)), "bands")


def _far_cut(steps: Losses, epsilon: float) -> Losses:
    """Without outputs far beyond the one whose loss is epsilon."""
    by_one = sum(step.count * step.delta(epsilon) for step in steps)  # delta, where one output makes it out
    return cut(steps, math.log(max(by_one, 1e-300)), _FAR_OUT)


def _small_part(usual: Product, epsilon: float, rest: float) -> Line | Chernoff:
    """Chernoff's bound where it is small against ``rest``, otherwise a line."""
    saddle = least_point(usual, epsilon)
    for c in (saddle.c * share for share in _BEFORE):
        bound = Chernoff(c, log_chernoff(usual, c))
        if bound.delta_bracket(epsilon)[1] <= _NARROW / 4 * rest:
            return bound
    return line_at(usual, saddle, _SPLIT_NODES)


_FEW = 4096  # nodes while searching
_SEARCH = 16
_BLIND = 2
"""Lines that tell nothing, after which the place is taken where one extreme output makes out delta."""
_SURELY, _ROUGH = 1.0, 0.01
"""Of log delta at 0: what its guess is off at most; and how closely it has to be known to say whether epsilon is 0."""
_SETTLED = 0.1  # log of delta over the one that is asked for: the next step of Newton's method is close enough
_LONG_SEARCH = 80
_WIDE = 4  # wide brackets after which the search gives up
_TURNS = 12
_FURTHEST = 4.0  # times epsilon, in one step of Newton's method
_AGAIN = 3
_ASTRAY = 8.0  # times: lines serve no epsilon as far as this from the one that they were made for
_HOPELESS = 1e-2  # relative: lines with a wider bracket of delta are not made again where others are asked next
_NEAR = 1e-3  # relative: lines made as near as this to epsilon are not made again
_USEFUL_EPSILON = 1e-3
"""Relative: a bracket of epsilon that is narrower is not tried to better, unless it is asked for."""
_CLOSE = 1e-9
"""A bracket of epsilon as narrow as this, relative, is narrow even where delta changes fast."""


def _nothing_is_spent(steps: Losses, delta: float, at_zero: Callable[[], float]) -> bool:
    """Whether delta(0) is known to be at most ``delta``; where it is likely to be far above, no line is asked."""
    alone = [step.delta_bounds(0.0)[1] for step in steps]
    if max(alone) > delta:
        return False
    if sum(step.count * one for step, one in zip(steps, alone, strict=True)) * (1 + 1e-12) <= delta:
        return True  # the distances of single steps add up to at least that of all
    return guessed_log_delta(steps, 0.0) < math.log(delta) + _SURELY and at_zero() <= delta


def _ends(steps: Losses, lines: Lines, delta: float, enough: float, hopeless: float) -> tuple[float, float, Lines]:
    """Bounds of epsilon by lines for about that, made again where the search for it stopped too early, unless they are hopeless."""
    largest = largest_loss(steps)
    for turn in range(_AGAIN):
        lower, upper = ends_around(lines, lines.delta_bracket, delta, (0.0, largest))
        below, above = lines.delta_bracket(upper)
        width, epsilon = (above - below) / above, lines.epsilon
        settled = width <= WANTED or width > hopeless or (lines.products > MANY_PRODUCTS and width <= enough)
        if settled or abs(upper - epsilon) <= _NEAR * upper or turn == _AGAIN - 1:
            break
        if not epsilon / _ASTRAY <= upper <= epsilon * _ASTRAY:
            raise Unresolved(f"the search for epsilon went astray, to {epsilon!r} and {upper!r}")
        lines = maker_of(lines.way)(steps, upper)
    return lower, upper, lines


def _search(steps: Losses, delta: float) -> float:
    """About epsilon, by lines with few nodes."""
    log_delta, largest = math.log(delta), largest_loss(steps)
    kept = cut(steps, log_delta)
    low, high = 0.0, largest
    epsilon = max(saddle_for(total_of(kept), log_delta).epsilon, 0.0)
    if epsilon >= high:
        epsilon = 0.999 * high
    blind = 0
    for _ in range(_SEARCH):
        line = line_of(plan_line(law(kept), saddle_at(total_of(kept), epsilon), _FEW))
        below, above = line.delta_bracket(epsilon)
        # neither of both: taken as a lower end of the search
        low, high = (low, min(high, epsilon)) if above < delta else (max(low, epsilon), high)
        value, slope = line.middle(epsilon)
        moved, astray = math.nan, math.inf
        if above - below < above / 4 and slope < 0:
            astray = math.log(value / delta)
            moved = epsilon - astray * value / slope
        if not low <= moved <= high:
            moved = math.sqrt(low * high) if low > 0 and high < math.inf else (epsilon / 2 if low == 0 else 2 * epsilon)
        blind = blind + 1 if math.isinf(astray) else 0
        if blind == _BLIND:
            return _by_one_output(steps, delta)
        epsilon = moved
        if abs(astray) < _SETTLED:
            break
    return epsilon


def _carefully(steps: Losses, delta: float, enough: float, by_any: Curve) -> tuple[float, float, Curve]:
    """Between two epsilons whose deltas are known to lie on either side, with the best lines at each."""
    low, high = _closed(steps, delta)
    if high - low <= _CLOSE * high:
        return low, high, lambda epsilon: closed_bounds(steps, epsilon)
    bounded = largest_loss(steps) < math.inf
    epsilon = _by_one_output(steps, delta)
    if not low < epsilon < high:
        epsilon = low + (high - low) / 2
    wide = 0
    way: Way | None = None
    for _ in range(_LONG_SEARCH):
        below, above = closed_bounds(steps, epsilon)
        lines = None if narrow(below, above) else _lines_or_none(steps, epsilon, enough, way, delta)
        way = way if lines is None else lines.way
        below, above = _both(steps, lines, epsilon)
        if lines is not None and narrow(below, above) and delta / 1.5 < above < 1.5 * delta:
            bracket = _held(steps, lines)
            try:
                return *ends_around(lines, bracket, delta, (low, high)), bracket
            except Unresolved:
                break
        if below >= delta:
            low = epsilon
        elif above <= delta:
            high = epsilon
        else:
            break
        wide += not narrow(below, above) and below <= 2 * delta and above >= delta / 2
        if wide > _WIDE:
            break
        moved = math.nan
        if lines is not None and above < 2 * below:
            value, slope = lines.middle(epsilon)
            moved = epsilon - math.log(value / delta) * value / slope if value > 0 and slope < 0 else math.nan
        if not low < moved < high and bounded and below > 0:
            moved = high - (high - epsilon) * min(delta / below, 0.5)  # delta falls to 0 at the largest loss
        if not low < moved < high:
            moved = math.sqrt(low * high) if low > 0.1 * high else (low + high) / (2 if low > 0 else 4)
        if not low < moved < high:
            break
        epsilon = moved

    return low, high, by_any


def _closed(steps: Losses, delta: float) -> tuple[float, float]:
    """Bounds of epsilon by the closed forms alone."""
    highest = min(largest_loss(steps), gaussian_epsilon(unsampled_mu(steps, steps[0].direction), delta) * (1 + 1e-8))
    if len(steps) == 1:
        size = 2.0 if steps[0].direction == "replace" else 1.0
        highest = min(
            highest, participation_epsilon(size * steps[0].shift, steps[0].sampling_rate, steps[0].count, delta)
        )
    lowest = max(one_step_epsilon(step, delta)[0] for step in steps)  # of a part of the run
    return (
        max(lowest, _last(lambda epsilon: closed_bounds(steps, epsilon)[0] >= delta, highest)[0]),
        _last(lambda epsilon: closed_bounds(steps, epsilon)[1] > delta, highest)[1],
    )


def _by_one_output(steps: Losses, delta: float) -> float:
    """About epsilon where one extreme output makes out delta: a guess."""
    return max(one_step_epsilon(step, delta / sum(one.count for one in steps))[0] for step in steps)


def _last(holds: Callable[[float], bool], high: float) -> tuple[float, float]:
    """Where a bound ends to hold: a point of [0, high] where it holds, or 0, and one where it does not, or ``high``."""
    low = 0.0
    for _ in range(200):
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def _lines_or_none(steps: Losses, epsilon: float, enough: float, way: Way | None, delta: float) -> Lines | None:
    try:
        return lines_near(steps, epsilon, enough, split_first=True, first=way, apart_from=delta)
    except Unresolved:
        return None


def _both(steps: Losses, lines: Lines | None, epsilon: float) -> tuple[float, float]:
    """The bounds by the lines and by the closed forms, whichever are nearer."""
    low, high = (0.0, 1.0) if lines is None else lines.delta_bracket(epsilon)
    below, above = closed_bounds(steps, epsilon)
    return max(low, below), min(high, above, by_participations(steps, epsilon))


def _held(steps: Losses, lines: Lines) -> Curve:
    return lambda epsilon: _both(steps, lines, epsilon)


def ends_around(lines: Lines, bracket: Curve, delta: float, ends: tuple[float, float]) -> tuple[float, float]:
    """The ends of the bracket of epsilon, by lines that serve there."""
    epsilon, slope = min(max(lines.epsilon, ends[0]), ends[1]), math.nan
    for _ in range(_TURNS):
        value, slope = lines.middle(epsilon)
        if not (value > 0 and slope < 0):
            break
        step = math.log(value / delta) * value / slope
        near = min(max(epsilon - step, epsilon / _FURTHEST), epsilon * _FURTHEST) if epsilon > 0 else -step
        epsilon = min(max(near, ends[0]), ends[1])
        if abs(step) <= 4e-16 * epsilon:
            break
    low, high = bracket(epsilon)
    if not slope < 0:
        raise Unresolved(f"delta does not fall near {epsilon!r}")
    start = 1.01 * (high - low) / abs(slope) + 4e-16 * epsilon
    return (
        max(ends[0], first_that_holds(lambda e: bracket(e)[0] >= delta, epsilon, -start)),
        min(ends[1], first_that_holds(lambda e: bracket(e)[1] <= delta, epsilon, start)),
    )


_NOISE, _RATE, _STEPS = (0.025, 1e7), 1e-8, 10**12
"""Where the line is tried; elsewhere it is slow to find that it cannot. From half of the least noise of a batch of a fixed size."""
MOST_KINDS = 16
"""Steps of more kinds are binned, once towards more privacy and once towards less."""
_ALIKE = 1.0001 + 1e-12


@dataclass(frozen=True)
class SaddleLine:
    """The inversion integral on the saddle line: all but exact in its range, and quick.

    Attributes:
        rtol: relative width of delta at which no lines are asked that take long.
        longest: whether a line that takes seconds is asked at all.
    """

    rtol: float = RTOL
    longest: bool = True
    name = LINE

    def serves(self, parts: Parts, direction: Direction) -> bool:
        return all(
            isinstance(part, Step) and _NOISE[0] <= part.noise_multiplier <= _NOISE[1] and part.sampling_rate >= _RATE
            for part in parts
        ) and self._few(parts)

    def _few(self, parts: Parts) -> bool:
        return sum(part.count for part in parts if isinstance(part, Step)) <= _STEPS

    def delta(self, steps: Steps, direction: Direction, epsilon: float) -> Bracket:
        less, more = bins(steps, upper=False), bins(steps, upper=True)
        if more != less:
            return Bracket(self.delta(less, direction, epsilon).lower, self.delta(more, direction, epsilon).upper)
        losses = step_losses(steps, direction)
        if epsilon >= largest_loss(losses):
            return Bracket(0.0, 0.0, True)
        mu = gaussian_mu(losses)
        low, high = closed_bounds(losses, epsilon) if mu is None else gaussian_bracket(mu, epsilon)
        if mu is not None or high - low <= _CLOSED_WIDTH * high or high < _NOTHING:
            return Bracket(low, high, high - low <= self.rtol * high)
        try:
            below, above = lines_near(losses, epsilon, self.rtol, longest=self.longest).delta_bracket(epsilon)
        except Unresolved:
            below, above = 0.0, _chernoff(losses, epsilon)
        low, high = max(low, below), min(high, above)
        if not narrow(low, high):
            high = min(high, without_lines(losses, epsilon))
        return Bracket(low, high, high - low <= self.rtol * high)

    def epsilon(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        less, more = bins(steps, upper=False), bins(steps, upper=True)
        if more != less:
            return Bracket(self.epsilon(less, direction, delta).lower, self.epsilon(more, direction, delta).upper)
        return self.epsilon_of_kinds(steps, direction, delta)

    def epsilon_of_kinds(self, steps: Steps, direction: Direction, delta: float) -> Bracket:
        """Of every kind as it is, however many there are: what an enclosure begins with."""
        losses = step_losses(steps, direction)
        if len(losses) == losses[0].count == 1:
            return Bracket(*one_step_epsilon(losses[0], delta), True)
        if _nothing_is_spent(losses, delta, lambda: SaddleLine(_ROUGH).delta(steps, direction, 0.0).upper):
            return Bracket(0.0, 0.0, True)
        mu = gaussian_mu(losses)
        if mu is not None:
            return Bracket(*unsampled_ends(mu, delta)[:2], True)

        def by_any(epsilon: float) -> tuple[float, float]:
            found = SaddleLine().delta(steps, direction, epsilon)
            return found.lower, found.upper

        lower, upper = 0.0, math.inf
        try:
            lines = lines_near(losses, _search(losses, delta), self.rtol, longest=self.longest)
            lower, upper, lines = _ends(losses, lines, delta, self.rtol, math.inf if self.longest else _HOPELESS)
            if self._settles(delta, lower, upper, lines.delta_bracket, by_any):
                return Bracket(lower, upper, True)
        except Unresolved:
            pass
        if not self.longest:
            return Bracket(lower, upper)
        try:
            low, high, bracket = _carefully(losses, delta, self.rtol, by_any)
        except Unresolved:
            return Bracket(lower, upper)
        lower, upper = max(lower, low), min(upper, high)
        return Bracket(lower, upper, self._settles(delta, lower, upper, bracket, by_any))

    def _settles(self, delta: float, lower: float, upper: float, bracket: Curve, by_any: Curve) -> bool:
        """Whether epsilon is known closely, or delta at both ends of its bracket."""
        if not self.longest:
            return upper < math.inf and upper - lower <= _NARROW * upper
        if upper - lower <= (_CLOSE if self.rtol < WIDEST else _USEFUL_EPSILON) * upper:
            return True
        at_lower = bracket if lower > 0 else by_any
        return bracket(upper)[0] >= delta * (1 - 2 * WIDEST) and at_lower(lower)[1] <= delta * (1 + 2 * WIDEST)


@functools.lru_cache(maxsize=64)
def bins(steps: Steps, *, upper: bool | None, most: int = MOST_KINDS) -> Steps:
    """At most so many kinds: each step with no more noise and no lower rate than it has, or the other way round.

    ``upper``: which of both; None for kinds of about the same law, for what is no bound.
    """
    if len(steps) <= most:
        return steps
    logs, width = [(math.log(step.noise_multiplier), math.log(step.sampling_rate)) for step in steps], 1e-4
    while len(set(keys := [(math.floor(noise / width), math.floor(rate / width)) for noise, rate in logs])) > most:
        width *= 2
    groups: dict[tuple[int, int], list[Step]] = {}
    for key, step in zip(keys, steps, strict=True):
        groups.setdefault(key, []).append(step)
    one, other = (_middle, _middle) if upper is None else (min, max) if upper else (max, min)
    return tuple(
        Step(
            noise_multiplier=one([step.noise_multiplier for step in group]),
            sampling_rate=other([step.sampling_rate for step in group]),
            count=sum(step.count for step in group),
        )
        for group in groups.values()
    )


def _middle(values: list[float]) -> float:
    return (min(values) + max(values)) / 2


def nearly_alike(steps: Steps) -> bool:
    """Whether the bins, if any, are so narrow that they move epsilon by a few 1e-4 of itself at most."""
    less, more = bins(steps, upper=False), bins(steps, upper=True)
    return all(
        one.noise_multiplier <= other.noise_multiplier * _ALIKE and other.sampling_rate <= one.sampling_rate * _ALIKE
        for one, other in zip(less, more, strict=True)
    )
