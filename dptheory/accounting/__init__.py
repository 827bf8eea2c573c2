"""Privacy: what a mechanism costs, and how much noise a budget asks for."""

from dptheory.accounting._accountant import (
    DELTA,
    MAX_STEPS,
    NOISE,
    RATE,
    CrossCheck,
    EpsilonBounds,
    cross_check,
    epsilon,
    noise_multiplier,
    rdp_epsilon,
    steps,
)
from dptheory.accounting._gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_log_delta,
    gaussian_mu,
    gaussian_rdp_epsilon,
    gaussian_rdp_mu,
)

__all__ = [
    "DELTA",
    "MAX_STEPS",
    "NOISE",
    "RATE",
    "CrossCheck",
    "EpsilonBounds",
    "cross_check",
    "epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_log_delta",
    "gaussian_mu",
    "gaussian_rdp_epsilon",
    "gaussian_rdp_mu",
    "noise_multiplier",
    "rdp_epsilon",
    "steps",
]
