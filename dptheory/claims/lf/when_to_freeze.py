import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import scipy

from dptheory import freezing
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.gradients import angle_variance

# Frozen layers on block quadratics, walked step by step: every sign of the noise, or plain recursions.


Number = Any
"""A fraction or a float; the result is exact for fractions."""


@dataclass(frozen=True, repr=False)
class Setting:
    """Layers of parts, each (entries, gradient norm, curvature, deviation), and the run."""

    layers: tuple[tuple[tuple[int, Number, Number, Number], ...], ...]
    rates: tuple[Number, ...]
    clips: tuple[Number, ...]
    noise_multiplier: Number
    batch_size: int
    norms: tuple[Number, ...] | None = None

    def __repr__(self) -> str:
        entries = sum(part[0] for layer in self.layers for part in layer)
        return f"{len(self.layers)} layers, {entries} entries, {self.steps} steps"

    @property
    def steps(self) -> int:
        return len(self.rates)

    def _column(self, place: int) -> list[list[Any]]:
        return [[part[place] if place == 0 else float(part[place]) for part in layer] for layer in self.layers]

    def _known(self) -> dict[str, Any]:
        return {
            "gradient_norms": self._column(1),
            "curvature": self._column(2),
            "deviation_norm": self._column(3),
            "learning_rate": [float(rate) for rate in self.rates],
            "steps": self.steps,
            "noise_multiplier": float(self.noise_multiplier),
            "batch_size": self.batch_size,
        }

    def each(self) -> freezing.LayerSteps:
        return freezing.best_layer_steps(self._column(0), clip_norm=float(self.clips[0]), **self._known())

    def first(self) -> freezing.BestFreezing:
        return freezing.best_freezing(
            self._column(0), clip_norm=[float(clip) for clip in self.clips], layer_norms=self.norms, **self._known()
        )

    def unclipped(self) -> "Setting":
        return replace(self, norms=None)

    def share(self, frozen: int) -> float:
        """What clipping leaves of two examples' gradients that differ in signs alone, each layer as long as stated."""
        if self.norms is None:
            return 1
        kept = self.norms[frozen:]
        return min(1.0, float(self.clips[frozen]) / math.sqrt(sum(norm**2 for norm in kept)))

    def losses(self, frozen: int, after: int) -> list[Number]:
        """Of each layer at the end, its parts one after the other, the first ``frozen`` layers trained for ``after`` steps."""
        found = []
        for place, layer in enumerate(self.layers):
            total: Number = 0
            for entries, gradient, curvature, deviation in layer:
                square = gradient * gradient
                for step, rate in enumerate(self.rates):
                    now = frozen if step >= after else 0
                    if place < now:
                        break
                    share, move = self.share(now), rate * curvature
                    tau = self.noise_multiplier * self.clips[now] / self.batch_size
                    kick = entries * tau * tau + share * share * deviation * deviation / self.batch_size
                    square = (1 - share * move) * (1 - share * move) * square + move * move * kick
                total += square / (2 * curvature)
            found.append(total)
        return found

    def every_choice(self) -> list[tuple[Number, int, int]]:
        """(expected loss, layers frozen, steps before), all of them; nothing frozen comes first."""
        nothing = [(sum(self.losses(0, self.steps)), 0, self.steps)]
        return nothing + [
            (sum(self.losses(frozen, after)), frozen, after)
            for after in range(self.steps)
            for frozen in range(1, len(self.layers))
        ]


def of_signs(setting: Setting, schedule: Sequence[int]) -> Fraction:
    """E f(theta_T) where layer l moves in its first ``schedule[l]`` steps; one entry per part, noise +-tau in each, every sign.

    The gradient is that of the whole f, and steps are those of the algorithm.
    """
    curvatures = [part[2] for layer in setting.layers for part in layer]
    starts = [part[1] / part[2] for layer in setting.layers for part in layer]
    until = [last for last, layer in zip(schedule, setting.layers, strict=True) for _ in layer]
    tau = setting.noise_multiplier * setting.clips[0] / setting.batch_size
    total = Fraction(0)
    draws = list(itertools.product((tau, -tau), repeat=len(starts)))
    paths = [starts]
    for step, rate in enumerate(setting.rates):
        paths = [
            [
                x - rate * (curvature * x + noise) if step < last else x
                for x, curvature, noise, last in zip(theta, curvatures, draw, until, strict=True)
            ]
            for theta in paths
            for draw in draws
        ]
    for theta in paths:
        total += sum(curvature * x * x / 2 for x, curvature in zip(theta, curvatures, strict=True))
    return total / len(paths)


