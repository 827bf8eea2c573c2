"""Random sparsification: kappa, the trade-off of masking, ranked masks, schedules, reconstruction, costs."""

from dptheory.sparsification._costs import Communication, Operations, communication, projection_operations
from dptheory.sparsification._isotropic import isotropic_kappa, largest_isotropic_kappa
from dptheory.sparsification._kappa import BestRate, Kappa, best_rate, flat_kappa, kappa, largest_split_free_kappa
from dptheory.sparsification._larger_clip import MaskedDescent, masked_descent
from dptheory.sparsification._ranking import captured_energy, signed_captured_energy, sparse_captured_energy
from dptheory.sparsification._reconstruction import (
    AttackError,
    ReconstructionErrors,
    bayes_error,
    error_lower_bound,
    expected_error,
    gaussian_matrix_error,
    matrix_error_lower_bound,
    matrix_expected_error,
    reconstruction_errors,
)
from dptheory.sparsification._schedules import freeze_rate, total_density
from dptheory.sparsification._tradeoff import (
    EXPONENTS,
    OptimalRate,
    TunedBound,
    least_kappa,
    least_kappa_tuned,
    optimal_rate,
    optimal_rate_flat,
    optimal_rates,
    relative_bound,
    tuned_bound,
)

__all__ = [
    "EXPONENTS",
    "AttackError",
    "BestRate",
    "Communication",
    "Kappa",
    "MaskedDescent",
    "Operations",
    "OptimalRate",
    "ReconstructionErrors",
    "TunedBound",
    "bayes_error",
    "best_rate",
    "captured_energy",
    "communication",
    "error_lower_bound",
    "expected_error",
    "flat_kappa",
    "freeze_rate",
    "gaussian_matrix_error",
    "isotropic_kappa",
    "kappa",
    "largest_isotropic_kappa",
    "largest_split_free_kappa",
    "least_kappa",
    "least_kappa_tuned",
    "masked_descent",
    "matrix_error_lower_bound",
    "matrix_expected_error",
    "optimal_rate",
    "optimal_rate_flat",
    "optimal_rates",
    "projection_operations",
    "reconstruction_errors",
    "relative_bound",
    "signed_captured_energy",
    "sparse_captured_energy",
    "total_density",
    "tuned_bound",
]
