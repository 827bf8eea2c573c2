"""What freezing does to signals and angles, at small sizes and at users': vectors of blocks, fractions and quadrature."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad

from dptheory import freezing
from dptheory.checks import ExactCheck
from dptheory.claims.lf._angle_samples import density_in_two_or_three

Array = NDArray[np.float64]
Block = tuple[int, ...]
F = Fraction

_LENGTHS = (1, 6400)
"""Length of a block of equal entries: a square, so that norms stay rational."""


def _blocks(values: Iterable[float | Fraction], length: int) -> Array:
    """A vector of blocks of equal entries."""
    return np.repeat(np.array([float(value) for value in values]), length)


# --- lf.lem3.2b -------------------------------------------------------------------------------------------------------
_BATCHES: dict[str, tuple[tuple[Block, int, int], ...]] = {
    # trainable blocks, frozen norm and whole norm over that of a block of ones
    "acute": (((3, 0), 4, 5), ((0, 5), 12, 13), ((6, 8), 0, 10)),
    "obtuse, none opposes": (((4, 3), 12, 13), ((-5, 0), 0, 5), ((8, 0), 6, 10)),
    "cancelling": (((1, 0), 0, 1), ((-3, 0), 4, 5)),
}
_CLIPS = (F(2), F(7), F(20))


def _factors(batch: str, clip: Fraction, frozen: bool) -> list[Fraction]:
    """Clip factor of each sample; ``frozen``: the norm of the trainable blocks alone counts."""
    norms = [math.isqrt(sum(b * b for b in row)) if frozen else whole for row, _, whole in _BATCHES[batch]]
    assert frozen or all(sum(b * b for b in row) + f * f == w * w for row, f, w in _BATCHES[batch])
    return [min(F(1), clip / norm) for norm in norms]


def _signal(batch: str, clip: Fraction, frozen: bool) -> list[Fraction]:
    """The blocks of the mean of the clipped gradients."""
    rows, factors = [row for row, _, _ in _BATCHES[batch]], _factors(batch, clip, frozen)
    return [
        sum((f * b for f, b in zip(factors, blocks, strict=True)), F(0)) / len(rows)
        for blocks in zip(*rows, strict=True)
    ]


def _growth_by_hand(field: str, batch: str, clip: Fraction, length: int) -> float:
    before, after = (_signal(batch, clip, frozen) for frozen in (False, True))
    if field in ("before", "after"):
        signal = before if field == "before" else after
        return math.sqrt(length * sum(s * s for s in signal))
    growths = [a / b for a, b in zip(_factors(batch, clip, True), _factors(batch, clip, False), strict=True)]
    if batch == "acute":
        return float(min(growths) if field == "lower" else max(growths))
    grown = [row for (row, _, _), growth in zip(_BATCHES[batch], growths, strict=True) if growth > 1]
    opposed = any(sum(b * s for b, s in zip(row, before, strict=True)) < 0 for row in grown)
    return {"lower": 0.0 if opposed else 1.0, "upper": math.inf}[field]


def _arguments(batch: str, clip: Fraction, length: int) -> tuple[Array, Array, float]:
    """A block of ones has the norm sqrt(length)."""
    unit = math.isqrt(length)
    rows = np.array([_blocks(row, length) for row, _, _ in _BATCHES[batch]])
    return rows, unit * np.array([float(f) for _, f, _ in _BATCHES[batch]]), unit * float(clip)


def _stated_signal(batch: str, clip: Fraction, frozen: bool, length: int) -> float:
    """Sum of the entries, each times its number."""
    rows, norms, limit = _arguments(batch, clip, length)
    found = freezing.biased_signal(rows, 0.0 if frozen else norms, limit)
    return float(found @ np.arange(1.0, rows.shape[1] + 1))


def _signal_by_hand(batch: str, clip: Fraction, frozen: bool, length: int) -> Fraction:
    """The same in fractions; block k holds the numbers k length + 1 .. (k + 1) length."""
    blocks = enumerate(_signal(batch, clip, frozen))
    return sum((s * (length * k * length + length * (length + 1) // 2) for k, s in blocks), F(0))


SIGNAL = (
    ExactCheck(
        name="signal in blocks, in fractions",
        cases=lambda: [(b, c, f, n) for b in _BATCHES for c in _CLIPS for f in (False, True) for n in _LENGTHS],
        truth=_signal_by_hand,
        statement=_stated_signal,
        wrong=lambda batch, clip, frozen, length: _signal_by_hand(batch, clip, not frozen, length),
        tolerance=1e-12,
    ),
    ExactCheck(
        name="norms and range in blocks, with each condition and with none",
        cases=lambda: [
            (field, b, c, n)
            for field in ("before", "after", "lower", "upper")
            for b in _BATCHES
            for c in _CLIPS
            for n in _LENGTHS
        ],
        truth=_growth_by_hand,
        statement=lambda field, *case: float(getattr(freezing.signal_growth(*_arguments(*case)), field)),
        wrong=lambda field, *case: _growth_by_hand("before" if field == "after" else "after", *case),
        tolerance=1e-12,
    ),
)  # fmt: skip


# --- lf.prop3.1.1 -----------------------------------------------------------------------------------------------------
_ANGLES = tuple(
    (first, second) for first in ((1, 0), (3, 4), (-5, 12)) for second in ((1, 0), (8, 15), (-20, 21), (10**7, 1))
)


def _angle_by_hand(first: Block, second: Block, length: int) -> float:
    """By the complex quotient of the two, in whole numbers."""
    across, along = first[0] * second[1] - first[1] * second[0], first[0] * second[0] + first[1] * second[1]
    return math.atan2(abs(across), along)


_RAYS: tuple[tuple[tuple[Block, Block, Block], float | Fraction], ...] = (
    # u, x, w and how long the angle between u and x + t w falls
    (((2, 3, 5), (1, 0, 0), (1, 3, 0)), F(1)),  # u is at right angles to the plane but for x + w
    (((17, 49, 5), (3, 0, 0), (2, 7, 0)), F(7)),
    (((1, 0, 0), (0, 1, 0), (1, 0, 0)), math.inf),  # towards u itself
    (((1, 2, 0), (1, 0, 0), (1, -1, 0)), 0.0),  # away from u
    (((1, 0, 0), (1, 0, 0), (0, 1, 0)), 0.0),  # x along u
    (((-1, 0, 0), (1, 0, 0), (0, 1, 0)), math.inf),  # x opposite to u
    (((1, 1, 0), (2, 0, 0), (3, 0, 0)), math.inf),  # parallel: nothing turns
    (((1, 1, 0), (7, 0, 0), (-2, 0, 0)), F(7, 2)),  # the signal passes 0
    (((-1, 1, 0), (7, 0, 0), (-2, 0, 0)), math.inf),
)


def _turn(field: str, ray: tuple[Block, Block, Block], length: int) -> float:
    return float(getattr(freezing.bias_turn(*(_blocks(vector, length) for vector in ray)), field))


def _cosine_rate(ray: tuple[Block, Block, Block]) -> float:
    """d cos(u, x + t w) / dt at t = 0 by a difference of fourth order, times |x| / |w|."""
    u, x, w = (_blocks(vector, 1) for vector in ray)
    step = 1e-3 * float(np.linalg.norm(x) / np.linalg.norm(w))

    def cosine(t: float) -> float:
        y = x + t * w
        return float(u @ y / np.linalg.norm(u) / np.linalg.norm(y))

    rate = (8 * (cosine(step) - cosine(-step)) - cosine(2 * step) + cosine(-2 * step)) / (12 * step)
    return float(rate * np.linalg.norm(x) / np.linalg.norm(w))


TURN = (
    ExactCheck(
        name="bias angle in blocks, by a complex quotient",
        cases=lambda: [(*pair, length) for pair in _ANGLES for length in _LENGTHS],
        truth=_angle_by_hand,
        statement=lambda first, second, length: freezing.bias_angle(_blocks(first, length), _blocks(second, length)),
        wrong=lambda first, second, length: math.pi - _angle_by_hand(first, second, length),
        tolerance=1e-12,
    ),
    ExactCheck(
        name="how far the angle falls, in blocks, on every branch",
        cases=lambda: [(*ray, length) for ray in _RAYS for length in _LENGTHS],
        truth=lambda ray, limit, length: limit,
        statement=lambda ray, limit, length: _turn("limit", ray, length),
        wrong=lambda ray, limit, length: limit / 2 + 1,
        tolerance=1e-12,
    ),
    ExactCheck(
        name="margin in blocks, by differences of the cosine",
        cases=lambda: [(ray, length) for ray, limit in _RAYS if abs(_cosine_rate(ray)) > 1e-6 for length in _LENGTHS],
        truth=lambda ray, length: _cosine_rate(ray),
        statement=lambda ray, length: _turn("margin", ray, length),
        wrong=lambda ray, length: -_cosine_rate(ray),
        tolerance=1e-9,
    ),
)


# --- lf.prop3.1.3 -----------------------------------------------------------------------------------------------------
def direct_mean(dim: int, snr: float, bias: float, cosine: bool = False) -> float:
    """E gamma, or E cos gamma, over the noise along the signal's plane and the length of the rest, chi of dim - 2 >= 3.

    The angle of (snr cos(bias) + y, snr sin(bias) + z, rest) with the first axis, by products of Gauss rules.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    freedom = dim - 2
    middle = math.sqrt(freedom)
    low, high = max(0.0, middle - 9), middle + 9
    points, widths = np.polynomial.legendre.leggauss(120)
    rest = low + (high - low) / 2 * (points + 1)
    log_density = (freedom - 1) * np.log(rest / middle) - (rest**2 - middle**2) / 2
    chances = widths * np.exp(log_density)
    chances /= chances.sum()
    along = snr * math.cos(bias) + nodes[:, None, None]
    across = np.hypot(snr * math.sin(bias) + nodes[:, None], rest)
    gamma = np.arctan2(across, along)
    return float(weights @ ((np.cos(gamma) if cosine else gamma) @ chances) @ weights)


