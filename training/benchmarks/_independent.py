r"""Bounds of epsilon beside delta by a plain code that shares nothing with the accountant: a lattice, a tilt and one transform.

The law of one step's loss (or of one epoch's) is a list of places and masses. It is tilted by exp(c loss), so that its sums lie
about epsilon, spread on a lattice by interpolation of order eight, and composed by one FFT. Nothing of it is proved: how far a delta
is off is told by a lattice of half the cells. A setting whose lattices disagree is "undecided".
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from dptheory.privacy import epsilon_bounds, referee

Reals = NDArray[np.float64]
Law = tuple[Reals, Reals]
"""Losses, and the logarithms of their masses."""
LAWS = ("poisson", "full batch", "random allocation")
NOISE, STEPS, EPOCHS, DELTA = (0.5, 20.0), (1, 10_000), (1, 1000), (1e-15, 0.1)
"""What random allocation is drawn from, uniformly in the logarithm: steps of an epoch, and epochs."""
_ORDER, _BEYOND = 8, 20.0
"""Points that a mass is spread on; nats below delta at which outputs are left out."""
_CELLS = (2**15, 2**16), (2**17, 2**18)
_CLOSE, _ENOUGH, _ROUNDING = 1e-4, 1e-3, 1e-9
"""Relative errors of delta: where no finer lattice is asked, where a setting counts as decided, and what rounding may do."""
_NOTHING = 1e-16
"""A mass below it is the transform's rounding."""


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
    ends = found.lower, found.upper
    for coarse, fine in _CELLS:
        below, above, error = _deltas(law, setting, ends, coarse, fine)
        finding = _finding(found.lower, below, above, error)
        if error <= _CLOSE and finding == "inside":
            break
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
        finding=finding,
    )


def _finding(lower: float, below: float, above: float, error: float) -> str:
    if not error <= _ENOUGH:
        return "undecided"
    return "missed" if above > 1 + error or (lower > 0.0 and below < 1 - error) else "inside"


def _deltas(
    law: str, setting: dict[str, Any], ends: tuple[float, float], coarse: int, fine: int
) -> tuple[float, float, float]:
    """delta at both ends over the setting's, and about how far they are off."""
    if law == "full batch" or setting.get("steps_per_epoch") == 1:
        mu = math.sqrt(setting["steps"]) / setting["noise_multiplier"]
        below, above = (float(gaussian_delta(mu, end) / setting["delta"]) for end in ends)
        return below, above, _ROUNDING
    of = poisson_law if law == "poisson" else allocation_law
    count = setting["steps"] // setting.get("steps_per_epoch", 1)
    given = setting.get("direction")
    rough, found = (
        np.max(
            [
                composed_deltas(of(setting, direction, ends[1], cells), count, ends, cells)
                for direction in ([given] if given else ["remove", "add"])
            ],
            axis=0,
        )
        / setting["delta"]
        for cells in (coarse, fine)
    )
    error = 4 * float(np.abs(found - rough)[:2].max()) + float(found[2]) + _ROUNDING
    return float(found[0]), float(found[1]), error if math.isfinite(error) else math.inf


def gaussian_delta(mu: float, epsilon: float) -> Any:
    """Of one Gaussian release, with 60 digits."""
    with mpmath.workdps(60):
        x = mpmath.mpf(epsilon) / mpmath.mpf(mu)
        return mpmath.ncdf(mpmath.mpf(mu) / 2 - x) - mpmath.exp(epsilon) * mpmath.ncdf(-mpmath.mpf(mu) / 2 - x)


def poisson_law(setting: dict[str, Any], direction: str, _epsilon: float, cells: int) -> Law:
    """Of one step: outputs by the trapezoid rule, their losses log(1 - q + q exp(tz - t^2 / 2))."""
    shift, rate = 1 / setting["noise_multiplier"], setting["sampling_rate"]
    reach = math.sqrt(2 * (math.log(setting["steps"] / setting["delta"]) + _BEYOND))
    z, log_masses = _normal(reach, shift, 2 * cells)
    exponent = shift * z - shift**2 / 2
    near = np.log1p(rate * np.expm1(np.minimum(exponent, 1.0)))
    far = np.logaddexp(math.log1p(-rate) if rate < 1.0 else -math.inf, math.log(rate) + exponent)
    loss = np.where(exponent < 1.0, near, far)
    return (loss, log_masses + loss) if direction == "remove" else (-loss, log_masses)


def allocation_law(setting: dict[str, Any], direction: str, epsilon: float, cells: int) -> Law:
    """Of one epoch: the logarithm of a mean of lognormals of mean 1, by a transform of their sum."""
    shift, steps = 1 / setting["noise_multiplier"], setting["steps_per_epoch"]
    epochs = setting["steps"] // steps
    reach = math.sqrt(2 * (math.log(epochs * steps / setting["delta"]) + _BEYOND))
    z, log_masses = _normal(reach, shift, 4 * cells)
    y = np.exp(shift * z - shift**2 / 2)
    tilt = 0.0
    if direction == "add":  # exp(-tilt y) brings the mean to where an epoch's loss is its share of epsilon
        tilt = _tilt(-y, log_masses, -math.exp(-epsilon / epochs))
    masses, log_moment = _tilted(-y, log_masses, tilt)
    # with the record one output has the mean t: its y has the density y
    own, log_own = _tilted(-y, log_masses + np.log(y), 0.0)
    seen = masses > 1e-3 * _NOTHING / steps
    if direction == "remove":
        seen |= own > 1e-3 * _NOTHING
    mean, largest = float(masses @ y), float(y[seen].max())
    spread = math.sqrt(steps * float(masses @ (y - mean) ** 2))
    spacing = min(steps * largest, largest + steps * mean + 12 * spread) / cells
    one = np.fft.rfft(_spread(y, masses, spacing, cells))
    if direction == "remove":
        sums = np.fft.irfft(_power(one, steps - 1) * np.fft.rfft(_spread(y, own, spacing, cells)), cells)
        log_scale, sign = log_own, 1.0
    else:
        sums = np.fft.irfft(_power(one, steps), cells)
        log_scale, sign = steps * log_moment, -1.0
    places = spacing * np.arange(cells)
    kept = (places > 0) & (sums > _NOTHING)
    total = places[kept]
    return sign * np.log(total / steps), np.log(sums[kept]) + tilt * total + log_scale


