"""What the probe measures on a gradient, as records."""

from dataclasses import KW_ONLY, dataclass

from dptheory import _validate
from dptheory.training import _argument_ranges

GAUSSIAN = "iid Gaussian entries"
EXACT = "none (exact for any g)"


@dataclass(frozen=True)
class MeasureSettings:
    """What to measure on each gradient.

    Args:
        keep_shares: the shares k in (0, 1] of entries to keep; K = round(k d).
        draws: number of noise vectors, random masks and Gaussian reference vectors, 2 to 1e9.
        noise_multiplier: sigma, 0 or in [1e-6, 1e6].
        max_grad_norm: the clip C, in [1e-12, 1e12]; the noise has standard deviation sigma C.

    Raises:
        ValueError: a value outside its range, or no keep ratio.

    Example: noise multiplier 2 on gradients clipped to 1.5.
        >>> from dptheory.training.probe import MeasureSettings
        >>> MeasureSettings((0.1, 0.5), draws=100, noise_multiplier=2.0, max_grad_norm=1.5).sum_noise_std
        3.0
    """

    keep_shares: tuple[float, ...]
    _: KW_ONLY
    draws: int
    noise_multiplier: float
    max_grad_norm: float

    @property
    def sum_noise_std(self) -> float:
        """Standard deviation of one entry of Z, the noise on the clipped sum: sigma C."""
        return self.noise_multiplier * self.max_grad_norm

    def __post_init__(self) -> None:
        _validate.store(
            self,
            keep_shares=_argument_ranges.shares("keep_shares", self.keep_shares, ends="(]"),
            draws=_validate.integer("draws", self.draws, 2, 10**9),
            noise_multiplier=_argument_ranges.noise_multiplier("noise_multiplier", self.noise_multiplier),
            max_grad_norm=_argument_ranges.clip("max_grad_norm", self.max_grad_norm),
        )


@dataclass(frozen=True, kw_only=True)
class Fit:
    r"""Assumption 1 fitted to a gradient: :math:`\sigma_g = |g| / \sqrt d`, and the errors it makes plain.

    Attributes:
        dim: d.
        grad_norm: \|g|.
        sigma_g: of one entry.
        layer_sigmas: the same of each parameter tensor.
        zero_share: share of entries that are exactly 0.
        zero_update_mse: \|g|^2, the error of not updating at all.
        dp_sgd_mse: d (sigma C)^2, the error of DP-SGD.
        snr: sigma_g^2 / (sigma C)^2; None without noise.

    Source: GIP, Assumption 1 (gip.assumption1); appendix B.1 for sigma_g^2 / (sigma C)^2 (gip.noise_ratio).
    """

    dim: int
    grad_norm: float
    sigma_g: float
    layer_sigmas: dict[str, float]
    zero_share: float  # entries that are exactly 0
    zero_update_mse: float  # |g|^2: the error of not updating at all
    dp_sgd_mse: float  # d (sigma C)^2: the error of DP-SGD
    snr: float | None  # sigma_g^2 / (sigma C)^2; None without noise

    @property
    def layer_sigma_spread(self) -> float | None:
        """Largest over smallest sigma of a layer; None where a layer's gradient is all zero."""
        low, high = min(self.layer_sigmas.values()), max(self.layer_sigmas.values())
        return high / low if low > 0 else None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One prediction beside its measurement.

    Attributes:
        quantity: see :func:`measure`.
        keep_share: share k of entries kept.
        keep: entries kept, K.
        predicted, measured: in the same unit.
        standard_error: how far the two may lie apart by chance when ``assumption`` is true: for a quantity averaged over
            draws, the standard error of that average; for a statistic of the one gradient, its standard deviation over
            Gaussian vectors of the same norm; for a cosine under Assumption 1, both together.
        assumption: ``EXACT`` or ``GAUSSIAN``.
    """

    quantity: str
    keep_share: float
    keep: int
    predicted: float
    measured: float
    standard_error: float
    assumption: str

    @property
    def ratio(self) -> float | None:
        """Measured over predicted; None where the prediction is within a standard error of 0."""
        return self.measured / self.predicted if abs(self.predicted) > self.standard_error else None

    @property
    def standard_errors_off(self) -> float | None:
        """(measured - predicted) / standard_error; None where nothing is left to chance but rounding."""
        if self.standard_error <= 1e-12 * abs(self.measured):
            return None
        return (self.measured - self.predicted) / self.standard_error


@dataclass(frozen=True)
class Measurement:
    """All that was measured on one gradient.

    Attributes:
        fit: Assumption 1 fitted to it.
        rows: predictions beside measurements.
    """

    fit: Fit
    rows: tuple[Row, ...]
