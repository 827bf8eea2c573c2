r"""Bounds of epsilon beside delta by a plain code that shares nothing with the accountant: an integral along a contour.

With R the ratio of the laws of all outputs with the record and without it, under the law without it,

.. math:: \delta(\epsilon) = \frac1{2\pi i} \int \frac{E[R^{s+1}] e^{-s\epsilon}}{s(s+1)} ds

for removing, on a contour right of 0. For adding it is :math:`e^\epsilon` times the same of :math:`-\epsilon`, left of -1. The contour
crosses the real axis at the saddle point. Nothing of it is proved: how far a delta is off is told by coarser sums of everything. A
setting whose sums disagree is "undecided".
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_interp_spline
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from dptheory.privacy import epsilon_bounds, referee

Reals = NDArray[np.float64]
Numbers = NDArray[Any]
"""Complex doubles, or balls."""
LAWS = ("poisson", "full batch", "random allocation")
NOISE, STEPS, EPOCHS, DELTA = (0.5, 20.0), (1, 10_000), (1, 1000), (1e-15, 0.1)
"""What random allocation is drawn from, uniformly in the logarithm: steps of an epoch, and epochs."""
_ENOUGH, _CLOSE, _ROUNDING, _CLOSED = 1e-5, 1e-8, 1e-8, 1e-9
"""Relative errors of delta: where a setting counts as decided, where no finer sum is asked, and what sums and closed forms have."""
_BEYOND = 28.0
"""Nats below delta at which outputs are left out."""
_CANCELLED, _NOUGHT = 8.0, -60.0
"""Nats of the integrand above delta: where doubles do not serve, and where nothing is left of the integral."""
_NATS = (18, 28, 40, 60, 90)
"""What the steps along the contour and of the outputs are made for, below delta."""
_BEND, _BLOCK = math.pi / 16, 300_000
"""Radians by which a contour bends from the vertical line, and half of those by which losses are turned; numbers at once."""
_POINTS = 3, 5
"""Of the density of an epoch's loss, in a standard deviation of its bulk."""
_FEW = 4
"""Epochs of which the integral may fall off too slowly."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """What our bounds of one setting are worth.

    Attributes:
        law: of ``LAWS``.
        setting: what ``epsilon_bounds`` was asked.
        lower, upper, method: what it said; seconds: of CPU time.
        below, above: delta at ``lower`` and at ``upper`` over the setting's delta: at least 1 and at most 1 if they hold.
        error: of these two, absolute.
        finding: "inside", "missed" or "undecided".
    """

    law: str
    setting: dict[str, Any]
    lower: float
    upper: float
    method: str
    seconds: float
    below: float
    above: float
    error: float
    finding: str


def settings(law: str, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Random settings of a law, as keyword arguments of ``epsilon_bounds``; of random allocation every other one is "add"."""
    if law != "random allocation":
        for one in referee.draw(count=count, seed=seed):
            yield asdict(one) | ({"sampling_rate": 1.0} if law == "full batch" else {})
        return
    rng = np.random.default_rng(seed)
    for number in range(count):
        noise, steps, epochs, delta = (math.exp(rng.uniform(*np.log(ends))) for ends in (NOISE, STEPS, EPOCHS, DELTA))
        yield {
            "noise_multiplier": noise,
            "sampling": law,
            "steps_per_epoch": round(steps),
            "steps": round(steps) * round(epochs),
            "delta": delta,
            "direction": ("remove", "add")[number % 2],
        }


def checks(count: int, seed: int, known: int = 0) -> Iterator[Checked]:
    """The first ``count`` settings of each law in turns, but for as many as are ``known`` from a run that was stopped."""
    drawn = [settings(law, count, seed + number) for number, law in enumerate(LAWS)]
    turns = ((law, setting) for turn in zip(*drawn, strict=True) for law, setting in zip(LAWS, turn, strict=True))
    for law, setting in itertools.islice(turns, known, None):
        yield check(law, setting)


def check(law: str, setting: dict[str, Any]) -> Checked:
    """Ask for bounds of epsilon, and for delta at both."""
    start = time.process_time()
    found = epsilon_bounds(**setting)
    seconds = time.process_time() - start
    below, above, error = _deltas(law, setting, (found.lower or found.upper, found.upper))
    return Checked(
        law=law,
        setting=setting,
        lower=found.lower,
        upper=found.upper,
        method=found.method,
        seconds=seconds,
        below=below,
        above=above,
        error=error,
        finding=_finding(found.lower, below, above, error),
    )


