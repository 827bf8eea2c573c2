"""What the theory says of one clipped batch gradient: errors and cosines of pruning, and the law of its entries."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dptheory import _validate, pruning
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError
from dptheory.training.measure._rows import GAUSSIAN, Labels, MeasureSettings, Row

GROUP = 256  # the group size of the paper's experiments

_RANDOM_K = Labels(group="pruning", claims="gip.mse_r")
_TOP_K = Labels(group="pruning", claims="gip.mse_t0, gip.assumption1")
_NOISE = Labels(group="pruning", claims="gip.noise_ratio")
_COSINES = Labels(group="cosines", claims="gip.criterion")
_ENTRIES = Labels(group="entries", claims="gip.assumption1")


@dataclass(frozen=True)
class _Fit:
    """Assumption 1 fitted to a gradient: the deviation of an entry; the squared norms are the errors of no update and of DP-SGD."""

    dim: int
    grad_norm: float
    sigma_g: float
    zero_update_mse: float
    dp_sgd_mse: float


def measure_gradient(gradient: ArrayLike, settings: MeasureSettings, rng: np.random.Generator) -> tuple[Row, ...]:
    r"""Compare what the theory predicts for a gradient with what is measured on it.

    Quantities, with K = round(k d) entries kept and Z ~ N(0, (sigma C)^2 I):

    - ``top_k_mse``, ``grouped_top_k_mse`` (top-k within groups of 256 in order, as the paper prunes; a rest of fewer than
      256 entries is left out, and so are ratios that keep none of 256), ``random_k_mse``: :math:`|g - g \odot I|^2`;
    - ``cosine_dp_sgd``, ``cosine_top_k``, ``cosine_random_k``: cosine of :math:`(g + Z) \odot I` with g, a zero update
      counting as 0; each predicted from the norm that the mask retains (exact), and from the norm that it retains
      under Assumption 1;
    - ``noise_mse``: :math:`|Z|^2`, the error of DP-SGD;
    - ``ks_distance`` (Kolmogorov-Smirnov, of g / sigma_g from N(0, 1)) and ``excess_kurtosis``.

    Args:
        gradient: shape (d,), d >= 1, entries at most 1e70 in size, their root mean square at least 1e-70; a clipped batch sum.
        settings: see :class:`MeasureSettings`.
        rng: source of masks, noise and reference vectors.

    Returns:
        A row per quantity, share and assumption.

    Raises:
        ValueError: a gradient that is not such a vector, or a keep ratio that keeps none of the d entries.

    Source: GIP, Proposition 2 and section 5 (gip.mse_r, gip.mse_t0, gip.criterion, gip.assumption1).

    Example: by hand: (3, 0, 0, 4) has squared norm 25, and its two largest entries are all of it.
        >>> import numpy as np
        >>> from dptheory.training.measure import MeasureSettings, measure_gradient
        >>> settings = MeasureSettings((0.5,), draws=10, noise_multiplier=1.0, max_grad_norm=1.0)
        >>> rows = measure_gradient([3.0, 0.0, 0.0, 4.0], settings, np.random.default_rng(0))
        >>> [row.predicted for row in rows if row.quantity in ("random_k_mse", "noise_mse")]  # half of 25; 4 entries of noise 1
        [4.0, 12.5]
        >>> [row.measured for row in rows if row.quantity == "top_k_mse"]  # the two largest entries are kept
        [0.0]
    """
    g = _validate.bounded("gradient", gradient)
    if g.ndim != 1 or not g.size or np.sqrt(np.mean(g**2)) < _validate.SMALLEST:
        raise ArgumentError("gradient", f"be a vector with a root mean square >= {_validate.SMALLEST:g}", gradient)
    _validate.instance("settings", settings, MeasureSettings)
    _validate.instance("rng", rng, np.random.Generator)
    keeps = tuple(_keep(ratio, g.size) for ratio in settings.keep_shares)
    fit = _fit(g, settings)
    shape = _shape_rows(g, fit, settings, keeps, rng)
    top_k_spread = [row.standard_error for row in shape if row.quantity == "top_k_mse"]
    return (*shape, *_drawn_rows(g, fit, settings, keeps, top_k_spread, rng))


def _keep(ratio: float, dim: int) -> int:
    keep = round(ratio * dim)
    if keep < 1:
        raise ArgumentError("keep_shares", f"keep at least one of {dim} entries (>= {1 / dim:.3g})", ratio)
    return keep


def _fit(g: Array, settings: MeasureSettings) -> _Fit:
    sigma_g = float(np.sqrt(np.mean(g**2)))
    dp_sgd_mse = float(
        pruning.noise_mse(keep=g.size, clip_norm=settings.max_grad_norm, noise_multiplier=settings.noise_multiplier)
    )
    zero_update_mse = float(pruning.zero_update_mse(g.size, sigma_g=sigma_g))
    return _Fit(
        dim=g.size,
        grad_norm=float(np.linalg.norm(g)),
        sigma_g=sigma_g,
        zero_update_mse=zero_update_mse,
        dp_sgd_mse=dp_sgd_mse,
    )


# --- statistics of the gradient itself ------------------------------------------------------------------------------------


def _shape_rows(
    g: Array, fit: _Fit, settings: MeasureSettings, keeps: tuple[int, ...], rng: np.random.Generator
) -> list[Row]:
    """Statistics of g itself, against their law for a Gaussian vector of the same norm (a uniform direction).

    Direction and norm of a Gaussian vector are independent, so its mean top-k MSE given |g| = sigma_g sqrt(d) is
    exactly top_k_mse(d, K, sigma_g=sigma_g).
    """
    reference = [_on_sphere(fit, rng) for _ in range(settings.draws)]
    top_k, spread = _pruned_away(g, keeps), _spread([_pruned_away(v, keeps) for v in reference])
    rows = []
    for i, (share, keep) in enumerate(zip(settings.keep_shares, keeps, strict=True)):
        predicted = float(pruning.top_k_mse(g.size, keep, sigma_g=fit.sigma_g))
        found = _TOP_K.fixed("top_k_mse", f"keep {share:g}", predicted, top_k[i], GAUSSIAN, keep=keep)
        rows.append(replace(found, standard_error=float(spread[i])))
    groups = g.size // GROUP
    for share in (share for share in settings.keep_shares if groups and round(share * GROUP) > 0):
        keep = round(share * GROUP)
        predicted = groups * float(pruning.top_k_mse(GROUP, keep, sigma_g=fit.sigma_g))
        deviation = float(_spread([_pruned_away_in_groups(v, keep) for v in reference]))
        measured, setting = _pruned_away_in_groups(g, keep), f"keep {share:g}"
        found = _TOP_K.fixed("grouped_top_k_mse", setting, predicted, measured, GAUSSIAN, keep=groups * keep)
        rows.append(replace(found, standard_error=deviation))
    for name, statistic in (("ks_distance", ks_distance), ("excess_kurtosis", excess_kurtosis)):
        under = [statistic(v, fit.sigma_g) for v in reference]
        found = _ENTRIES.fixed(name, "", float(np.mean(under)), statistic(g, fit.sigma_g), GAUSSIAN, keep=g.size)
        rows.append(replace(found, standard_error=float(_spread(under))))
    return rows


def _spread(values: ArrayLike) -> Array:
    """Standard deviation over the reference vectors."""
    return np.asarray(np.asarray(values, np.float64).std(axis=0, ddof=1))


def _on_sphere(fit: _Fit, rng: np.random.Generator) -> Array:
    v = rng.standard_normal(fit.dim)
    return v * (fit.grad_norm / np.linalg.norm(v))


def _pruned_away(v: Array, keeps: tuple[int, ...]) -> Array:
    """Sum of the d - K smallest squares, for each K."""
    return _first(np.sort(v**2), v.size - np.array(keeps))


def _first(values: Array, counts: NDArray[np.int64]) -> Array:
    """Sums of the first few values, for several counts."""
    return np.asarray(np.concatenate([[0.0], np.cumsum(values)])[counts])


def _pruned_away_in_groups(v: Array, keep: int) -> float:
    groups = v[: v.size // GROUP * GROUP].reshape(-1, GROUP) ** 2
    return float(np.partition(groups, GROUP - keep, axis=1)[:, : GROUP - keep].sum())  # keep is 1 at least


def ks_distance(v: Array, sigma_g: float) -> float:
    """Kolmogorov-Smirnov distance of the entries over sigma_g from N(0, 1)."""
    cdf = ndtr(np.sort(v) / sigma_g)
    steps = np.arange(v.size + 1) / v.size
    return float(max((steps[1:] - cdf).max(), (cdf - steps[:-1]).max()))


def excess_kurtosis(v: Array, sigma_g: float) -> float:
    """Fourth moment of the entries over sigma_g, less 3."""
    return float(np.mean((v / sigma_g) ** 4)) - 3.0


# --- averages over random masks and noise vectors -------------------------------------------------------------------------


def _drawn_rows(
    g: Array,
    fit: _Fit,
    settings: MeasureSettings,
    keeps: tuple[int, ...],
    top_k_spread: list[float],
    rng: np.random.Generator,
) -> list[Row]:
    """``top_k_spread`` holds, for each K, the standard deviation of the top-k MSE under Assumption 1."""
    every, random_cosines, random_lost, squares = _draw(g, settings, keeps, rng)

    def cosine(energy: float, keep: int) -> float:
        """Expected, of K entries that retain this squared norm, which rounding or a swing may have put outside 0..|g|^2."""
        retained = min(float(np.sqrt(max(energy, 0.0))), fit.grad_norm)
        return pruning.pruned_cosine(
            grad_norm=fit.grad_norm, retained_norm=retained, keep=keep, noise_std=settings.sum_noise_std
        )

    whole = cosine(fit.zero_update_mse, g.size)
    rows = [
        _NOISE.mean("noise_mse", "", fit.dp_sgd_mse, squares, keep=g.size),
        _COSINES.mean("cosine_dp_sgd", "", whole, every[:, -1], keep=g.size),
    ]
    by_size = np.cumsum(np.sort(g**2)[::-1])
    for i, (share, keep) in enumerate(zip(settings.keep_shares, keeps, strict=True)):
        top, random, lost = every[:, i], random_cosines[:, i], random_lost[:, i]
        random_mse = float(pruning.random_k_mse(g.size, keep, sigma_g=fit.sigma_g))
        top_energy = float(pruning.top_k_energy(g.size, keep, sigma_g=fit.sigma_g))
        # what one mask lets us expect, averaged over the masks drawn: the difference is then the noise's alone
        given_masks = [cosine(fit.zero_update_mse - part, keep) for part in lost]
        swing = cosine(top_energy + top_k_spread[i], keep) - cosine(top_energy - top_k_spread[i], keep)
        fitted = cosine(fit.zero_update_mse - random_mse, keep)
        setting = f"keep {share:g}"
        about = _COSINES.mean("cosine_top_k", setting, cosine(top_energy, keep), top, GAUSSIAN, keep=keep)
        both = float(np.hypot(about.standard_error, swing / 2))
        rows += [
            _RANDOM_K.mean("random_k_mse", setting, random_mse, lost, keep=keep),
            _COSINES.mean("cosine_top_k", setting, cosine(by_size[keep - 1], keep), top, keep=keep),
            replace(about, standard_error=both),
            _COSINES.mean("cosine_random_k", setting, given_masks, random, keep=keep),
            _COSINES.mean("cosine_random_k", setting, fitted, random, GAUSSIAN, keep=keep),
        ]
    return rows


def _draw(
    g: Array, settings: MeasureSettings, keeps: tuple[int, ...], rng: np.random.Generator
) -> tuple[Array, Array, Array, Array]:
    """Cosines of top-k (its last column keeps every entry: DP-SGD) and of random-k, what random-k loses, and |Z|^2.

    A row per draw, a column per K. One order of the entries gives the mask of every K, its first K: by size for top-k, at random
    for random-k.
    """
    every = np.array([*keeps, g.size]) - 1
    by_size = g[np.argsort(-np.abs(g), kind="stable")]
    top, random, lost, squares = [], [], [], []
    for _ in range(settings.draws):
        noise = settings.sum_noise_std * rng.standard_normal(g.size)
        shuffled = rng.permutation(g)
        top.append(_cosines(by_size, noise)[every])
        random.append(_cosines(shuffled, noise)[every[:-1]])
        lost.append(_first(shuffled[::-1] ** 2, g.size - np.array(keeps)))
        squares.append(np.sum(noise**2))
    return np.array(top), np.array(random), np.array(lost), np.array(squares)


def _cosines(g: Array, noise: Array) -> Array:
    """Cosine of g with the first K entries of g + noise, for every K; 0 where those entries are all zero."""
    noisy = g + noise
    lengths = np.sqrt(np.cumsum(noisy**2) * np.sum(g**2))
    return np.divide(np.cumsum(noisy * g), lengths, out=np.zeros_like(g), where=lengths > 0)