def enumerated(setting: Setting) -> tuple[Fraction, tuple[int, ...]]:
    """The least expected loss over all schedules of the layers, and the schedule: never where that is as good, else the earliest."""
    never = setting.steps
    schedules = itertools.product((never, *range(never)), repeat=len(setting.layers))
    return min(((of_signs(setting, schedule), schedule) for schedule in schedules), key=lambda found: found[0])


def first_of(condition: Callable[[int], bool], steps: int) -> int:
    """The first step at which the condition holds; ``steps`` if none."""
    return next((step for step in range(steps) if condition(step)), steps)


when_to_freeze = new_row(
    id="lf.when_to_freeze",
    source=Source("lf", "new, on Algorithm 1"),
    verdict=Verdict.HOLDS,
    calculators=(freezing.best_layer_steps, freezing.best_freezing),
)

_HALF = Fraction(1, 2)
_TWO_PARTS = ((1, Fraction(2), Fraction(1), 0), (1, Fraction(0), _HALF, 0))
"""The page's layer: F = 2, 3/4, 13/16, ... at step size 1 and noise 1."""

_TINY = (
    Setting((_TWO_PARTS,), (Fraction(1),) * 3, (Fraction(1),), Fraction(1), 1),
    Setting(
        (((1, Fraction(1, 3), Fraction(1), 0),), ((1, Fraction(3), Fraction(2), 0),)),
        (_HALF,) * 3, (Fraction(2),), Fraction(3), 4,
    ),
    Setting(
        (((1, Fraction(2), Fraction(1), 0),), ((1, Fraction(1), _HALF, 0),)),
        (Fraction(1, 8), Fraction(3, 4), Fraction(3, 2)), (Fraction(1),) * 2, Fraction(1), 1,
    ),
    Setting(
        (((1, Fraction(2), _HALF, 0),), ((1, Fraction(1), Fraction(1), 0),), ((1, Fraction(0), _HALF, 0),)),
        (Fraction(1), _HALF), (Fraction(1),) * 3, _HALF, 1,
    ),
)  # fmt: skip


@when_to_freeze.equal(*((case,) for case in _TINY), tolerance=1e-12)
def _(setting: Setting) -> Sides:
    """item 1: the least expected loss over all schedules of all layers, every sign of the noise"""
    found = setting.each()
    return sum(found.value), lambda: enumerated(setting)[0], sum(found.all_trained)


@when_to_freeze.equal(*((case, layer) for case in _TINY for layer in range(len(case.layers))))
def _(setting: Setting, layer: int) -> Sides:
    """item 1: the best step of each layer, every schedule and sign"""
    best = enumerated(setting)[1][layer]
    return setting.each().frozen_after_step[layer], best, setting.steps if best < setting.steps else 0


@when_to_freeze.equal(*((case,) for case in _TINY), tolerance=1e-12)
def _(setting: Setting) -> Sides:
    """nothing frozen, every sign"""
    found, never = setting.each(), [setting.steps] * len(setting.layers)
    return sum(found.all_trained), lambda: of_signs(setting, never), sum(found.value)


def _sized(
    sizes: tuple[tuple[int, ...], ...], steps: int, clips: tuple[float, ...], rise: float, batch: int
) -> Setting:
    """Layers whose gradients and curvatures fall along the network, with examples that deviate."""
    layers = tuple(
        tuple(
            (entries, 3.0 / (1 + place) if part == 0 else 0.01, (1.0 if part == 0 else 0.05) / (1 + place), 0.5)
            for part, entries in enumerate(layer)
        )
        for place, layer in enumerate(sizes)
    )
    rates = tuple(0.3 * (1 + rise * step / steps) for step in range(steps))
    norms = tuple(4.0 / (1 + place) for place in range(len(sizes)))
    return Setting(layers, rates, clips, 1.5, batch, norms)


