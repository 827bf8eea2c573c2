"""Risk of descent where clipping biases the steps, and the best residual clip; steps and symbols as in ``_risk``."""

import bisect
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.embedding import _risk
from dptheory.errors import ArgumentError

_MOST_STEPS, _MOST_COUNT = 10**15, 10**15
_HALVINGS = 200


@dataclass(frozen=True, kw_only=True)
class BiasedDescentRisk:
    """Bounds of the largest mean excess risk over convex beta-smooth losses, biases of size at most b, and noises of mean 0.

    Attributes:
        lower: some loss, biases and noise have it.
        upper: none has more; it also bounds L(mean iterate).
    """

    lower: float
    upper: float


def biased_descent_risk(
    *, smoothness: float, initial_distance: float, steps: int, noise_energy: float, bias: float
) -> BiasedDescentRisk:
    r"""Largest mean of E L(theta_t) - L* over t = 1..T after steps of size 1/beta on gradients with bias and noise.

    .. math:: \frac{\beta(D+\frac{T+1}2\frac b\beta)^2}{2(T+2)}+\frac N{2\beta}\quad\text{to}\quad
              \frac{\beta D^2}{2T}+\frac N{2\beta}+bD+\frac{Tb^2}{2\beta}+\frac{2b\sqrt{TN}}{3\beta},

    the first for b <= 2 beta D; for larger b it is D (beta D + (T + 1) (b - beta D)) / 2 + N / (2 beta). At the best number of
    steps for a given privacy the two are within a factor of 2 if there are at least 17.

    Args:
        smoothness: beta > 0, in [1e-60, 1e60] like all sizes here.
        initial_distance: D, 0 or a size; not squared.
        steps: T in 1..1e15.
        noise_energy: N in [0, 1e120], at most which E|noise|^2 is in each step, noise of the averaged gradient.
        bias: b, 0 or a size, at most which the norm of the bias of the averaged gradient is in each step.

    Returns:
        Both bounds.

    Source: GEP, new, on Theorem 3.3 with clipped residuals (gep.clipped_residuals).

    Example: by hand: (2 + 1)^2 / 6 + 1/2, and 2 + 1/2 + 2 + 1/2 + 2/3.
        >>> from dptheory.embedding import biased_descent_risk
        >>> found = biased_descent_risk(smoothness=1.0, initial_distance=2.0, steps=1, noise_energy=1.0, bias=1.0)
        >>> round(found.lower, 4), round(found.upper, 4)
        (2.0, 5.6667)
    """
    smoothness = _validate.size("smoothness", smoothness, *_risk.RANGE)
    steps = _validate.integer("steps", steps, 1, _MOST_STEPS)
    noise_energy = _validate.real("noise_energy", noise_energy, 0.0, 1e120)
    bias = _validate.size("bias", bias, *_risk.RANGE, zero=True)
    return _bounds(
        smoothness,
        _validate.size("initial_distance", initial_distance, *_risk.RANGE, zero=True),
        steps,
        noise_energy,
        bias,
    )


def _bounds(smoothness: float, distance: float, steps: int, noise_energy: float, bias: float) -> BiasedDescentRisk:
    drift, noise = bias / smoothness, noise_energy / (2 * smoothness)
    slope = min(distance, (distance + (steps + 1) * drift / 2) / (steps + 2))  # over beta
    least = slope * (distance + (steps + 1) * (drift - slope) / 2) - slope * slope / 2
    spread = math.sqrt(steps) * math.sqrt(noise_energy) / smoothness
    grown = bias * (distance + steps * drift / 2 + 2 * spread / 3)
    return BiasedDescentRisk(
        lower=smoothness * least + noise, upper=smoothness * distance**2 / (2 * steps) + noise + grown
    )


@dataclass(frozen=True, kw_only=True)
class BestResidualClip:
    """The residual clip, the subspace and the number of steps with the least bound on the risk.

    Attributes:
        residual_clip: rho; 0 drops the residuals.
        subspace_dim: k, the first of the best ones.
        alike_dims: the k of all choices whose bounds rounding cannot tell from the least, in the order given.
        steps: T.
        bias: b, mean of what clipping takes off the residuals' norms.
        noise_energy: N, energy of the noise of a step on the averaged gradient, with the best split.
        value: the bound.
    """

    residual_clip: float
    subspace_dim: int
    alike_dims: tuple[int, ...]
    steps: int
    bias: float
    noise_energy: float
    value: float


