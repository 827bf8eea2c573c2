import functools
import itertools
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy
from scipy.special import gammaincc, gammaincinv

from dptheory import gradients
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.rf._batch_errors import BATCHES, FLAT, enumerated_mse, flat_breakdown, gaussian_errors, split_mse

# Moments of clipped Gaussian gradients by quadrature over both parts of the gradient, and the errors put together from them.


def crossed(dim: int, spread: float) -> float:
    """A bound that about half the gradients of mean norm 1 and deviation spread / sqrt(dim) exceed."""
    return math.sqrt(1.0 + spread**2) + 0.3 * spread / math.sqrt(dim)


@functools.lru_cache(maxsize=256)
def split_moments(grad_norm: float, dim: int, deviation: float, bound: float) -> dict[str, float]:
    """Moments of clip(g): the trapezoidal rule along w, equally likely values of the chi-square law across it."""
    nodes = np.linspace(-7.0, 7.0, 801)
    weights = np.exp(-(nodes**2) / 2)
    weights /= weights.sum()
    along = (grad_norm + deviation * nodes)[:, None]
    across = deviation**2 * 2.0 * gammaincinv((dim - 1) / 2, (np.arange(1000) + 0.5) / 1000)
    square = along**2 + across
    slope = float(weights @ (np.minimum(1.0, bound / np.sqrt(square)) * along).mean(axis=1)) / grad_norm
    second = float(weights @ np.minimum(square, bound**2).mean(axis=1))
    rest = np.maximum(bound**2 - along[:, 0] ** 2, 0.0) / deviation**2
    return {
        "slope": slope,
        "shortfall": 1.0 - slope,
        "second_moment": second,
        "variance": second - (slope * grad_norm) ** 2,
        "clip_probability": float(weights @ gammaincc((dim - 1) / 2, rest / 2)),
    }


_FIELDS = (
    *(
        f"{side}.{name}"
        for side in ("full", "masked")
        for name in (
            "signal_loss", "noise", "alignment", "second_moment", "clip_probability", "mse", "descent_ratio",
        )
    ),
)  # fmt: skip


def cases() -> Iterator[tuple[str, int, bool]]:
    """Field, dimension, and whether the masked norms are given; differences of two errors cancel in high dimension."""
    yield from itertools.product(_FIELDS, (40, 20_000), (False, True))
    yield from itertools.product(("delta_signal", "delta_mse"), (40,), (False, True))


_BATCH, _SIGMA, _SPREAD = 4, 1.5, 0.6


def _norms(uneven: bool) -> tuple[float, ...]:
    """Norms of half of the entries of a gradient of norm 1; their mean square is 1/2, as over all masks."""
    return (0.3, math.sqrt(0.91)) if uneven else (math.sqrt(0.5),)