_STEPS = ("frozen_after_step", "first_step", "last_step")
_RESET, _SAME = (1.0, 0.55, 0.35), (1.0, 1.0, 1.0)
_SIZED = (
    _sized(((300, 100), (20, 200), (10, 50)), 40, _RESET, 0.0, 40),
    _sized(((300_000, 100_000), (20_000, 200_000), (10_000, 50_000)), 40, _RESET, 0.0, 1024),
    _sized(((300_000,), (20_000,), (10_000,)), 60, _SAME, -0.9, 1024),
    _sized(((3000,), (200,), (100,)), 50, (10.0, 5.5, 3.5), 1.5, 512),
    _sized(((4, 10), (6, 5), (30, 5)), 25, (10.0, 5.5, 3.5), 0.0, 40),
)
_PAYS_NOT = _sized(((2, 1), (1, 1), (3, 1)), 30, _SAME, 0.0, 1024)


@when_to_freeze.equal(
    *((case, field) for case in _SIZED for field in ("value", "all_trained", "gain", "frozen_layers", *_STEPS)),
    *((_PAYS_NOT, field) for field in ("value", "frozen_layers", *_STEPS)),
    tolerance=1e-10,
)
def _(setting: Setting, field: str) -> Sides:
    """the paper's choice, number of layers and step, among all of them step by step, at users' sizes too"""

    def among_all() -> float:
        every = setting.every_choice()
        least = min(every, key=lambda choice: choice[0])
        without = every[0][0]
        return float(
            {
                "value": least[0],
                "all_trained": without,
                "gain": without - least[0],
                "frozen_layers": least[1],
                **dict.fromkeys(_STEPS, least[2]),  # no loss beside it is as low: the run around it is one step
            }[field]
        )

    found = getattr(setting.first(), field)
    return found, among_all, 1.02 * found + (field == "frozen_layers")


@when_to_freeze.equal(
    *((case, field, layer) for case in _SIZED for field in ("value", "all_trained", *_STEPS) for layer in (0, 2)),
    tolerance=1e-10,
)
def _(setting: Setting, field: str, layer: int) -> Sides:
    """each layer for itself, step by step, at users' sizes too"""
    alone = setting.unclipped()

    def walked() -> float:
        last = [alone.losses(len(alone.layers), 0)[layer]]
        for after in range(1, alone.steps + 1):
            run = Setting(alone.layers, alone.rates[:after], alone.clips, alone.noise_multiplier, alone.batch_size)
            last.append(run.losses(0, after)[layer])
        best = min(range(len(last)), key=last.__getitem__)
        return float({"value": last[best], "all_trained": last[-1], **dict.fromkeys(_STEPS, best)}[field])

    found = getattr(alone.each(), field)[layer]
    return found, walked, 1.02 * found + 1e-3


def _path(rates: list[float], curvature: float, gradient: float, noise: float) -> list[float]:
    """Expected loss after 0..T steps, as the calculator has it: the whole run of each length."""
    return [
        freezing.best_layer_steps(
            [1], gradient_norms=[gradient], curvature=[curvature], learning_rate=rates[:steps], steps=steps, clip_norm=1.0,
            noise_multiplier=noise, batch_size=1,
        ).all_trained[0]
        for steps in range(1, len(rates) + 1)
    ]  # fmt: skip


def _ends_slack(steps: float, first: float, curvature: float, signal: float, change: float) -> float:
    """How far the best step is below both ends, over the loss; step sizes first * (1 + change * t / T), noise 1."""
    steps = round(steps)
    rates = tuple(first * (1 + change * step / steps) / curvature for step in range(steps))
    found = Setting((((1, signal, curvature, 0.0),),), rates, (1.0,), 1.0, 1).each()
    ends = min(signal**2 / (2 * curvature), found.all_trained[0])
    return (found.value[0] - ends) / ends


