"""Privacy: what a mechanism costs, and how much noise a budget asks for."""

from dptheory.privacy._accountant import CrossCheck, cross_check, delta_bounds, epsilon_bounds, rdp_epsilon
from dptheory.privacy._answers import (
    EpsilonReport,
    NoiseAnswer,
    StepsAnswer,
    epsilon_report,
    noise_for_budget,
    steps_for_budget,
)
from dptheory.privacy._attack import AttackRisk
from dptheory.privacy._auditing import AUDIT_METHODS, AuditResult, audit, bound_at_known_rate, largest_bound
from dptheory.privacy._brackets import DELTA, MAX_STEPS, NOISE, RATE, EpsilonBounds, ProbabilityBounds
from dptheory.privacy._budgets import least_noise_multiplier, max_steps
from dptheory.privacy._composition import Composition
from dptheory.privacy._composition_file import read_composition
from dptheory.privacy._gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_log_delta,
    gaussian_mu,
    gaussian_rdp_epsilon,
    gaussian_rdp_mu,
)
from dptheory.privacy._index import (
    epsilon_for_retained_gain,
    loss_law,
    retained_gain_for_delta_budget,
    theta_for_delta_budget,
)
from dptheory.privacy._index_comparison import IndexAccountings, IndexChoice, compare_index_accountings
from dptheory.privacy._index_prv import IndexPRV
from dptheory.privacy._joint import IndexSteps, joint_epsilon, run_epsilon, theta_for_joint_budget, values_epsilon
from dptheory.privacy._joint_curves import ORDERS, FreshMask, joint_rdp, subsampled_gaussian_rdp
from dptheory.privacy._lattice_loss import LatticeLoss, composed
from dptheory.privacy._loss_divisor import weighted_mean_sensitivity
from dptheory.privacy._masks import (
    average_sensitivity,
    combined_multiplier,
    divisor_delta,
    divisor_kl,
    divisor_renyi,
    masked_sensitivity,
    published_size_delta,
)
from dptheory.privacy._noise_beside import least_noise_beside
from dptheory.privacy._renyi import conversion, epsilon_from_rdp, zcdp_budget, zcdp_epsilon
from dptheory.privacy._samplers import truncated_epsilon_upper_bound, user_epsilon_upper_bound
from dptheory.privacy._selection import selection_epsilon_upper_bound
from dptheory.privacy._shuffled import shuffled_epsilon_lower_bound
from dptheory.privacy._statement import PrivacyStatement, privacy_statement
from dptheory.privacy._statement_file import read_statement
from dptheory.privacy._steps import JointStep, MaskedStep, Step

__all__ = [
    "AUDIT_METHODS",
    "DELTA",
    "MAX_STEPS",
    "NOISE",
    "ORDERS",
    "RATE",
    "AttackRisk",
    "AuditResult",
    "Composition",
    "CrossCheck",
    "EpsilonBounds",
    "EpsilonReport",
    "FreshMask",
    "IndexAccountings",
    "IndexChoice",
    "IndexPRV",
    "IndexSteps",
    "JointStep",
    "LatticeLoss",
    "MaskedStep",
    "NoiseAnswer",
    "PrivacyStatement",
    "ProbabilityBounds",
    "Step",
    "StepsAnswer",
    "audit",
    "average_sensitivity",
    "bound_at_known_rate",
    "combined_multiplier",
    "compare_index_accountings",
    "composed",
    "conversion",
    "cross_check",
    "delta_bounds",
    "divisor_delta",
    "divisor_kl",
    "divisor_renyi",
    "epsilon_bounds",
    "epsilon_for_retained_gain",
    "epsilon_from_rdp",
    "epsilon_report",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_log_delta",
    "gaussian_mu",
    "gaussian_rdp_epsilon",
    "gaussian_rdp_mu",
    "joint_epsilon",
    "joint_rdp",
    "largest_bound",
    "least_noise_beside",
    "least_noise_multiplier",
    "loss_law",
    "masked_sensitivity",
    "max_steps",
    "noise_for_budget",
    "privacy_statement",
    "published_size_delta",
    "rdp_epsilon",
    "read_composition",
    "read_statement",
    "retained_gain_for_delta_budget",
    "run_epsilon",
    "selection_epsilon_upper_bound",
    "shuffled_epsilon_lower_bound",
    "steps_for_budget",
    "subsampled_gaussian_rdp",
    "theta_for_delta_budget",
    "theta_for_joint_budget",
    "truncated_epsilon_upper_bound",
    "user_epsilon_upper_bound",
    "values_epsilon",
    "weighted_mean_sensitivity",
    "zcdp_budget",
    "zcdp_epsilon",
]