def _finding(lower: float, below: float, above: float, error: float) -> str:
    if not error <= _ENOUGH:
        return "undecided"
    return "missed" if above > 1 + error or (lower > 0.0 and below < 1 - error) else "inside"


def _deltas(law: str, setting: dict[str, Any], ends: tuple[float, float]) -> tuple[float, float, float]:
    """delta at both ends over the setting's, and about how far they are off."""
    delta = setting["delta"]
    if law == "full batch" or setting.get("steps_per_epoch") == 1:
        mu = math.sqrt(setting["steps"]) / setting["noise_multiplier"]
        below, above = (float(release_delta(mu, 1.0, end, 1) / delta) for end in ends)
        return below, above, _CLOSED
    of = poisson_deltas if law == "poisson" else allocation_deltas
    # at 0 both directions have the same delta
    asked = [setting["direction"]] if "direction" in setting else ["remove", "add"] if ends[1] > 0.0 else ["add"]
    with np.errstate(all="ignore"):
        found = [of(setting, direction, ends) for direction in asked]
    below, above = np.max([one for one, _ in found], axis=0) / delta
    error = max(one for _, one in found) / delta + _ROUNDING
    return float(below), float(above), error if math.isfinite(error) else math.inf


def release_delta(mu: float, rate: float, epsilon: float, sign: int) -> Any:
    """Of one Gaussian release of a sample, with 60 digits; 1 for removing, -1 for adding."""
    with mpmath.workdps(60):
        mu, rate, ratio = mpmath.mpf(mu), mpmath.mpf(rate), mpmath.exp(sign * mpmath.mpf(epsilon))
        with_record = ratio - 1 + rate
        if with_record <= 0:
            return mpmath.mpf(0)
        at = mpmath.log(with_record / rate) / mu + mu / 2  # the output whose ratio it is
        found = rate * mpmath.ncdf(sign * (mu - at)) - with_record * mpmath.ncdf(-sign * at)
        return found if sign > 0 else -found / ratio


@dataclass(frozen=True)
class _Integral:
    """What is asked of a contour: count independent losses, added up."""

    count: int
    ends: tuple[float, float]
    sign: int
    """1 for removing, -1 for adding."""

    def crossing(
        self, log_moment: Callable[[float], float], left_out: Callable[[float, float], float]
    ) -> tuple[float, float]:
        """Where the contour crosses the real axis, and the logarithm of the integrand there.

        ``left_out`` is positive where too much is.
        """

        def height(place: float) -> float:
            found = self._height(self._crossing(place), log_moment)
            over = left_out(self._crossing(place), found)
            return found if over <= 0.0 else max(found, 1e3) + over

        found = minimize_scalar(height, bounds=(-12, 40), method="bounded", options={"xatol": 1e-3})
        return self._crossing(found.x), float(found.fun)

    def _crossing(self, place: float) -> float:
        return math.exp(place) if self.sign > 0 else -1 - math.exp(place)

    def _height(self, s: float, log_moment: Callable[[float], float]) -> float:
        end = self.ends[1]
        return (
            self.count * log_moment(s + 1)
            - s * self.sign * end
            - math.log(s * (s + 1))
            + (end if self.sign < 0 else 0.0)
        )

    def sums(self, s: Numbers, log_moments: Numbers, mean: float, along: Numbers | float) -> list[Any]:
        """Of the integrand on the upper half of a contour, from the real axis on; the losses' moments are those without their mean."""
        found = []
        for end in self.ends:
            shift = self.count * mean + (end if self.sign < 0 else 0.0)
            terms = (
                np.exp(log_moments * self.count + s * (self.count * mean - self.sign * end) + shift)
                / (s * (s + 1))
                * along
            )
            found.append((terms.sum() - terms[0] / 2) / math.pi)
        return found