when_to_freeze.inequality(
    {
        "steps": Range(2, 60, integer=True),
        "first": Range(0.01, 0.99, log=True),
        "curvature": Range(0.1, 10, log=True),
        "signal": Range(0.01, 10, log=True),
        "change": Range(-0.99, 0.0),
    },
    wrong=lambda change, **point: _ends_slack(change=-change, **point),  # step sizes that rise
    name="item 2: with step sizes that do not rise no step in mid-run is better than both ends",
)(_ends_slack)


@when_to_freeze.equal(
    *((signal, first) for signal in (0.3, 1.0, 2.0, 9.0) for first in (0.02, 0.2, 0.5)),
    tolerance=1e-12,
)
def _(signal: float, first: float) -> Sides:
    """item 2, step sizes that rise: the first step at or below the floor"""
    rates = [first * (1 + 2 * step / 20) for step in range(20)]
    setting = Setting((((1, signal, 1.0, 0.0),),), tuple(rates), (1.0,), 1.0, 1)
    losses = [setting.losses(1, 0)[0], *_path(rates, 1.0, signal, 1.0)]
    best = first_of(lambda step: 2 * losses[step] <= rates[step] / (2 - rates[step]), 20)
    return setting.each().value[0], losses[best], losses[-1] if best < 20 else losses[0]


def _parts_path(seed: int, way: int) -> list[Fraction]:
    """F of six entries in fractions; way 1: the slow ones below their floors, the fast ones above; way -1: the reverse."""
    rng = np.random.default_rng(seed)
    slow_first = sorted(Fraction(int(k), 64) for k in rng.integers(1, 64, 6))
    cut, rate = int(rng.integers(1, 6)), Fraction(1)
    squares, curvatures = [], slow_first
    for place, curvature in enumerate(curvatures):
        floor = rate / (curvature * (2 - rate * curvature))
        below = (place < cut) == (way == 1)
        share = Fraction(int(rng.integers(0, 64)), 64)
        squares.append(floor * share if below else floor * (1 + 8 * share))
    found = []
    for _ in range(30):
        terms = (curvature * square / 2 for curvature, square in zip(curvatures, squares, strict=True))
        found.append(sum(terms, Fraction(0)))
        squares = [
            (1 - rate * curvature) ** 2 * square + rate**2
            for curvature, square in zip(curvatures, squares, strict=True)
        ]
    return found


def _falls_then_rises(path: list[Fraction]) -> bool:
    rises = first_of(lambda step: path[step + 1] >= path[step], len(path) - 1)
    return all(path[step + 1] >= path[step] for step in range(rises, len(path) - 1))


def _least_at_an_end(path: list[Fraction]) -> bool:
    return min(path) == min(path[0], path[-1])


@when_to_freeze.equal(*((seed, way) for seed in (0, 1, 2, 6, 7, 9) for way in (1, -1)))
def _(seed: int, way: int) -> Sides:
    """item 3 on six entries, in fractions: where it falls and rises, and what fails the other way round"""
    holds: Callable[[list[Fraction]], bool] = _falls_then_rises if way == 1 else _least_at_an_end
    fails: Callable[[list[Fraction]], bool] = _least_at_an_end if way == 1 else _falls_then_rises
    return True, holds(_parts_path(seed, way)), fails(_parts_path(seed, way))


@when_to_freeze.equal((Fraction(19, 10), Fraction(0)), (Fraction(0), Fraction(2)), kind=Kind.COUNTEREXAMPLE)
def _(slow: Fraction, fast: Fraction) -> Sides:
    """item 3: the rule fails where the fast entry starts on its floor's other side, in fractions"""
    parts = ((1, fast, Fraction(1), 0), (1, slow / 2, _HALF, 0))
    losses = [Setting((parts,), (), (Fraction(1),), Fraction(1), 1).losses(0, 0)[0]] + [
        Setting((parts,), (Fraction(1),) * steps, (Fraction(1),), Fraction(1), 1).losses(0, steps)[0]
        for steps in range(1, 8)
    ]
    rule = first_of(lambda step: losses[step + 1] >= losses[step], 7)
    works = losses[rule] == min(losses)
    return fast > 0, works, not works


