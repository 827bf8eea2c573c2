"""Predicted against measured, on one gradient vector: pruning errors, cosines, and how Gaussian its entries are."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dptheory import _validate, pruning
from dptheory.errors import ArgumentError
from dptheory.training.probe._drawn_errors import drawn_rows
from dptheory.training.probe._gradient_shape import shape_rows
from dptheory.training.probe._measurement import Fit, Measurement, MeasureSettings


def measure(
    gradient: ArrayLike, layers: Mapping[str, slice], settings: MeasureSettings, rng: np.random.Generator
) -> Measurement:
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
        layers: where each parameter tensor lies in it.
        settings: see :class:`MeasureSettings`.
        rng: source of masks, noise and reference vectors.

    Returns:
        The fit of Assumption 1, and a row per quantity, share and assumption.

    Raises:
        ValueError: a gradient that is not such a vector, no layers, or a keep ratio that keeps none of the d entries.

    Source: GIP, Proposition 2 and section 5 (gip.mse_r, gip.mse_t0, gip.criterion, gip.assumption1).

    Example: by hand: (3, 0, 0, 4) has squared norm 25, and its two largest entries are all of it.
        >>> import numpy as np
        >>> from dptheory.training.probe import MeasureSettings, measure
        >>> settings = MeasureSettings((0.5,), draws=10, noise_multiplier=1.0, max_grad_norm=1.0)
        >>> found = measure([3.0, 0.0, 0.0, 4.0], {"weight": slice(0, 4)}, settings, np.random.default_rng(0))
        >>> found.fit.sigma_g, found.fit.zero_update_mse, found.fit.dp_sgd_mse
        (2.5, 25.0, 4.0)
        >>> [row.measured for row in found.rows if row.quantity == "top_k_mse"]  # the two largest entries are kept
        [0.0]
    """
    g = _validate.bounded("gradient", gradient)
    if g.ndim != 1 or not g.size or np.sqrt(np.mean(g**2)) < _validate.SMALLEST:
        raise ArgumentError("gradient", f"be a vector with a root mean square >= {_validate.SMALLEST:g}", gradient)
    if not isinstance(layers, Mapping) or not layers or not all(isinstance(part, slice) for part in layers.values()):
        raise ArgumentError("layers", "name at least one slice of the gradient", layers)
    _validate.instance("settings", settings, MeasureSettings)
    _validate.instance("rng", rng, np.random.Generator)
    keeps = tuple(_keep(ratio, g.size) for ratio in settings.keep_shares)
    fit = _fit(g, layers, settings)
    shape = shape_rows(g, fit, settings, keeps, rng)
    top_k_spread = tuple(row.standard_error for row in shape if row.quantity == "top_k_mse")
    return Measurement(fit, (*shape, *drawn_rows(g, fit, settings, keeps, top_k_spread, rng)))


def _keep(ratio: float, dim: int) -> int:
    keep = round(ratio * dim)
    if keep < 1:
        raise ArgumentError("keep_shares", f"keep at least one of {dim} entries (>= {1 / dim:.3g})", ratio)
    return keep


def _fit(g: NDArray[np.float64], layers: Mapping[str, slice], settings: MeasureSettings) -> Fit:
    sigma_g = float(np.sqrt(np.mean(g**2)))
    dp_sgd_mse = float(
        pruning.noise_mse(keep=g.size, clip_norm=settings.max_grad_norm, noise_multiplier=settings.noise_multiplier)
    )
    zero_update_mse = float(pruning.zero_update_mse(g.size, sigma_g=sigma_g))
    return Fit(
        dim=g.size,
        grad_norm=float(np.linalg.norm(g)),
        sigma_g=sigma_g,
        layer_sigmas={name: float(np.sqrt(np.mean(g[part] ** 2))) for name, part in layers.items()},
        zero_share=float(np.mean(g == 0)),
        zero_update_mse=zero_update_mse,
        dp_sgd_mse=dp_sgd_mse,
        snr=zero_update_mse / dp_sgd_mse if dp_sgd_mse else None,
    )