def composed_deltas(law: Law, count: int, ends: tuple[float, float], cells: int) -> Reals:
    """delta of ``count`` independent losses at two epsilons near each other, and what the transform's rounding may do to them."""
    loss, log_masses = law
    epsilon = ends[1]
    if ends[0] >= count * float(loss.max()):
        return np.zeros(3)
    tilt = _tilt(loss, log_masses, epsilon / count)
    masses, log_moment = _tilted(loss, log_masses, tilt)
    mean = float(masses @ loss)
    spread = math.sqrt(count * float(masses @ (loss - mean) ** 2))
    spacing = (float(np.ptp(loss[masses > 1e-2 * _NOTHING / count])) + 24 * spread) / cells
    # the lattice's origin is such that epsilon lies on it
    places = (epsilon - count * mean) / spacing if spacing > 0.0 else math.inf
    if not abs(places) < cells // 2 - 1:
        return np.array([math.nan, math.nan, math.inf])
    origin = (epsilon - round(places) * spacing) / count
    sums = np.fft.irfft(_power(np.fft.rfft(_spread(loss - origin, masses, spacing, cells)), count), cells)
    found = []
    for end in ends:
        first = max(round(places) - math.floor((epsilon - end) / spacing), -cells // 2)
        kept = np.arange(first, cells // 2)
        over = np.maximum((kept - round(places)) * spacing + (epsilon - end), 0.0)
        kernel = np.exp(-tilt * over) * -np.expm1(-over)
        # the kernel has a kink at its end: Euler and Maclaurin's first term
        share = over[0] / spacing
        kink = spacing * (share**2 - share + 1 / 6) / 2 * float(sums[first % cells])
        scale = math.exp(count * log_moment - tilt * end)
        found.append((float(sums[kept % cells] @ kernel) + kink) * scale)
    return np.array([*found, 3 * _NOTHING * float(kernel.sum()) * scale])


def _normal(reach: float, shift: float, nodes: int) -> Law:
    spacing = (2 * reach + shift) / nodes
    z = spacing * np.arange(math.floor(-reach / spacing), math.ceil((reach + shift) / spacing), dtype=np.float64)
    return np.asarray(z), np.asarray(-(z**2) / 2 + math.log(spacing / math.sqrt(2 * math.pi)))


def _tilted(values: Reals, log_masses: Reals, tilt: float) -> tuple[Reals, float]:
    """Masses times exp(tilt values), over their sum, and its logarithm: of small exponents with few roundings."""
    logs = log_masses + tilt * values
    top = float(logs.max())
    masses = np.exp(logs - top)
    total = float(masses.sum())
    log_moment = top + math.log(total)
    if abs(log_moment) < 0.1:
        plain = np.exp(log_masses)
        log_moment = math.log1p(float(plain @ np.expm1(tilt * values)) / float(plain.sum()))
    return masses / total, log_moment


def _tilt(values: Reals, log_masses: Reals, mean: float) -> float:
    """The tilt >= 0 that brings the mean of the values to ``mean``, of some of them; 0 where it is larger."""
    few = slice(None, None, max(1, values.size // 4096))
    values, log_masses = values[few], log_masses[few]

    def falls_short(tilt: float) -> bool:
        logs = log_masses + tilt * values
        masses = np.exp(logs - logs.max())
        return bool(masses @ values < mean * masses.sum())

    return _least(falls_short) if falls_short(0.0) else 0.0


def _least(falls_short: Callable[[float], bool]) -> float:
    low, high = 0.0, 1e-3
    while falls_short(high) and high < 1e13:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falls_short(middle) else (low, middle)
    return low


def _spread(values: Reals, masses: Reals, spacing: float, cells: int) -> Reals:
    """Masses on a lattice with a period, by Lagrange's interpolation: it keeps seven moments."""
    at = values / spacing
    floor = np.floor(at)
    place = at - floor
    points = range(1 - _ORDER // 2, 1 + _ORDER // 2)
    law = np.zeros(cells)
    for point in points:
        weights = masses.copy()
        for other in points:
            if other != point:
                weights *= (place - other) / (point - other)
        law += np.bincount((floor.astype(np.int64) + point) % cells, weights=weights, minlength=cells)
    return law


def _power(transform: NDArray[np.complex128], count: int) -> NDArray[np.complex128]:
    modulus = np.maximum(np.abs(transform), 1e-300)
    return np.asarray(np.exp(count * (np.log(modulus) + 1j * np.angle(transform))))
