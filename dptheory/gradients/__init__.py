"""What happens to one gradient: angles under noise, clipping, random masks, projections, the error of a noisy gradient."""

from dptheory.gradients._angles import (
    AngleSummary,
    DistortionAngle,
    angle_range,
    angle_summary,
    angle_variance,
    batch_expected_cos,
    small_snr_slope,
)
from dptheory.gradients._clipping import (
    ClipMoments,
    SymmetricClipBound,
    clip,
    clip_probability,
    gaussian_clip_moments,
    symmetric_clip_lower_bound,
)
from dptheory.gradients._gradient_mse import (
    GradientError,
    MseBreakdown,
    clipped_gradient_mse,
    expected_max_quadratic_form,
    mse_lower_bound,
    stationary_mse,
)
from dptheory.gradients._mask_effects import PosteriorFreeze, noise_norm_ratio, posterior_freeze, relaxed_gradient_ratio
from dptheory.gradients._masks import (
    NormBounds,
    all_masks,
    expected_masked_inner,
    kept_entries,
    mask_norm_bounds,
    projected_skewness,
    random_masks,
)
from dptheory.gradients._quadratic_form import QuadraticForm
from dptheory.gradients._subset_sums import mean_reciprocal

__all__ = [
    "AngleSummary",
    "ClipMoments",
    "DistortionAngle",
    "GradientError",
    "MseBreakdown",
    "NormBounds",
    "PosteriorFreeze",
    "QuadraticForm",
    "SymmetricClipBound",
    "all_masks",
    "angle_range",
    "angle_summary",
    "angle_variance",
    "batch_expected_cos",
    "clip",
    "clip_probability",
    "clipped_gradient_mse",
    "expected_masked_inner",
    "expected_max_quadratic_form",
    "gaussian_clip_moments",
    "kept_entries",
    "mask_norm_bounds",
    "mean_reciprocal",
    "mse_lower_bound",
    "noise_norm_ratio",
    "posterior_freeze",
    "projected_skewness",
    "random_masks",
    "relaxed_gradient_ratio",
    "small_snr_slope",
    "stationary_mse",
    "symmetric_clip_lower_bound",
]