_SNRS = ((12, 0.5), (12, 8.0), (20_000, 0.5), (20_000, 150.0), (10**6, 300.0), (10**8, 2e5))

ANGLE = (
    ExactCheck(
        name="mean angle, over noise in the plane and length of the rest",
        cases=lambda: [(dim, snr, bias) for dim, snr in _SNRS for bias in (0.0, 0.7, math.pi / 2, 2.5)],
        truth=direct_mean,
        statement=lambda dim, snr, bias: freezing.expected_angle(dim, snr, bias),
        wrong=lambda dim, snr, bias: bias,
        tolerance=1e-9,
    ),
)


def _mean_in_space(dim: int, snr: float, bias: float, cosine: bool) -> float:
    """The same without bias in three dimensions, by the density that is elementary there."""

    def part(angle: float) -> float:
        return (math.cos(angle) if cosine else angle) * density_in_two_or_three(dim, snr, angle)

    return float(quad(part, 0, math.pi, epsabs=0, epsrel=1e-12, limit=200)[0])


_LAYERS = ((7, 2, 1), (7, 2, 30), (70_000, 20_000, 9000), (10**7, 200, 300_000))


def _effect(sizes: Block, clip: int, alignment: Fraction) -> freezing.FreezingEffect:
    """Two samples, the first of three layers frozen, sigma = 2, B = 10."""
    norms = [[4, 0, 3], [12, 3, 4]]
    if alignment == 1:
        return freezing.freezing_effect(sizes, norms, 1, clip, 2.0, 10)
    return freezing.freezing_effect(sizes, norms, 1, clip, 2.0, 10, float(alignment))


