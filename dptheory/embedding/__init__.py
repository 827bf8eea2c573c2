"""Gradient embedding perturbation: noise, error, subspace, risk."""

from dptheory._adjacency import Adjacency
from dptheory.embedding._anchor import (
    Projection,
    ResidualBound,
    anchor_subspace,
    mean_random_basis_error,
    project,
    random_basis_error,
    random_embedding_distortion,
    recovery_probability,
    residual_bound,
    residual_energy,
)
from dptheory.embedding._calibration import (
    joint_mu,
    noise_ratio_excess,
    output_mu,
    output_noise_ratio,
    release_noise_ratio,
    sampled_epsilon,
)
from dptheory.embedding._clipped_risk import (
    BestResidualClip,
    BiasedDescentRisk,
    best_residual_clip,
    biased_descent_risk,
)
from dptheory.embedding._clipping_bias import ClippingBias, clipping_bias, joint_clipping_bias
from dptheory.embedding._comparison import ReleaseComparison, compare_releases
from dptheory.embedding._costs import PowerIteration, extra_floats, power_iteration
from dptheory.embedding._groups import grouping_cost_ratio, square_root_allocation
from dptheory.embedding._held_out import HeldOutResidual, held_out_residual
from dptheory.embedding._mse import (
    GepMse,
    LargestRatios,
    SmallResidual,
    clipped_gep_mse,
    gep_mse,
    largest_residual_ratio,
    least_residual_energy,
)
from dptheory.embedding._release import SplitNoise, joint_clip, split_noise
from dptheory.embedding._risk import (
    ExcessRisk,
    WorstDescentRisk,
    excess_risk,
    excess_risk_as_published,
    least_risk,
    noisy_descent_risk,
    worst_descent_risk,
)

__all__ = [
    "Adjacency",
    "BestResidualClip",
    "BiasedDescentRisk",
    "ClippingBias",
    "ExcessRisk",
    "GepMse",
    "HeldOutResidual",
    "LargestRatios",
    "PowerIteration",
    "Projection",
    "ReleaseComparison",
    "ResidualBound",
    "SmallResidual",
    "SplitNoise",
    "WorstDescentRisk",
    "anchor_subspace",
    "best_residual_clip",
    "biased_descent_risk",
    "clipped_gep_mse",
    "clipping_bias",
    "compare_releases",
    "excess_risk",
    "excess_risk_as_published",
    "extra_floats",
    "gep_mse",
    "grouping_cost_ratio",
    "held_out_residual",
    "joint_clip",
    "joint_clipping_bias",
    "joint_mu",
    "largest_residual_ratio",
    "least_residual_energy",
    "least_risk",
    "mean_random_basis_error",
    "noise_ratio_excess",
    "noisy_descent_risk",
    "output_mu",
    "output_noise_ratio",
    "power_iteration",
    "project",
    "random_basis_error",
    "random_embedding_distortion",
    "recovery_probability",
    "release_noise_ratio",
    "residual_bound",
    "residual_energy",
    "sampled_epsilon",
    "split_noise",
    "square_root_allocation",
    "worst_descent_risk",
]
