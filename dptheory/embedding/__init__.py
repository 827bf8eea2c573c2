"""Gradient embedding perturbation: noise, error, subspace, risk."""

from dptheory.embedding.anchor import anchor_subspace, project, random_basis_error, residual_bound
from dptheory.embedding.calibration import noise_ratio_excess, release_noise_ratio
from dptheory.embedding.mse import clipped_gep_mse, gep_mse, largest_residual_ratio, least_residual_energy
from dptheory.embedding.release import joint_clip, split_noise
from dptheory.embedding.risk import excess_risk, excess_risk_as_published

__all__ = [
    "anchor_subspace",
    "clipped_gep_mse",
    "excess_risk",
    "excess_risk_as_published",
    "gep_mse",
    "joint_clip",
    "largest_residual_ratio",
    "least_residual_energy",
    "noise_ratio_excess",
    "project",
    "random_basis_error",
    "release_noise_ratio",
    "residual_bound",
    "split_noise",
]
