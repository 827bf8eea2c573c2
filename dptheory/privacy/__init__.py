"""Privacy: what a mechanism costs, and how much noise a budget asks for.

Start reading at :mod:`dptheory.privacy.epsilon`, which says which method gives which number.
"""

from dptheory.privacy import auditing as auditing
from dptheory.privacy import clipping as clipping
from dptheory.privacy import index_sets as index_sets
from dptheory.privacy import methods as methods
from dptheory.privacy import referee as referee
from dptheory.privacy import report as report
from dptheory.privacy import samplers as samplers
from dptheory.privacy._bounds import DELTA, MAX_STEPS, NOISE, RATE, EpsilonBounds, ProbabilityBounds
from dptheory.privacy._budgets import least_noise_beside, least_noise_multiplier, max_steps
from dptheory.privacy._composition import Composition, delta_bounds, epsilon_bounds, rdp_epsilon
from dptheory.privacy._composition_file import read_composition
from dptheory.privacy._masks import combined_multiplier, masked_sensitivity
from dptheory.privacy._parts import (
    BlackBox,
    FixedSizeStep,
    IndexSteps,
    JointStep,
    LaplaceRelease,
    MaskedStep,
    RandomAllocation,
    Step,
)
from dptheory.privacy.methods._closed_forms import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_log_delta,
    gaussian_mu,
    gaussian_rdp_epsilon,
    gaussian_rdp_mu,
)
from dptheory.privacy.methods.renyi._conversion import conversion, epsilon_from_rdp, zcdp_budget, zcdp_epsilon
from dptheory.privacy.methods.renyi._curves import ORDERS, FreshMask, subsampled_gaussian_rdp
from dptheory.privacy.report._attack import AttackRisk
from dptheory.privacy.report._statement import PrivacyStatement, privacy_statement, read_statement
from dptheory.privacy.report._statement import in_words as in_words
from dptheory.privacy.report._statement import of_all as of_all

__all__ = [
    "DELTA",
    "MAX_STEPS",
    "NOISE",
    "ORDERS",
    "RATE",
    "AttackRisk",
    "BlackBox",
    "Composition",
    "EpsilonBounds",
    "FixedSizeStep",
    "FreshMask",
    "IndexSteps",
    "JointStep",
    "LaplaceRelease",
    "MaskedStep",
    "PrivacyStatement",
    "ProbabilityBounds",
    "RandomAllocation",
    "Step",
    "combined_multiplier",
    "conversion",
    "delta_bounds",
    "epsilon_bounds",
    "epsilon_from_rdp",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_log_delta",
    "gaussian_mu",
    "gaussian_rdp_epsilon",
    "gaussian_rdp_mu",
    "least_noise_beside",
    "least_noise_multiplier",
    "masked_sensitivity",
    "max_steps",
    "privacy_statement",
    "rdp_epsilon",
    "read_composition",
    "read_statement",
    "subsampled_gaussian_rdp",
    "zcdp_budget",
    "zcdp_epsilon",
]