def best_residual_clip(
    *,
    residual_norms: ArrayLike,
    subspace_dims: Sequence[int],
    dim: int,
    train_size: int,
    smoothness: float,
    initial_distance: float,
    mu: float,
    lipschitz: float = 1.0,
) -> BestResidualClip:
    r"""Best public clip of the residuals, subspace and number of steps at mu-Gaussian DP, with the best split of the noise.

    .. math:: s=\frac{\sqrt kG+\sqrt{p-k}\rho}{\mu n},\quad b=\frac1m\sum_{i\le m}(r_i-\rho)_+,\quad
              D\Big(b+\sqrt{s^2+\tfrac43bs+b^2}\Big)\le D(s+2b)\quad\text{at}\quad T=\frac{\beta D}{\sqrt{s^2+\frac43bs+b^2}}

    is convex in rho. The best clip clips between 1/3 and 3/5 of sqrt(p - k) / (mu n) of the residuals (equal norms apart).

    Needs, and cannot check: what :func:`excess_risk` needs, but for the residuals: at every iterate the mean of (|R_i| - rho)_+
    is at most that of the norms given. These must be public, or paid for.

    Args:
        residual_norms: r_i in [0, G], shape (choices of k, m).
        subspace_dims: k of each choice, in 1..p.
        dim: p, 1..1e15.
        train_size: n, 1..1e15.
        smoothness: beta > 0, in [1e-60, 1e60] like all sizes here.
        initial_distance: D, a size.
        mu: > 0, for all steps together; add-remove.
        lipschitz: G > 0, of every loss and clip of the embeddings.

    Returns:
        The best choice; T is the better whole number beside the best real one (at most 1e15), at that one's clip.

    Raises:
        ValueError: an argument outside its range, or shapes that do not match.

    Source: GEP, new, on Theorem 3.3 with clipped residuals (gep.clipped_residuals).

    Example: one residual in 100 is long. It is clipped to the length of the others, at a third less than the risk of no clipping.
        >>> from dptheory.embedding import best_residual_clip, excess_risk
        >>> run = dict(dim=1_000_000, train_size=50_000, smoothness=1.0, initial_distance=1.0, mu=0.5)
        >>> best = best_residual_clip(residual_norms=[[0.1] * 99 + [0.3]], subspace_dims=[100], **run)
        >>> best.residual_clip, best.steps, round(best.value, 5)
        (0.1, 169, 0.00792)
        >>> round(excess_risk(subspace_dim=100, residual_clip=0.3, **run).value, 5)
        0.0124
    """
    dim = _validate.integer("dim", dim, 1, _MOST_COUNT)
    kept = _validate.integers("subspace_dims", subspace_dims, 1, dim)
    train_size = _validate.integer("train_size", train_size, 1, _MOST_COUNT)
    smoothness, mu = _validate.size("smoothness", smoothness, *_risk.RANGE), _validate.size("mu", mu, *_risk.RANGE)
    distance, lipschitz = (
        _validate.size("initial_distance", initial_distance, *_risk.RANGE),
        _validate.size("lipschitz", lipschitz, *_risk.RANGE),
    )
    norms = _validate.nonnegative("residual_norms", residual_norms)
    if norms.ndim != 2 or len(norms) != len(kept) or not norms.size or (norms > lipschitz).any():
        raise ArgumentError(
            "residual_norms", f"hold numbers in [0, {lipschitz:g}], with shape ({len(kept)}, m)", residual_norms
        )

    scale = 1 / (mu * train_size)

    def chosen(subspace_dim: int, rows: Array) -> BestResidualClip:
        first, second = math.sqrt(subspace_dim) * lipschitz * scale, math.sqrt(dim - subspace_dim) * scale
        clip = _best_clip(rows, first, second)
        noise, bias = first + second * clip, _mean_excess(rows, clip)
        steps = _risk.better_whole(min(smoothness * distance / _root(noise, bias), _MOST_STEPS))
        energy = steps * noise * noise
        value = _bounds(smoothness, distance, steps, energy, bias).upper
        return BestResidualClip(
            residual_clip=clip,
            subspace_dim=subspace_dim,
            alike_dims=(subspace_dim,),
            steps=steps,
            bias=bias,
            noise_energy=energy,
            value=value,
        )

    found = [chosen(k, rows) for k, rows in zip(kept, norms, strict=True)]
    best = min(found, key=lambda one: one.value)
    # no term of a bound is negative: at most m additions of residuals and 100 other roundings, of both bounds
    alike = best.value * (1 + 2 * (norms.shape[1] + 100) * sys.float_info.epsilon)
    return replace(best, alike_dims=tuple(one.subspace_dim for one in found if one.value <= alike))


def _mean_excess(rows: Array, clip: float) -> float:
    return float(np.maximum(rows - clip, 0).mean())


def _root(noise: float, bias: float) -> float:
    """The root of s^2 + 4 b s / 3 + b^2."""
    return math.hypot(bias + 2 * noise / 3, math.sqrt(5) / 3 * noise)


def _best_clip(rows: Array, first: float, second: float) -> float:
    """Where the bound b + root(s, b), s = first + second rho, is least: it is convex in rho, smooth between two norms."""

    def rises(clip: float, share: float) -> bool:
        """Whether the bound rises at ``clip`` while this share of the norms is clipped."""
        noise, bias = first + second * clip, _mean_excess(rows, clip)
        root = _root(noise, bias)
        return second * (noise + 2 * bias / 3) >= share * (root + bias + 2 * noise / 3)

    places = np.unique(np.append(rows, 0.0))
    shares = 1 - np.searchsorted(np.sort(rows), places, side="right") / rows.size
    last = bisect.bisect_left(range(len(places)), True, key=lambda j: rises(float(places[j]), float(shares[j])))
    if not last:
        return 0.0
    low, high, share = float(places[last - 1]), float(places[last]), float(shares[last - 1])
    if not rises(high, share):
        return high
    for _ in range(_HALVINGS):
        middle = low + (high - low) / 2
        low, high = (low, middle) if rises(middle, share) else (middle, high)
    return high
