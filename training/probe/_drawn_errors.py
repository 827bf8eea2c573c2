"""Averages over random masks and noise vectors, for one gradient vector."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dptheory import pruning
from dptheory.training.probe._measurement import EXACT, GAUSSIAN, Fit, MeasureSettings, Row

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Draws:
    """One row per draw, one column per keep."""

    top_cosines: Array  # its last column keeps every entry: DP-SGD
    random_cosines: Array
    random_lost: Array  # |g - g * I|^2 of the random masks
    noise_squares: Array  # |Z|^2, shape (draws,)


def drawn_rows(
    g: Array,
    fit: Fit,
    settings: MeasureSettings,
    keeps: tuple[int, ...],
    top_k_spread: tuple[float, ...],
    rng: np.random.Generator,
) -> list[Row]:
    """The rows of :func:`dptheory.training.probe.measure` that average over draws.

    `top_k_spread` holds, for each K, the standard deviation of the top-k MSE under Assumption 1.
    """
    draws = _draw(g, settings, keeps, rng)
    dp_sgd = _cosine(fit, fit.zero_update_mse, g.size, settings)
    rows = [
        _average("noise_mse", 1.0, g.size, fit.dp_sgd_mse, draws.noise_squares),
        _average("cosine_dp_sgd", 1.0, g.size, dp_sgd, draws.top_cosines[:, -1]),
    ]
    by_size = np.cumsum(np.sort(g**2)[::-1])
    for i, (ratio, keep) in enumerate(zip(settings.keep_shares, keeps, strict=True)):
        top, random, lost = draws.top_cosines[:, i], draws.random_cosines[:, i], draws.random_lost[:, i]
        random_mse = float(pruning.random_k_mse(g.size, keep, sigma_g=fit.sigma_g))
        top_energy = float(pruning.top_k_energy(g.size, keep, sigma_g=fit.sigma_g))
        # what one mask lets us expect, averaged over the masks drawn: the difference is then the noise's alone
        given_masks = np.array([_cosine(fit, fit.zero_update_mse - part, keep, settings) for part in lost])
        swing = _cosine(fit, top_energy + top_k_spread[i], keep, settings) - _cosine(
            fit, top_energy - top_k_spread[i], keep, settings
        )
        fitted_random = _cosine(fit, fit.zero_update_mse - random_mse, keep, settings)
        rows += [
            _average("random_k_mse", ratio, keep, random_mse, lost),
            _average("cosine_top_k", ratio, keep, _cosine(fit, by_size[keep - 1], keep, settings), top),
            Row(
                quantity="cosine_top_k",
                keep_share=ratio,
                keep=keep,
                predicted=_cosine(fit, top_energy, keep, settings),
                measured=float(top.mean()),
                standard_error=float(np.hypot(_standard_error(top), swing / 2)),
                assumption=GAUSSIAN,
            ),
            Row(
                quantity="cosine_random_k",
                keep_share=ratio,
                keep=keep,
                predicted=float(given_masks.mean()),
                measured=float(random.mean()),
                standard_error=_standard_error(random - given_masks),
                assumption=EXACT,
            ),
            _average("cosine_random_k", ratio, keep, fitted_random, random, GAUSSIAN),
        ]
    return rows


def _draw(g: Array, settings: MeasureSettings, keeps: tuple[int, ...], rng: np.random.Generator) -> _Draws:
    """One order of the entries gives the mask of every K, its first K: by size for top-k, at random for random-k."""
    every = np.array([*keeps, g.size]) - 1
    by_size = g[np.argsort(-np.abs(g), kind="stable")]
    top, random, lost, squares = [], [], [], []
    for _ in range(settings.draws):
        noise = settings.sum_noise_std * rng.standard_normal(g.size)
        shuffled = rng.permutation(g)
        top.append(_cosines(by_size, noise)[every])
        random.append(_cosines(shuffled, noise)[every[:-1]])
        lost.append(np.concatenate([[0.0], np.cumsum(shuffled[::-1] ** 2)])[g.size - np.array(keeps)])
        squares.append(np.sum(noise**2))
    return _Draws(np.array(top), np.array(random), np.array(lost), np.array(squares))


def _cosines(g: Array, noise: Array) -> Array:
    """Cosine of g with the first K entries of g + noise, for every K; 0 where those entries are all zero."""
    noisy = g + noise
    lengths = np.sqrt(np.cumsum(noisy**2) * np.sum(g**2))
    return np.divide(np.cumsum(noisy * g), lengths, out=np.zeros_like(g), where=lengths > 0)


def _cosine(fit: Fit, energy: float, keep: int, settings: MeasureSettings) -> float:
    """Expected cosine for a mask of K ones that retains the squared norm `energy`.

    Rounding or a swing may have put it just outside 0..|g|^2.
    """
    retained = min(float(np.sqrt(max(energy, 0.0))), fit.grad_norm)
    return pruning.pruned_cosine(
        grad_norm=fit.grad_norm, retained_norm=retained, keep=keep, noise_std=settings.sum_noise_std
    )


def _average(quantity: str, ratio: float, keep: int, predicted: float, samples: Array, assumption: str = EXACT) -> Row:
    return Row(
        quantity=quantity,
        keep_share=ratio,
        keep=keep,
        predicted=predicted,
        measured=float(samples.mean()),
        standard_error=_standard_error(samples),
        assumption=assumption,
    )


def _standard_error(samples: Array) -> float:
    return float(samples.std(ddof=1) / np.sqrt(len(samples)))