def poisson_deltas(setting: dict[str, Any], direction: str, ends: tuple[float, float]) -> tuple[Reals, float]:
    """delta at the ends, and about how far it is off.

    A step's loss log(1 - q + q y) is turned about its least value log(1 - q) into the complex plane, and the contour bends to the
    right: the integrand has no long tail of waves then, and steps may be few or rare.
    """
    shift, rate, count = 1 / setting["noise_multiplier"], setting["sampling_rate"], setting["steps"]
    asked = _Integral(count, ends, 1 if direction == "remove" else -1)
    if count == 1:
        return np.array([float(release_delta(shift, rate, end, asked.sign)) for end in ends]), 0.0
    least, epsilon = math.log1p(-rate), ends[1]
    over = asked.sign * epsilon - count * least
    log_delta = math.log(setting["delta"])
    if over <= 0.0:
        return np.zeros(2), 0.0
    turn = min(2 * _BEND, 2 * shift / max(1.0, -least))
    reach = math.sqrt(2 * (math.log(count) - log_delta + _BEYOND))
    crossings = [
        _poisson_crossing(asked, setting, turn, reach, stretch * reach + shift)
        for stretch in (1.0, 1.15, 1.3, 1.5, 1.8)
    ]
    # the shortest path that costs few digits
    lowest = min(height for _, height, *_ in crossings)
    crossing, height, last, mean, width = next(one for one in crossings if one[1] < lowest + 3)
    peak = height + math.log(width) - log_delta
    if not peak > _NOUGHT:
        return np.zeros(2), 0.0 if peak <= _NOUGHT else math.inf
    bend = turn / 2 * min(1.0, 3 / shift)

    def level(nats: float, numbers: Callable[[Any], Numbers]) -> list[Any]:
        sinus = math.sin(bend)
        farthest = (
            min(nats / (sinus * max(epsilon, 1e-300)), nats / (sinus * over) + 1e3 * (1 - rate) / rate) / width + 30
        )
        step = _exact(2 * math.pi * _BEND / nats * min(1.0, 3 / shift) * math.sqrt(turn / 2 / _BEND))
        spacing = _exact(min(8 / nats, 2 * math.pi * min(min(1.5, _BEND * max(1.0, shift / 2)) / shift, 1.0) / nats))
        loss, masses = _path(spacing * np.arange(-reach // spacing, last // spacing + 1), shift, rate, turn, numbers)
        angle = numbers(bend + 1j * step * np.arange(math.asinh(farthest) // step + 1))
        s = (np.sin(angle) - sinus) * width + crossing
        block = max(1, _BLOCK // loss.size)
        above = np.concatenate(
            [
                np.expm1(np.multiply.outer(s[k : k + block] + 1, loss - mean)) @ (masses * spacing)
                for k in range(0, s.size, block)
            ]
        )
        return asked.sums(s, np.log1p(above), mean + least, np.cos(angle) * (width * step))

    peak = max(peak, 0.0)

    def in_doubles(nats: float) -> list[float]:
        return [float(one.real) for one in level(peak + nats, np.asarray)]

    def in_balls(nats: float) -> list[float]:
        """With as many digits as what cancels asks for."""
        import flint

        with flint.ctx.workprec(int(60 + 1.45 * (peak + nats) + math.log2(count))):
            found = level(peak + nats, np.vectorize(flint.acb, otypes=[object]))
        return [float(one.real.mid()) if one.real.rad() < one.real.mid() * 1e-9 else math.nan for one in found]

    found = np.zeros(2), math.inf
    if peak <= _CANCELLED:
        found = _refined([partial(in_doubles, nats) for nats in _NATS], setting, _CLOSE)
    if found[1] > _ENOUGH * setting["delta"]:
        found = _refined([partial(in_balls, nats) for nats in _NATS[:3]], setting, _CLOSE)
    return found


def _poisson_crossing(
    asked: _Integral, setting: dict[str, Any], turn: float, reach: float, last: float
) -> tuple[float, float, float, float, float]:
    """Of outputs from -reach to last: where the contour crosses, how high the integrand is there, last, the shift and the width.

    What the path of losses leaves out at its end must be nothing beside delta.
    """
    shift, rate = 1 / setting["noise_multiplier"], setting["sampling_rate"]
    z = np.linspace(-reach, last, 2000)
    loss, density = (one.real for one in _path(z, shift, rate, 0.0, np.asarray))
    masses = density * (z[1] - z[0])
    [last_loss], [last_mass] = _path(np.array([last]), shift, rate, turn, np.asarray)
    left_out = math.log(asked.count) + math.log(max(abs(last_mass), 1e-300)) + _BEYOND - math.log(setting["delta"])

    def log_moment(p: float) -> float:
        found = float(logsumexp(p * loss, b=masses))
        return found if abs(found) > 0.1 else math.log1p(float(masses @ np.expm1(p * loss)))

    def beyond(s: float, height: float) -> float:
        return float(left_out + (s + 1) * last_loss.real + height - log_moment(s + 1) + math.log(abs(s)))

    crossing, height = asked.crossing(lambda p: log_moment(p) + p * math.log1p(-rate), beyond)
    mean = log_moment(crossing + 1) / (crossing + 1)
    return crossing, height, last, mean, _width(crossing, loss, masses, asked.count)


def _refined(levels: list[Callable[[], list[float]]], setting: dict[str, Any], close: float) -> tuple[Reals, float]:
    """What two levels in turn agree on, and four times what is between them."""
    before, error = np.full(2, math.nan), math.inf
    for level in levels:
        found = np.array(level())
        error, before = 4 * float(np.abs(found - before).max()), found
        if error <= close * setting["delta"]:
            break
    return before, error if math.isfinite(error) else math.inf


def _exact(step: float) -> float:
    """A step whose multiples have no rounding."""
    return max(1, round(step * 2**30)) / 2**30


def _path(
    z: Reals, shift: float, rate: float, turn: float, numbers: Callable[[Any], Numbers]
) -> tuple[Numbers, Numbers]:
    """Losses above the least one at outputs z, turned by an angle, and the density there of the outputs that have them."""
    odds = rate / (1 - rate)
    log_odds = math.log(odds)
    far = shift * z - shift**2 / 2 > 1 - log_odds
    exponent = numbers(z) * shift - shift**2 / 2
    large = exponent + log_odds
    flat = np.where(
        far, large + np.log1p(np.exp(-large)), np.log1p(np.exp(np.where(far, exponent * 0.0, exponent)) * odds)
    )
    turned = np.exp(numbers([1j * turn]))[0]
    loss = flat * turned
    small = np.where(far, loss * 0.0 + 1.0, loss)
    rise = -np.expm1(-loss)
    at = np.where(far, loss + np.log(rise) - log_odds, np.log(np.expm1(small) / odds)) / shift + shift / 2
    return loss, np.exp(-at * at / 2) * np.exp(large - flat) * turned / rise / math.sqrt(2 * math.pi)


def _width(crossing: float, loss: Reals, masses: Reals, count: int) -> float:
    """Of the integrand about its saddle point."""
    exponent = (crossing + 1) * loss
    tilted = masses * np.exp(exponent - exponent.max())
    tilted /= tilted.sum()
    variance = count * float(tilted @ (loss - tilted @ loss) ** 2)
    return 1 / math.sqrt(variance + 1 / crossing**2 + 1 / (crossing + 1) ** 2)


@dataclass(frozen=True)
class _Density:
    """Of the logarithm of a sum of lognormals of mean 1, on a grid: logarithms, beyond which there is nothing."""

    first: float
    spacing: float
    logs: Reals
    terms: int

    @property
    def places(self) -> Reals:
        return np.asarray(self.first + self.spacing * np.arange(self.logs.size))

    def at(self, places: Reals) -> Reals:
        spline = make_interp_spline(self.places, self.logs, k=7)
        return np.asarray(np.nan_to_num(spline(places, extrapolate=False), nan=-math.inf))


def allocation_deltas(setting: dict[str, Any], direction: str, ends: tuple[float, float]) -> tuple[Reals, float]:
    """delta at the ends, and about how far it is off: of few epochs by the density of their sum, of more on a vertical line."""
    steps = setting["steps_per_epoch"]
    count = setting["steps"] // steps
    asked = _Integral(count, ends, 1 if direction == "remove" else -1)
    floor = math.log(setting["delta"] / setting["steps"]) - _BEYOND

    def level(points: int) -> list[float]:
        density = epoch_density(1 / setting["noise_multiplier"], steps, floor, points)
        if count <= _FEW:
            return [_beyond(density, steps, count, asked.sign, end) for end in ends]
        loss, masses = density.places - math.log(steps), density.spacing * np.exp(density.logs)

        def log_moment(p: float) -> float:
            return float(logsumexp(p * loss, b=masses))

        crossing, _ = asked.crossing(log_moment, lambda s, height: -1.0)
        mean = log_moment(crossing + 1) / (crossing + 1)
        width = _width(crossing, loss, masses, count)

        tilted = masses * np.exp((crossing + 1) * (loss - mean))
        fewest = max(loss.size, 2 * math.pi / (density.spacing * width))

        def line(size: int) -> list[float]:
            """On the vertical line up to where its height is pi over the spacing."""
            s = crossing + 2j * math.pi / (density.spacing * size) * np.arange(size // 2 + 1)
            moments = np.conj(np.fft.rfft(tilted, size)) * np.exp((s - crossing) * (loss[0] - mean))
            return [float(one.real) for one in asked.sums(s, np.log(moments), mean, s[1].imag)]

        sizes = (2**k * math.ceil(fewest) for k in range(1, 8))
        found, error = _refined([partial(line, size) for size in sizes], setting, _CLOSE / 100)
        return [float(one) if error <= _CLOSE * setting["delta"] else math.nan for one in found]

    return _refined([partial(level, points) for points in _POINTS], setting, _CLOSE)


def _beyond(density: _Density, steps: int, count: int, sign: int, end: float) -> float:
    """delta of the sum of count losses by its density, which sums of what is positive make."""
    one = np.exp(density.logs)
    sums = one
    for _ in range(count - 1):
        sums = np.convolve(sums, one) * density.spacing
    inside = slice(*np.flatnonzero(sums > 0.0)[[0, -1]])
    first = count * (density.first - math.log(steps)) + density.spacing * inside.start
    total = _Density(first, density.spacing, np.log(sums[inside]), count)
    # from the place where nothing is gained to the last one, or to the first one; the density has no jumps
    last = total.places[-1 if sign > 0 else 0]
    if sign * (last - sign * end) <= 0.0:
        return 0.0
    edges = np.linspace(sign * end, last, 2 + math.ceil(abs(last - sign * end) / density.spacing))
    nodes, weights = np.polynomial.legendre.leggauss(6)
    half = np.diff(edges)[:, None] / 2
    places = edges[:-1, None] + half * (nodes + 1)
    gain = np.exp(total.at(places)) * -np.expm1(end - sign * places) * np.exp(places if sign > 0 else 0.0)
    return float((gain * weights * half).sum()) * sign


def epoch_density(shift: float, terms: int, floor: float, points: int) -> _Density:
    """Of the sum of an epoch's lognormals, by doubling: sums of what is positive, so that every tail is right relative to itself."""
    reach = math.sqrt(-2 * floor)
    places = np.arange(-shift * reach - shift**2 / 2, shift * reach + shift**2, shift / points)
    logs = -((places / shift + shift / 2) ** 2) / 2 - math.log(shift * math.sqrt(2 * math.pi))
    power = _Density(float(places[0]), shift / points, logs, 1)
    total = power if terms & 1 else None
    while terms := terms >> 1:
        power = _added(power, power, shift, floor, points)
        if terms & 1:
            total = power if total is None else _added(total, power, shift, floor, points)
    assert total is not None
    return total


def _added(one: _Density, other: _Density, shift: float, floor: float, points: int) -> _Density:
    """Of log(exp a + exp b), by the trapezoid rule over a - b; what is rarer than the floor with and without the record is left out."""
    terms = one.terms + other.terms
    spacing = shift / math.sqrt(terms) / points
    ends = [(density.places[0], density.places[-1]) for density in (one, other)]
    first, last = (float(np.logaddexp(*pair)) for pair in zip(*ends, strict=True))
    places = np.arange(first, last, spacing)
    apart = np.arange(ends[0][0] - ends[1][1], ends[0][1] - ends[1][0] + spacing, spacing)
    over, under = np.logaddexp(0.0, -apart), np.logaddexp(0.0, apart)
    block = _BLOCK // apart.size + 1
    logs = np.concatenate(
        [
            logsumexp(one.at(part - over) + other.at(part - under), axis=1)
            for part in (places[k : k + block, None] for k in range(0, places.size, block))
        ]
    ) + math.log(spacing)
    seen = np.flatnonzero(logs + np.maximum(0.0, places - math.log(terms)) > floor)
    kept = slice(seen[0], seen[-1] + 1)
    return _Density(float(places[kept][0]), spacing, logs[kept] - logsumexp(logs[kept]) - math.log(spacing), terms)