def _effect_by_hand(field: str, sizes: Block, clip: int, alignment: Fraction) -> float | Fraction:
    """Trainable norms 3 and 5, whole norms 5 and 13."""
    when, _, name = field.partition(".")
    norms = {
        at: sum((min(F(kept), F(kept * clip, norm)) for kept, norm in zip((3, 5), whole, strict=True)), F(0)) / 2
        for at, whole in {"before": (5, 13), "after": (3, 5)}.items()
    }
    if field == "growth":
        return norms["after"] / norms["before"]
    dim = sizes[1] + sizes[2]
    variance = F(2 * clip, 10) ** 2
    snr = alignment * F(norms[when]) / F(2 * clip, 10)
    if name in ("noise_cos", "noise_angle"):
        mean = _mean_in_space if dim == 3 else direct_mean
        return mean(dim, float(snr), 0.0, name == "noise_cos")
    return {
        "dim": F(dim),
        "clipped_norm": F(norms[when]),
        "snr": snr,
        "noise_energy": dim * variance,
        "update_noise": (sum(sizes) if when == "before" else dim) * variance,
    }[name]


def _stated_effect(field: str, sizes: Block, clip: int, alignment: Fraction) -> float:
    found: Any = _effect(sizes, clip, alignment)
    for name in field.split("."):
        found = getattr(found, name)
    return float(found)


