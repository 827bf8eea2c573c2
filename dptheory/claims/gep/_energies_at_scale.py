"""GEP's energies, biases and noises field by field, at small sizes and at users': against traces and searches."""

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dptheory import embedding
from dptheory.checks import ExactCheck

_TINY = 1e-10

# --- noise energies ---------------------------------------------------------------------------------------------------
_ENERGIES = tuple(
    (dim, k, clip, second, mu, lost, first)
    for dim, k in ((12, 3), (270_000, 1000), (20_000_000, 5000))
    for clip, second, mu, lost, first in (
        (10.0, 2.0, 0.5, 0.0, None),
        (3.0, 2.9, 4.0, 7.0, None),
        (1.0, 0.3, 1.0, 0.0, 0.6),
    )
)
"""p, k, S, S2, mu, |r| and S1."""


def traced_energy(
    way: str, dim: int, k: int, clip: float, second: float, mu: float, lost: float, embedding_clip: float | None
) -> float:
    """Trace of the noise's covariance, from variances found by a search over their ratio; for B-GEP with what is lost."""
    first, q = clip if embedding_clip is None else embedding_clip, dim - k
    if way == "plain":
        return math.fsum([k * (clip / mu) ** 2, q * (clip / mu) ** 2])
    if way == "embedding_only":
        return math.fsum([k * (first / mu) ** 2, lost * lost])
    if way == "published":
        return math.fsum([2 * k * (first / mu) ** 2, 2 * k * (second / mu) ** 2, 2 * q * (second / mu) ** 2])
    if way == "published_sum":  # mu^2 = S1^2 / (s1^2 + s2^2) + S2^2 / s2^2 at s_i = s S_i, in the span and off it
        scale = (first**2 / (first**2 + second**2) + 1) / mu**2
        return scale * math.fsum([k * (first**2 + second**2), q * second**2])
    share = min(1.0, second / clip)
    corners = [(first**2, second**2)]
    if way == "joint":  # the two corners of what occurs
        corners = [(clip**2, 0.0), ((1 - share**2) * clip**2, (share * clip) ** 2)]

    def energy(t: float) -> float:
        return (k + q * t) * max(a + b / t for a, b in corners) / mu**2

    return least(energy)


def least(energy: Any) -> float:
    """Minimum over t > 0 of a function that falls and then rises in log t, by golden section."""
    low, high, golden = -30.0, 30.0, (math.sqrt(5) - 1) / 2
    for _ in range(90):
        left, right = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, right) if energy(math.exp(left)) < energy(math.exp(right)) else (left, high)
    return float(energy(math.exp(low)))


def _spread(norm: float, rows: int, width: int) -> Any:
    """Equal rows of this norm, spread evenly over the entries."""
    return np.full((rows, width), norm / math.sqrt(width))


def _biased_energy(way: str, rows: int, k: int, q: int) -> float:
    """Noise and squared clipping bias of ``rows`` equal gradients, of norm 5 in the subspace and 12 off it."""
    noise = traced_energy(way, q + k, k, 6.5, 2.0, 2.0, 12.0 * rows if way == "embedding_only" else 0.0, 5.5)
    scale = 0.5  # of the gradient, whose norm is 13
    bias = {
        "plain": (1 - scale) ** 2 * 169,
        "embedding_only": 0.0,  # the embedding's norm is 5, below its clip
        "joint": ((1 - scale) * 5) ** 2 + (12 - 2) ** 2,  # the residual of norm 6 is clipped again, to 2
    }.get(way, (12.0 - 2.0) ** 2)
    return noise + rows**2 * bias


def _calculated_biased(way: str, rows: int, k: int, q: int) -> float:
    found = embedding.clipped_gep_mse(_spread(5, rows, k), _spread(12, rows, q), 6.5, 2.0, 2.0, embedding_clip=5.5)
    return float(getattr(found, way))


_WAYS = ("plain", "embedding_only", "published", "published_sum", "optimal", "joint")