def _reset_losses(signal: Fraction, share: Fraction, kept: Fraction, steps: int) -> list[Fraction]:
    """E f after T steps, layer 0 frozen after t = 0..T, which multiplies the noise of layer 1 by ``share``; walked."""
    rate, noise, first = _HALF, Fraction(1), Fraction(1)
    found = []
    for after in range(steps + 1):
        frozen, trained = signal**2, Fraction(1)
        for step in range(steps):
            trained = (1 - rate * kept) ** 2 * trained + rate**2 * noise * (share if step >= after else 1)
            frozen = (1 - rate * first) ** 2 * frozen + rate**2 * noise if step < after else frozen
        found.append(first * frozen / 2 + kept * trained / 2)
    return found


def _reset_rule(signal: Fraction, share: Fraction, kept: Fraction, steps: int) -> int:
    """The first step of item 4."""
    rate, first = _HALF, Fraction(1)
    r, s = (1 - rate * first) ** 2, (1 - rate * kept) ** 2
    floor, other = rate / (first * (2 - rate * first)), rate / (kept * (2 - rate * kept))

    def enough(step: int) -> bool:
        gain = first * (signal**2 - floor) * (1 - r) * r**step
        return gain <= (1 - share) * kept * other * (1 - s) * s ** (steps - step - 1)

    return first_of(enough, steps)


_RESETS = tuple(
    (Fraction(signal), Fraction(share, 4), Fraction(1, kept), steps)
    for signal in (1, 5)
    for share in (0, 2, 3)
    for kept in (2, 8)
    for steps in (1, 2, 9, 10)
)


@when_to_freeze.equal(*_RESETS)
def _(signal: Fraction, share: Fraction, kept: Fraction, steps: int) -> Sides:
    """item 4: the first step of the rule, among all steps, in fractions"""
    losses = _reset_losses(signal, share, kept, steps)
    best = losses.index(min(losses))
    return _reset_rule(signal, share, kept, steps), best, steps if best < steps else 0


@when_to_freeze.equal((Fraction(1), _HALF, Fraction(1, 8)), (Fraction(5), Fraction(3, 4), Fraction(1, 2)))
def _(signal: Fraction, share: Fraction, kept: Fraction) -> Sides:
    """item 4: as the run gets a step longer the best step rises by 0 or 1"""
    best = [_reset_rule(signal, share, kept, steps) for steps in range(1, 80)]
    rises = [after - before for before, after in itertools.pairwise(best)]
    return True, set(rises) <= {0, 1}, set(rises) <= {1}


@when_to_freeze.equal((2.0, 0.5, 0.1), (1.5, 0.25, 0.3), tolerance=1e-6)
def _(signal: float, share: float, kept: float) -> Sides:
    """item 4: the gain of a long run, by the calculator, is half of (1 - omega) G phi"""
    found = freezing.best_freezing(
        [1, 1], gradient_norms=[signal, kept], curvature=[1.0, kept], learning_rate=0.5, steps=400,
        clip_norm=[1.0, math.sqrt(share)], noise_multiplier=1.0, batch_size=1,
    )  # fmt: skip
    most = (1 - share) * 0.5 / (2 - 0.5 * kept) / 2
    return found.gain, most, 2 * most


@when_to_freeze.equal(*((Fraction(square), Fraction(k, 8)) for square in (1, 30, 900) for k in (1, 4, 8)))
def _(square: Fraction, curvature: Fraction) -> Sides:
    """item 5: falls, then rises, in the number of steps; walked in fractions with V = T V_1"""
    tiny = Fraction(1, 50)

    def after(steps: int) -> Fraction:
        found = square
        for _ in range(steps):
            found = (1 - curvature) ** 2 * found + steps * tiny
        return found

    path = [after(steps) for steps in range(40)]
    formula = [
        (1 - curvature) ** (2 * t) * square + t * tiny * (1 - (1 - curvature) ** (2 * t)) / (1 - (1 - curvature) ** 2)
        for t in range(40)
    ]
    return True, _falls_then_rises(path) and path == formula, _least_at_an_end(path[:-1])


_Change = Callable[[float, float, float], tuple[float, float]]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_HERMITE, _HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