def _other_half(field: str, *case: Any) -> float:
    """Wrong statement: before and after exchanged."""
    when, _, name = field.partition(".")
    return 1 / _stated_effect(field, *case) if not name else _stated_effect(f"{_OTHER[when]}.{name}", *case)


_OTHER = {"before": "after", "after": "before"}


def _effect_cases(*names: str) -> list[tuple[str, Block, int, Fraction]]:
    return [
        (field, sizes, clip, alignment)
        for field in dict.fromkeys(name if name == "growth" else f"{when}.{name}" for name in names for when in _OTHER)
        for sizes in _LAYERS
        for clip, alignment in ((1, F(1, 2)), (4, F(1)), (20, F(1, 2)))
    ]


EFFECT = (
    ExactCheck(
        name="forecast for two samples of three layers, in fractions",
        cases=lambda: _effect_cases("dim", "clipped_norm", "snr", "noise_energy", "update_noise", "growth"),
        truth=_effect_by_hand,
        statement=_stated_effect,
        wrong=_other_half,
        tolerance=1e-13,
    ),
    ExactCheck(
        name="forecast of angle and cosine, by quadrature",
        cases=lambda: _effect_cases("noise_cos", "noise_angle"),
        truth=_effect_by_hand,
        statement=_stated_effect,
        wrong=_other_half,
        tolerance=1e-9,
    ),
)


# --- lf.appA.moment ---------------------------------------------------------------------------------------------------
_SIGNALS = ((((3, 2), (-1, 1)), F(1, 3), 2), (((1, 20_000), (-2, 5000)), F(2), 64), (((0, 10**7),), F(1), 1024))
"""Entries of s^B and how many there are of each, tau, and B."""


def _square_by_signs(entries: tuple[tuple[int, int], ...], tau: Fraction, batch_size: int) -> Fraction:
    """E|s^B + z|^2 with both signs of the noise +-tau in every entry."""
    return sum((count * sum(((s + z) ** 2 for z in (tau, -tau)), F(0)) / 2 for s, count in entries), F(0))


MOMENT = (
    ExactCheck(
        name="both signs of the noise in every entry, at users' sizes",
        cases=lambda: _SIGNALS,
        truth=_square_by_signs,
        statement=lambda entries, tau, batch_size: freezing.private_second_moment(
            float(sum(count * s**2 for s, count in entries)),
            0.5,
            float(2 * tau * batch_size),
            sum(count for _, count in entries),
            batch_size,
        ),
        wrong=lambda entries, tau, batch_size: tau**2,  # as printed
        tolerance=1e-14,
    ),
)
