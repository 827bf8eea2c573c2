"""Gradients, deviations and runs of rs.phase's checks."""

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from dptheory import convergence, sparsification
from dptheory.claims.rs import _poisson_mixture as mixture

Array = NDArray[np.float64]


def entries(dim: float, keep_share: float) -> tuple[int, int]:
    """d, and k < d on a logarithmic scale."""
    whole = round(dim)
    return whole, min(whole - 1, round(whole**keep_share))


def spread_kappa(second: float, third: float, keep: float, signal: float, clip_share: float) -> tuple[float, float]:
    """Exact kappa of four entries, all masks; and that of equal entries of the same norm."""
    w = np.array([1.0, second, third, second * third])
    w *= math.sqrt(4 * signal) / np.linalg.norm(w)
    size, k = math.sqrt(4 * signal), round(keep)
    clip = clip_share * math.sqrt(size**2 + 4)
    lengths = [math.hypot(*one) for one in itertools.combinations(w, k)]
    masked = np.mean([one**2 * mixture.clip_slope(one, k, 1.0, clip) for one in lengths])
    return float(masked) / (size**2 * mixture.clip_slope(size, 4, 1.0, clip)), mixture.isotropic_kappa(
        size, 4, k, 1.0, clip
    )


def step_worth(size: float, entries: int, clip: float, batch: float, noise: float, share: float) -> float:
    """(E<w, g>)^2 / E|g|^2 of a batch of ``batch`` examples, deviation 1, mask average taken for equal entries."""
    slope = mixture.clip_slope(size, entries, 1.0, clip)
    square = (1 - 1 / batch) * (slope * size) ** 2 + mixture.clip_square(size, entries, 1.0, clip) / batch
    return (slope * size**2) ** 2 / (square + share * noise)


def _descents(w: Array, deviations: Array, clip: float, masks: Array) -> float:
    """Mean over masks and deviations of <w, clip(m * (w + xi))>."""
    g = masks[:, None, :] * (w + deviations)[None, :, :]
    lengths = np.maximum(np.linalg.norm(g, axis=-1), clip)
    return float(((g @ w) * clip / lengths).mean())


def any_symmetric(
    second: float, third: float, spread: float, turn: float, clip: float, keep: float
) -> tuple[float, float]:
    """Exact kappa of four entries and four deviations with their negatives; item 1's bound with H."""
    w = np.array([1.0, second, third, second * third])
    rows = (
        np.random.default_rng(round(100 * turn)).standard_normal((4, 4))
        * spread
        * np.array([[0.0], [0.3], [1.0], [30.0]])
    )
    deviations, size, k = np.concatenate((rows, -rows)), float(np.linalg.norm(w)), round(keep)
    masks = np.array([np.isin(np.arange(4), one) for one in itertools.combinations(range(4), k)], dtype=np.float64)
    plain = _descents(w, deviations, clip * size, np.ones((1, 4)))
    x = k / 4
    return _descents(w, deviations, clip * size, masks) / plain, min(x, math.sqrt(x) * clip) / (plain / size**2)


def one_entry_gain(dim: int, keep: int, factor: float) -> bool:
    """Does a mask lower the tuned bound, at immense noise, for a deviation +-L e_j, j uniform?

    Equal entries, |w| far below C; L is such that H is ``factor`` times sqrt x (1 + sqrt x) / (1 + sqrt x + x).
    """
    x, root = keep / dim, math.sqrt(keep / dim)
    w, clip = np.full(dim, 1e-5 / math.sqrt(dim)), 1.0
    survives = factor * root * (1 + root) / (1 + root + x)

    def step(entries: int) -> float:
        """<w, clip(w + L e_1)> + <w, clip(w - L e_1)>, halved, with the first ``entries`` entries."""
        kept = (np.arange(dim) < entries).astype(np.float64)[None]
        outlier = np.zeros((1, dim))
        outlier[0, 0] = clip / survives
        return _descents(w, np.concatenate((outlier, -outlier)), clip, kept)

    masked = x * step(keep) + (1 - x) * x * float(w @ w)  # without the entry nothing is clipped
    return masked / step(dim) > sparsification.least_kappa_tuned(drop_rate=1 - x, noise_to_curvature=1e9)


def run(log_steps: float, log_theta: float, noise_ratio: float, dim: int = 10_000) -> dict[str, float | int | str]:
    """A run with theta T = 10^log_theta without a mask: A = 1/2, D / A = ``noise_ratio``, G = 1."""
    steps = round(10**log_steps)
    return {
        "objective_gap": (1 + noise_ratio) / 8 * steps / 10**log_theta,
        "steps": steps,
        "smoothness": 1.0,
        "clip_norm": 1.0,
        "noise_multiplier": 4 * math.sqrt(noise_ratio / dim),
        "dim": dim,
        "batch_size": 4,
        "sampling": "fixed",
    }


def _least(run: dict[str, float | int | str], rate: float) -> float:
    """J_x, at the tuned learning rate."""
    gamma = convergence.tuned_learning_rate(**run, drop_rate=rate)  # type: ignore[arg-type]
    bound = convergence.dpsgd_bound(**run, drop_rate=rate, learning_rate=gamma)  # type: ignore[arg-type]
    return bound.value / (2 * float(run["objective_gap"]))


def threshold(log_steps: float, log_theta: float, noise_ratio: float, x: float) -> tuple[float, float, float]:
    """Item 4: its lower end, x J_x / J_1, its upper end."""
    setting = run(log_steps, log_theta, noise_ratio)
    first = _least(setting, 0.0)
    top = math.sqrt((1 + x * noise_ratio) / (1 + noise_ratio))
    return top / (1 + first * (top / x - 1)), x * _least(setting, 1 - x) / first, top


def fixed_threshold(
    log_steps: float, noise_ratio: float, x: float, rate_share: float, gap_excess: float
) -> tuple[float, float, float]:
    """x B_x / B_1 at a fixed rate, B the bound for kappa = x; x + r c; and that of Theorem 3.5's bound. G = C = 1, A = 1/2."""
    gamma = rate_share / 2
    gap = gap_excess * gamma * (0.5 / x + 0.5 * noise_ratio) / 2

    def bound(drop_rate: float, bias: float | None = None) -> convergence.DescentBound:
        return convergence.dpsgd_bound(
            objective_gap=gap,
            learning_rate=gamma,
            steps=round(10**log_steps),
            smoothness=1.0,
            clip_norm=1.0,
            noise_multiplier=math.sqrt(noise_ratio),
            dim=1,
            batch_size=1,
            drop_rate=drop_rate,
            bias=bias,
            sampling="fixed",
        )

    plain = bound(0.0)
    printed = x * bound(1 - x, 0.0).value / bound(0.0, 0.0).value
    return x * bound(1 - x).value / plain.value, x + (1 - x) * plain.clipping / plain.value, printed
