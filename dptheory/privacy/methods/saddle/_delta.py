"""delta of one direction at one epsilon: bounds that hold everywhere, as narrow as the integral on the saddle line gives them.

Where the line's bracket is wide the law of the losses is split, in the runs without an extreme output and the rest, or bands of
the rest, each with a line of its own; or more nodes are taken; and closed forms bound what no line does.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
import scipy

from dptheory.privacy._bounds import RTOL, Unresolved
from dptheory.privacy._parts import unsampled_mu
from dptheory.privacy.methods._closed_forms import participation_delta
from dptheory.privacy.methods.gaussian._bracket import gaussian_bracket
from dptheory.privacy.methods.saddle._line import MOST, Line, line_at
from dptheory.privacy.methods.saddle._measures import Product, bands, law, least_point, log_chernoff, output, split
from dptheory.privacy.methods.saddle._points import LEFT_OUT, Losses, Saddle, cut, saddle_at, total_of

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
_CUTS = 3
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
_LEAST = 5e-324
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
        found = [part.delta_bracket(epsilon) for part in self.parts]
        return sum(low for low, _ in found), min(1.0, max(sum(high for _, high in found) * (1 + 1e-15), _LEAST))

    def middle(self, epsilon: float) -> tuple[float, float]:
        """About delta(epsilon) and its derivative."""
        found = [part.middle(epsilon) for part in self.parts]
        return sum(value for value, _ in found), sum(slope for _, slope in found)


def delta_bounds_at(steps: Losses, epsilon: float, enough: float = WIDEST) -> tuple[float, float]:
    """Bounds of delta(epsilon) that hold for any steps and any epsilon >= 0, however wide; ``enough`` as for :func:`lines_near`."""
    if epsilon >= largest_loss(steps):
        return 0.0, 0.0
    mu = gaussian_mu(steps)
    if mu is not None:
        return gaussian_bracket(mu, epsilon)
    low, high = closed_bounds(steps, epsilon)
    if high - low <= _CLOSED_WIDTH * high or high < _NOTHING:
        return low, high
    try:
        below, above = lines_near(steps, epsilon, enough).delta_bracket(epsilon)
    except Unresolved:
        below, above = 0.0, _chernoff(steps, epsilon)
    low, high = max(low, below), min(high, above)
    return (low, high) if narrow(low, high) else (low, min(high, without_lines(steps, epsilon)))


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
        return min(1.0, math.exp(min(log_chernoff(whole, c) - c * epsilon, 0.0)) + whole.left_out + _LEAST)
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
        return low, high + _LEAST
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


def rough_saddle(steps: Losses, epsilon: float) -> Saddle:
    return saddle_at(total_of(cut(steps, -25.0)), epsilon)


def guessed_log_delta(steps: Losses, epsilon: float) -> float:
    """About log delta(epsilon), cheaply; -inf beyond all losses that occur."""
    try:
        saddle = rough_saddle(steps, epsilon)
    except Unresolved:
        return -math.inf
    return saddle.log_value if saddle.c > 0 else math.log1p(-0.5 * math.exp(min(saddle.log_value, 0.0)))


def lines_near(
    steps: Losses,
    epsilon: float,
    enough: float = WIDEST,
    *,
    split_first: bool = False,
    first: Way | None = None,
    apart_from: float | None = None,
) -> Lines:
    """The lines for epsilon that give the narrowest bracket of delta there, or the first that are narrow.

    Args:
        enough: the relative width of delta at which no lines are sought that take long.
        split_first: whether the law is split before it is tried whole.
        first: the way that is tried before all others.
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
        if at == "long" and width <= enough:
            break
        try:
            found = lines_by(steps, epsilon, at)
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


def lines_by(steps: Losses, epsilon: float, at: Way) -> Lines:
    if at == "bands":
        return _band_lines(steps, epsilon)
    if isinstance(at, str):
        return Lines(epsilon, (whole_line(steps, epsilon, MOST if at == "whole" else _LONG),), at)
    return _split_lines(steps, epsilon, *at)


@functools.lru_cache(maxsize=64)
def whole_line(steps: Losses, epsilon: float, most: int = MOST) -> Line:
    """The line for epsilon, whose cut fits delta: it is made anew until what is left out does not matter."""
    log_delta = min(rough_saddle(steps, epsilon).log_value, -1.0)
    best, width = None, math.inf
    for nats in (LEFT_OUT, LEFT_OUT / 2):  # nearer cuts leave less of what delta has to be told from
        for _ in range(_CUTS):
            kept = cut(steps, log_delta, nats)
            line = line_at(law(kept), saddle_at(total_of(kept), epsilon), most)
            low, high = line.delta_bracket(epsilon)
            if line.smoothing > 0 and low == 0.0:
                return line  # the law hardly decays: another cut does not help
            if line.left_out <= 2 * math.exp(-nats) * low:
                break
            log_delta = min(math.log(low) if low > 0.1 * high else log_delta - 12.0, log_delta - 1.0)
        if best is None or high - low < width:
            best, width = line, high - low
        cuts_help = any(step.cut < math.inf for step in kept) and not (line.smoothing > 0 and width < WIDEST * high)
        if width < _FINE * high or not cuts_help:
            break
    assert best is not None
    return best


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
