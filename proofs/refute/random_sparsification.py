"""RS, Appendix G (rs.appG): the sparsification rate with the least bound. Held against a numerical minimiser, by search."""

from scipy.optimize import minimize_scalar

from dptheory import claims, sparsification
from dptheory.checks import Conjecture, Range

RANGES = {
    "delta_c": Range(0.1, 10.0, log=True),
    "learning_rate": Range(0.1, 2.0),
    "delta_sigma": Range(0.1, 10.0, log=True),
}


def truth(delta_c: float, learning_rate: float, delta_sigma: float) -> float:
    """The r at which (Delta_C + (1 - r) gamma Delta_sigma) / kappa is least, for the paper's own kappa = sqrt(1 - r)."""

    def bound(kept: float) -> float:
        return (delta_c + kept * learning_rate * delta_sigma) / kept**0.5

    found = minimize_scalar(bound, bounds=(1e-6, 1.0), method="bounded", options={"xatol": 1e-12})
    return 0.0 if bound(1.0) <= found.fun else 1.0 - found.x


def printed_rate(delta_c: float, learning_rate: float, delta_sigma: float) -> float:
    """The printed rate knows no learning rate."""
    return claims.get("rs.appG").printed(delta_c, delta_sigma)


def corrected_rate(delta_c: float, learning_rate: float, delta_sigma: float) -> float:
    return sparsification.optimal_rate(delta_c=delta_c, step_noise=learning_rate * delta_sigma, exponent=0.5)


# A minimiser finds the place of a flat minimum to about the root of the rounding error.
printed = Conjecture(claimed=printed_rate, truth=truth, ranges=RANGES, tolerance=1e-4, absolute_tolerance=1e-6)
corrected = Conjecture(claimed=corrected_rate, truth=truth, ranges=RANGES, tolerance=1e-4, absolute_tolerance=1e-6)
