"""Moments of clipped Gaussian gradients by quadrature over both parts of the gradient, and the errors put together from them."""

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import gammaincc, gammaincinv

from dptheory import gradients


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
    norm, kept = (_norms(uneven)[-1], dim // 2) if field.startswith("masked") else (1.0, dim)
    return math.sqrt(norm**2 + kept * deviation**2) + 0.3 * deviation


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
