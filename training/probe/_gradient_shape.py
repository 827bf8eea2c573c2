"""Statistics of one gradient vector, against their law for a Gaussian vector of the same norm."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dptheory import pruning
from dptheory.training.probe._measurement import GAUSSIAN, Fit, MeasureSettings, Row

GROUP = 256  # the group size of the paper's experiments

Array = NDArray[np.float64]


def shape_rows(
    g: Array, fit: Fit, settings: MeasureSettings, keeps: tuple[int, ...], rng: np.random.Generator
) -> list[Row]:
    """Statistics of g itself, against their law for a Gaussian vector of the same norm (a uniform direction).

    Direction and norm of a Gaussian vector are independent, so its mean top-k MSE given |g| = sigma_g sqrt(d) is
    exactly top_k_mse(d, K, sigma_g=sigma_g).
    """
    reference = [_on_sphere(fit, rng) for _ in range(settings.draws)]
    rows = []

    top_k = _pruned_away(g, keeps)
    spread = np.std([_pruned_away(v, keeps) for v in reference], axis=0, ddof=1)
    for i, (ratio, keep) in enumerate(zip(settings.keep_shares, keeps, strict=True)):
        predicted = float(pruning.top_k_mse(g.size, keep, sigma_g=fit.sigma_g))
        rows.append(
            Row(
                quantity="top_k_mse",
                keep_share=ratio,
                keep=keep,
                predicted=predicted,
                measured=float(top_k[i]),
                standard_error=float(spread[i]),
                assumption=GAUSSIAN,
            )
        )

    groups = g.size // GROUP
    ratios = [r for r in settings.keep_shares if groups and round(r * GROUP) > 0]
    for ratio in ratios:
        keep = round(ratio * GROUP)
        predicted = groups * float(pruning.top_k_mse(GROUP, keep, sigma_g=fit.sigma_g))
        deviation = float(np.std([_pruned_away_in_groups(v, keep) for v in reference], ddof=1))
        measured = _pruned_away_in_groups(g, keep)
        rows.append(
            Row(
                quantity="grouped_top_k_mse",
                keep_share=ratio,
                keep=groups * keep,
                predicted=predicted,
                measured=measured,
                standard_error=deviation,
                assumption=GAUSSIAN,
            )
        )

    for name, statistic in (("ks_distance", _ks_distance), ("excess_kurtosis", _excess_kurtosis)):
        under = [statistic(v, fit.sigma_g) for v in reference]
        mean, deviation = float(np.mean(under)), float(np.std(under, ddof=1))
        rows.append(
            Row(
                quantity=name,
                keep_share=1.0,
                keep=g.size,
                predicted=mean,
                measured=statistic(g, fit.sigma_g),
                standard_error=deviation,
                assumption=GAUSSIAN,
            )
        )
    return rows


def _on_sphere(fit: Fit, rng: np.random.Generator) -> Array:
    v = rng.standard_normal(fit.dim)
    return v * (fit.grad_norm / np.linalg.norm(v))


def _pruned_away(v: Array, keeps: tuple[int, ...]) -> Array:
    """Sum of the d - K smallest squares, for each K."""
    below = np.concatenate([[0.0], np.cumsum(np.sort(v**2))])
    pruned: Array = below[v.size - np.array(keeps)]
    return pruned


def _pruned_away_in_groups(v: Array, keep: int) -> float:
    groups = v[: v.size // GROUP * GROUP].reshape(-1, GROUP) ** 2
    return float(np.partition(groups, GROUP - keep, axis=1)[:, : GROUP - keep].sum())  # keep is 1 at least


def _ks_distance(v: Array, sigma_g: float) -> float:
    cdf = ndtr(np.sort(v) / sigma_g)
    steps = np.arange(v.size + 1) / v.size
    return float(max((steps[1:] - cdf).max(), (cdf - steps[:-1]).max()))


def _excess_kurtosis(v: Array, sigma_g: float) -> float:
    return float(np.mean((v / sigma_g) ** 4)) - 3.0