def _across_grown(snr: float, bias: float, growth: float) -> tuple[float, float]:
    """(snr, bias angle) after the part of the signal across the gradient has grown and the part along it has not."""
    along, across = snr * math.cos(bias), growth * snr * math.sin(bias)
    return math.hypot(along, across), math.atan2(across, along)


def _falls(dim: int, share: float, bias: float, growth: float, change: _Change) -> bool:
    snr = share * math.sqrt(dim)
    after, angle = change(snr, bias, growth)
    return angle_variance(dim, snr=after, bias_angle=angle) < angle_variance(dim, snr=snr, bias_angle=bias)


def _lengthened(snr: float, bias: float, growth: float) -> tuple[float, float]:
    return growth * snr, bias


def _growing_cases() -> Iterator[tuple[int, float, float, float]]:
    yield from itertools.product((2, 3), (0.3, 5.0), (0.3, 2.0), (1.1,))
    yield from itertools.product((2, 3, 12, 10**4, 10**9), (0.02, 0.5, 5.0), (0.0,), (1.01, 3.0))
    yield from itertools.product((12, 10**4, 10**6, 10**9), (0.02, 0.5, 5.0), (0.3, 1.2, math.pi / 2, 2.5), (1.01, 3.0))


def _slope(dim: int, snr: float, bias: float, axis: float) -> float:
    """snr / 2 times the slope of the variance as the signal grows along a direction at the angle ``axis`` to u, by quadrature.

    The covariance of the angle and its slope for one noise draw, over the noise along u, along the signal across u, and the
    length of the rest (chi of dim - 2).
    """
    middle = math.sqrt(dim - 2)
    rest = np.maximum(middle + 9 * _NODES, 0.0)
    with np.errstate(divide="ignore"):
        log_density = (dim - 3) * np.log(rest / middle) - (rest**2 - middle**2) / 2
    chances = _WEIGHTS * np.exp(log_density)
    weight = _HERMITE_WEIGHTS[:, None, None] * _HERMITE_WEIGHTS[:, None] * (chances / chances.sum())
    weight = weight / weight.sum()
    first = snr * math.cos(bias) + _HERMITE[:, None, None]
    second = snr * math.sin(bias) + _HERMITE[:, None]
    across = np.hypot(second, rest)
    angle = np.arctan2(across, first)
    moved = (first * second / across * math.sin(axis) - across * math.cos(axis)) / (first**2 + across**2)
    centred = angle - (weight * angle).sum()
    return float(snr * (weight * centred * moved).sum())


def _difference(dim: int, snr: float, bias: float) -> float:
    """The same for a longer signal, by differences of the calculator."""
    step = 3e-3
    high, low = (angle_variance(dim, snr=snr * math.exp(move), bias_angle=bias) for move in (step, -step))
    return (high - low) / (4 * step)


def _edges(dim: int, k: float, bias: float) -> list[float]:
    """Panels of the latitude, dense about the mean direction and the equator."""
    spread = 1 / math.sqrt(k + dim)
    about = [math.pi / 2 - bias + j * spread for j in (-12, -6, -3, -1, 0, 1, 3, 6, 12)]
    about += [j * spread for j in (-12, -6, -3, 0, 3, 6, 12)]
    inside = {min(max(x, -math.pi / 2), math.pi / 2) for x in about}
    return sorted({-math.pi / 2, math.pi / 2, *inside})


def _latitudes(dim: int, k: float, bias: float) -> tuple[Array, Array, Array]:
    """Latitude against u, its chances and E[cos psi | latitude] for a von Mises-Fisher direction, concentration k.

    psi is the longitude from the mean direction, which is at the angle ``bias`` to u.
    """
    pieces = [(low, high) for low, high in itertools.pairwise(_edges(dim, k, bias)) if high > low]
    latitude = np.concatenate([low + (high - low) / 2 * (_NODES + 1) for low, high in pieces])
    width = np.concatenate([(high - low) / 2 * _WEIGHTS for low, high in pieces])
    pull = np.maximum(k * math.sin(bias) * np.cos(latitude), 1e-6)
    order = (dim - 3) / 2
    bessel = scipy.special.ive(order, pull)
    log_mean = np.log(bessel) + pull - order * np.log(pull) + order * math.log(2) + scipy.special.gammaln(order + 1)
    log_density = (dim - 2) * np.log(np.cos(latitude)) + k * np.sin(latitude) * math.cos(bias) + log_mean
    chances = width * np.exp(log_density - log_density.max())
    return latitude, chances / chances.sum(), scipy.special.ive(order + 1, pull) / bessel


