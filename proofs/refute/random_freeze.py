"""RF, section 3.4 (rf.momentum): the variance of the noise in the velocity. Held against the recursion itself, by search."""

from dptheory import claims, convergence
from dptheory.checks import Conjecture, Range

RANGES = {"noise_std": Range(0.01, 10.0, log=True), "mu": Range(0.0, 0.99), "steps": Range(1, 100, integer=True)}


def truth(noise_std: float, mu: float, steps: int) -> float:
    """Var(v) after v <- mu v + fresh noise, from v = 0: the variances of independent noises add up."""
    variance = 0.0
    for _ in range(steps):
        variance = mu**2 * variance + noise_std**2
    return variance


def corrected_variance(noise_std: float, mu: float, steps: int) -> float:
    return convergence.velocity_variance(noise_std=noise_std, momentum=mu, steps=steps)


printed = Conjecture(claimed=claims.get("rf.momentum").printed, truth=truth, ranges=RANGES)
corrected = Conjecture(claimed=corrected_variance, truth=truth, ranges=RANGES)