VERSUS = (
    ExactCheck(
        name="every way: trace of the noise",
        cases=lambda: [(way, *case) for way in _WAYS for case in _ENERGIES],
        truth=traced_energy,
        statement=lambda way, *case: getattr(embedding.gep_mse(*case), way),
        wrong=lambda way, *case: 1.001 * traced_energy(way, *case),
        tolerance=_TINY,
    ),
    ExactCheck(
        name="every way: noise and clipping bias of gradients that are all alike",
        cases=lambda: [(way, *case) for way in _WAYS for case in ((1, 2, 9), (3, 2, 20_000), (2, 20_000, 5))],
        truth=_biased_energy,
        statement=_calculated_biased,
        wrong=lambda way, *case: 1.001 * _biased_energy(way, *case),
        tolerance=1e-9,
    ),
    ExactCheck(
        name="residual that pays for its release, from the traces",
        cases=lambda: [
            (way, *case[:5]) for way in _WAYS if way != "embedding_only" for case in _ENERGIES if case[6] is None
        ],
        truth=lambda way, dim, k, clip, second, mu: (
            traced_energy(way, dim, k, clip, second, mu, 0.0, None) - k * (clip / mu) ** 2
        ),
        statement=lambda way, *case: getattr(embedding.least_residual_energy(*case), way),
        wrong=lambda way, dim, k, clip, second, mu: traced_energy(way, dim, k, clip, second, mu, 0.0, None),
        tolerance=1e-8,
    ),
    ExactCheck(
        name="the ratios at users' sizes: noise is less just below and not just above",
        cases=lambda: [
            (way, dim, k, side)
            for way in ("published", "published_sum", "optimal", "joint")
            for dim, k in ((270_000, 1000), (100_000, 30_000), (20_000_000, 100))
            for side in (0.9999, 1.0001)
        ],
        truth=lambda way, dim, k, side: side < 1,
        statement=lambda way, dim, k, side: _saves(way, dim, k, side * getattr(embedding.largest_residual_ratio(dim, k), way)),
        wrong=lambda way, dim, k, side: _saves(way, dim, k, side / 1.01 * getattr(embedding.largest_residual_ratio(dim, k), way)),
    ),
    ExactCheck(
        name="joint ratio: its square is q / p, in integers",
        cases=lambda: [(dim, k) for dim, k in ((25, 9), (270_000, 1000), (10**7, 10**6))],
        truth=lambda dim, k: Fraction(dim - k, dim),
        statement=lambda dim, k: embedding.largest_residual_ratio(dim, k).joint ** 2,
        wrong=lambda dim, k: 1.0,
        tolerance=1e-14,
    ),
    ExactCheck(
        name="bias of clipping the gradient first, a residual with many entries",
        cases=lambda: [
            (part, k, q) for part in ("embedding", "residual", "square") for k, q in ((2, 4), (2, 20_000), (20_000, 4))
        ],
        truth=lambda part, k, q: {
            "embedding": -2.5 * math.sqrt(k), "residual": -10 * math.sqrt(q), "square": 0.25 * 25 + 100.0
        }[part],
        statement=lambda part, k, q: _functional(
            part, embedding.joint_clipping_bias(_spread(5, 1, k), _spread(12, 1, q), 6.5, 2 / 6.5)
        ),
        wrong=lambda part, k, q: {"embedding": -5.0, "residual": -12 * math.sqrt(q), "square": 144.0}[part],
        tolerance=1e-12,
    ),
)  # fmt: skip


def _saves(way: str, dim: int, k: int, ratio: float) -> bool:
    """Less noise than plain perturbation, for "joint" by more than rounding."""
    return traced_energy(way, dim, k, 1.0, ratio, 1.0, 0.0, None) < dim * (1 - 1e-13)


def _functional(part: str, bias: embedding.ClippingBias) -> float:
    """The square, or the sum of the entries of a part."""
    return bias.square if part == "square" else float(getattr(bias, part).sum())


REM1 = (
    ExactCheck(
        name="bias of clipping apart, part by part",
        cases=lambda: [
            (part, rows, k, q)
            for part in ("embedding", "residual", "square")
            for rows, k, q in ((1, 2, 4), (3, 2, 20_000), (3, 20_000, 4))
        ],
        truth=lambda part, rows, k, q: {
            "embedding": -math.sqrt(k) * rows, "residual": -10 * math.sqrt(q) * rows, "square": rows**2 * (1 + 100.0)
        }[part],
        statement=lambda part, rows, k, q: _functional(
            part, embedding.clipping_bias(_spread(5, rows, k), _spread(12, rows, q), 4.0, 2.0)
        ),
        wrong=lambda part, rows, k, q: {"embedding": 1.0, "residual": -12 * math.sqrt(q) * rows, "square": 0.0}[part],
        tolerance=1e-12,
    ),
)  # fmt: skip


# --- split ------------------------------------------------------------------------------------------------------------
_SPLITS = ((12, 3, 1.0, 0.4, 1.0), (270_000, 1000, 10.0, 2.0, 0.7), (20_000_000, 5000, 3.0, 5.0, 2.0))

SPLIT = (
    ExactCheck(
        name="the stds: at the best ratio, and mu-GDP together",
        cases=lambda: [(what, *case) for what in ("embedding_std", "residual_std") for case in _SPLITS],
        truth=lambda what, dim, k, first, second, mu: _best_stds(dim, k, first, second, mu)[what == "residual_std"],
        statement=lambda what, *case: getattr(embedding.split_noise(*case), what),
        wrong=lambda what, dim, k, first, second, mu: math.sqrt(2) * (second if what == "residual_std" else first) / mu,
        tolerance=1e-6,
    ),
)


def _best_stds(dim: int, k: int, first: float, second: float, mu: float) -> tuple[float, float]:
    """s1 and s2 by bisection on the derivative of (k + q t)(S1^2 + S2^2 / t), t = s2^2 / s1^2."""
    low, high = -60.0, 60.0
    for _ in range(200):
        t = math.exp((low + high) / 2)
        low, high = (low, math.log(t)) if (dim - k) * first**2 * t * t > k * second**2 else (math.log(t), high)
    t = math.exp((low + high) / 2)
    std = math.sqrt(first**2 + second**2 / t) / mu
    return std, math.sqrt(t) * std