def _fixed_length_slack(dim: float, k: float, bias: float, axis: float) -> float:
    """Minus the covariance of the latitude and its slope, at a fixed length of the noisy signal, over the variance."""
    latitude, chances, turn = _latitudes(round(dim), k, bias)
    slope = np.cos(latitude) * math.cos(axis) - np.sin(latitude) * math.sin(axis) * turn
    centred = latitude - chances @ latitude
    return float(-(chances @ (centred * slope)) / (chances @ centred**2))


variance_of_angle = new_row(
    id="lf.angle_variance",
    source=Source("lf", "new, on Proposition 3.1 (3)"),
    verdict=Verdict.HOLDS,
    calculators=(angle_variance,),
)


@variance_of_angle.equal(_growing_cases)
def _(dim: int, share: float, bias: float, growth: float) -> Sides:
    """does the variance fall as the signal grows?"""
    falls = partial(_falls, dim, share, bias, growth)
    return falls(_lengthened), True, lambda: falls(_across_grown)


@variance_of_angle.equal(
    lambda: [
        (dim, share * math.sqrt(dim), bias)
        for dim, shares in ((30, (0.3, 2.0)), (10**4, (0.1, 1.0)), (10**6, (0.01, 0.5, 3.0)))
        for share in shares
        for bias in (0.0, 0.7, math.pi / 2, 2.5)
    ],
    tolerance=1e-4,
)
def _(dim: int, snr: float, bias: float) -> Sides:
    """slope of the variance, over three parts of the noise"""
    return _difference(dim, snr, bias), lambda: _slope(dim, snr, bias, bias), lambda: _slope(dim, snr, bias, 0.0)


@variance_of_angle.inequality(
    {
        "dim": Range(2, 60, integer=True),
        "k": Range(1e-2, 1e4, log=True),
        "bias": Range(0.0, math.pi / 2),
    },
    # wrong: the same as the mean direction turns towards u
    wrong=lambda dim, k, bias: _fixed_length_slack(dim, k, bias, bias - math.pi / 2),
    tolerance=1e-11,
)
def _conditional_slack(dim: float, k: float, bias: float) -> float:
    """covariance of latitude and slope at a fixed length (steps 7 to 9)"""
    return _fixed_length_slack(dim, k, bias, bias)


@variance_of_angle.equal(
    lambda: [
        *itertools.product((2, 3), (0.1, 2.0), (0.0, 0.7), (0.3,)),
        *itertools.product((12, 10**4, 10**9), (0.02, 0.5, 5.0), (0.0, 0.3, 0.7, 1.2), (1e-3, 0.3)),
    ]
)
def _(dim: int, share: float, bias: float, turn: float) -> Sides:
    """measured: does it rise with the bias angle?"""
    snr = share * math.sqrt(dim)
    variances = [angle_variance(dim, snr=snr, bias_angle=angle) for angle in (bias, bias + turn, math.pi - bias)]
    return variances[1] > variances[0], True, lambda: variances[2] > variances[1]


@variance_of_angle.equal(lambda: itertools.product((2, 12, 10**6), (0.1, 2.0), (0.4, 2.4, 2.9), (0.2, 0.6, 1.5)))
def _(dim: int, share: float, before: float, after: float) -> Sides:
    """measured: does it fall where the bias angle moves away from a right angle, from above one too?"""
    snr = share * math.sqrt(dim)
    variances = [angle_variance(dim, snr=snr, bias_angle=angle) for angle in (before, after)]
    return (
        after <= min(before, math.pi - before),
        variances[1] < variances[0],
        lambda: after <= min(before, math.pi / 2),
    )