def _bound(field: str, dim: int, uneven: bool) -> float:
    """A clipping norm that about half the gradients exceed: all entries, or those kept for a field of the masked side."""
    deviation = _SPREAD / math.sqrt(dim)
    length, kept = (_norms(uneven)[-1], dim // 2) if field.startswith("masked") else (1.0, dim)
    return math.sqrt(length**2 + kept * deviation**2) + 0.3 * deviation


def read(field: str, dim: int, uneven: bool) -> float:
    """The field as the calculator gives it."""
    deviation, bound = _SPREAD / math.sqrt(dim), _bound(field, dim, uneven)
    norms = _norms(True) if uneven else None
    value: Any = gradients.clipped_gradient_mse(
        grad_norm=1.0,
        dim=dim,
        deviation=deviation,
        clip_norm=bound,
        noise_multiplier=_SIGMA,
        batch_size=_BATCH,
        drop_rate=0.5,
        masked_norms=norms,
    )
    for name in field.split("."):
        value = getattr(value, name)
    return float(value)


def assembled(field: str, dim: int, uneven: bool) -> float:
    """The same field from :func:`split_moments` and the definitions of the errors."""
    bound, sides = _bound(field, dim, uneven), {}
    for side, norms, kept in (("full", (1.0,), dim), ("masked", _norms(uneven), dim // 2)):
        rows = [(w, split_moments(w, kept, _SPREAD / math.sqrt(dim), bound)) for w in norms]
        noise = kept * (bound * _SIGMA / _BATCH) ** 2
        loss = [1 - w**2 + ((1 - m["slope"]) * w) ** 2 + m["variance"] / _BATCH for w, m in rows]
        square = [(m["slope"] * w) ** 2 + m["variance"] / _BATCH + noise for w, m in rows]
        one = {
            "signal_loss": math.fsum(loss) / len(rows),
            "noise": noise,
            "alignment": math.fsum(m["slope"] * w**2 for w, m in rows) / len(rows),
            "second_moment": math.fsum(square) / len(rows),
            "clip_probability": math.fsum(m["clip_probability"] for _, m in rows) / len(rows),
        }
        sides[side] = one | {
            "mse": one["signal_loss"] + noise,
            "descent_ratio": one["alignment"] ** 2 / one["second_moment"],
        }
    if field.startswith("delta"):
        name = "mse" if field == "delta_mse" else "signal_loss"
        return sides["full"][name] - sides["masked"][name]
    side, name = field.split(".")
    return sides[side][name]


def _moment_cases() -> Iterator[tuple[str, float, int, float, float]]:
    settings = (
        (1.0, 1, 1.0, 1.0),
        (0.0, 3, 1.0, 0.1),
        (1.0, 10, 0.1, 1.0),
        (5.0, 1000, 0.1, 4.0),
        (1.0, 100, 1.0, 12.0),
    )
    names = ("slope", "shortfall", "second_moment", "variance", "clip_probability")
    for name, setting in itertools.product(names, settings):
        yield (name, *setting)


def _textbook_moment(name: str, grad_norm: float, dim: int, deviation: float, bound: float) -> float:
    """The moments from distribution functions of the noncentral chi-square law, by SciPy; moderate dimensions only."""
    square, shift = (bound / deviation) ** 2, (grad_norm / deviation) ** 2

    def below(freedom: int) -> float:
        return (
            float(scipy.stats.ncx2.cdf(square, freedom, shift))
            if shift
            else float(scipy.stats.ncx2.cdf(square, freedom, 1e-12))
        )

    if name == "clip_probability":
        return 1.0 - below(dim)
    if name == "second_moment":
        inside = dim * below(dim + 2) + shift * below(dim + 4)
        return deviation**2 * inside + bound**2 * (1.0 - below(dim))
    if name == "shortfall":
        return 1.0 - _textbook_moment("slope", grad_norm, dim, deviation, bound)
    if name == "variance":
        second, slope = (_textbook_moment(one, grad_norm, dim, deviation, bound) for one in ("second_moment", "slope"))
        return second - (slope * grad_norm) ** 2
    mean, spread = dim + 2 + shift, math.sqrt(2 * (dim + 2) + 4 * shift)
    top = max(square, mean) + 60 * spread + 200
    points = [p for p in (mean - 3 * spread, mean, mean + 3 * spread) if p > square] or None
    density = partial(_over_root, freedom=dim + 2, shift=max(shift, 1e-12))
    return below(dim + 2) + math.sqrt(square) * float(
        scipy.integrate.quad(density, square, top, points=points, limit=500, epsabs=1e-13)[0]
    )


def _small_variance(grad_norm: float, dim: int, deviation: float, distance: float) -> float:
    """V on a grid of the part of xi along w and of the quantiles of the rest; C = |w| + distance s. Lengths less |w|, over s."""
    z, half = np.linspace(-9, 9, 6001), (np.arange(60) + 0.5) / 60
    across = np.asarray(scipy.stats.chi2.ppf(half, dim - 1))[:, None]
    across *= (dim - 1) / float(across.mean())
    law = scipy.stats.norm.pdf(z) * (z[1] - z[0]) / 60
    longer = z + deviation * across / (2 * (grad_norm + deviation * z))  # |g|, the next term is of order s^2
    shrink = np.minimum(1.0, (grad_norm + deviation * distance) / (grad_norm + deviation * longer))
    along = (
        np.where(
            longer > distance, (distance - longer) * (grad_norm + deviation * z) / (grad_norm + deviation * longer), 0.0
        )
        + z
    )
    mean = float((law * along).sum())
    return deviation**2 * float((law * ((along - mean) ** 2 + shrink**2 * across)).sum())


def _found_variance(grad_norm: float, dim: int, deviation: float, distance: float) -> float:
    bound = grad_norm + distance * deviation
    return gradients.gaussian_clip_moments(grad_norm=grad_norm, dim=dim, deviation=deviation, clip_norm=bound).variance


_SIZES = ((1.0, 5000, 0.02, 1.2, 1.5, 64, 0.5), (0.5, 10**6, 1e-3, 1.0, 4.0, 1000, 0.9))
_ERROR_FIELDS = ("signal_loss", "noise", "alignment", "second_moment", "clip_probability")


def _large_error(side: str, name: str, *setting: float) -> float:
    """A field of the calculator for a flat gradient."""
    grad_norm, dim, deviation, clip, sigma, batch, rate = setting
    found = gradients.clipped_gradient_mse(
        grad_norm=grad_norm,
        dim=int(dim),
        deviation=deviation,
        clip_norm=clip,
        noise_multiplier=sigma,
        batch_size=int(batch),
        drop_rate=rate,
    )
    return float(getattr(getattr(found, side), name))


def _large_error_by_hand(side: str, name: str, *setting: float) -> float:
    """The same from SciPy's noncentral chi-square law."""
    grad_norm, dim, deviation, clip, sigma, batch, rate = setting
    kept = int(dim) if side == "full" else round((1 - rate) * dim)
    size = grad_norm * math.sqrt(kept / dim)
    moment = partial(_textbook_moment, grad_norm=size, dim=kept, deviation=deviation, bound=clip)
    slope, variance = moment("slope"), moment("variance")
    noise = kept * (clip * sigma / batch) ** 2
    return {
        "signal_loss": grad_norm**2 - size**2 + (1 - slope) ** 2 * size**2 + variance / batch,
        "noise": noise,
        "alignment": slope * size**2,
        "second_moment": (slope * size) ** 2 + variance / batch + noise,
        "clip_probability": moment("clip_probability"),
    }[name]


def _over_root(u: float, freedom: int, shift: float) -> float:
    return float(scipy.stats.ncx2.pdf(u, freedom, shift)) / math.sqrt(u)


row = new_row(
    id="rf.eq6",
    source=Source("rf", "section 2.2", (6,)),
    verdict=Verdict.HOLDS,
    calculators=(gradients.clipped_gradient_mse, gradients.gaussian_clip_moments),
    figure="rf_signal_loss",
)


@row.equal(lambda: [(i, size) for i in range(len(BATCHES)) for size in (1, 3)])
def _(i: int, size: int) -> Sides:
    """split by enumeration, two-point noise"""
    return (
        split_mse(BATCHES[i], 2, size, 2),
        lambda: enumerated_mse(BATCHES[i], 2, size),
        split_mse(BATCHES[i], 2, size, 1),
    )


@row.equal(
    lambda: [
        (562.015, 100, 1e-6, -5.61015e8),
        (1.0, 100, 1e-5, -2.0),
        (1.0, 1000, 1e-5, 3.0),
        *((1.0, d, s, t) for d in (2, 100) for s in (1e-7, 1e-9) for t in (-1e3, -5, -1, 0, 1, 5)),
    ],
    tolerance=1e-4,
)
def _(grad_norm: float, dim: int, deviation: float, distance: float) -> Sides:
    """variance far below C^2: small deviations, on a grid"""
    return (
        _found_variance(grad_norm, dim, deviation, distance),
        lambda: _small_variance(grad_norm, dim, deviation, distance),
        dim * deviation**2,
    )


@row.equal(
    lambda: [(side, name, *one) for side in ("full", "masked") for name in _ERROR_FIELDS for one in _SIZES],
    tolerance=1e-6,
)
def _(side: str, name: str, *setting: float) -> Sides:
    """every field with and without a mask, d = 5,000 and 1e6, by SciPy's noncentral chi-square law"""
    stated = _large_error(side, name, *setting)
    return stated, lambda: _large_error_by_hand(side, name, *setting), 1.001 * stated


@row.equal(_moment_cases, tolerance=1e-8)
def _(name: str, grad_norm: float, dim: int, deviation: float, bound: float) -> Sides:
    """clip moments by SciPy's noncentral chi-square law"""
    return (
        getattr(
            gradients.gaussian_clip_moments(grad_norm=grad_norm, dim=dim, deviation=deviation, clip_norm=bound), name
        ),
        lambda: _textbook_moment(name, grad_norm, dim, deviation, bound),
        getattr(
            gradients.gaussian_clip_moments(grad_norm=grad_norm, dim=dim + 1, deviation=deviation, clip_norm=bound),
            name,
        ),
    )


@row.mean(partial(gaussian_errors, w=FLAT, kept=16, bound=0.9, deviation=0.2, sigma=1.5, batch=4), row_bytes=6000)
def _() -> float:
    """Gaussian gradients, d = 16, batch of 4"""
    return flat_breakdown().full.mse


@row.mean(partial(gaussian_errors, w=FLAT, kept=16, bound=0.5, deviation=0.2, sigma=0.0, batch=4), row_bytes=6000)
def _() -> float:
    """signal loss alone, heavy clipping"""
    return gradients.clipped_gradient_mse(
        grad_norm=1.0, dim=16, deviation=0.2, clip_norm=0.5, noise_multiplier=0.0, batch_size=4, drop_rate=0.0
    ).full.signal_loss


@row.equal(
    lambda: itertools.product(
        ("slope", "shortfall", "second_moment", "variance", "clip_probability"),
        (3, 40, 20_000, 10**6),
        (0.3, 1.0),
    ),
    tolerance=2e-3,
)
def _(name: str, dim: int, spread: float) -> Sides:
    """every moment, small and users' sizes, by quadrature over both parts of the gradient"""
    deviation, bound = spread / math.sqrt(dim), crossed(dim, spread)
    return (
        getattr(gradients.gaussian_clip_moments(grad_norm=1.0, dim=dim, deviation=deviation, clip_norm=bound), name),
        lambda: split_moments(1.0, dim, deviation, bound)[name],
        getattr(
            gradients.gaussian_clip_moments(grad_norm=1.0, dim=dim, deviation=deviation, clip_norm=1.02 * bound), name
        ),
    )


@row.equal(cases, tolerance=2e-3)
def _(field: str, dim: int, uneven: bool) -> Sides:
    """every field, small and users' sizes, put together from those moments"""
    return (
        read(field, dim, uneven),
        lambda: assembled(field, dim, uneven),
        1.05 * read(field, dim, uneven),
    )
