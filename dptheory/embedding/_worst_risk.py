"""Exact worst case of T noisy steps of gradient descent on convex smooth losses; steps and symbols as in ``_risk``."""

import math
from dataclasses import dataclass

import scipy

from dptheory import _validate
from dptheory.embedding import _risk

_MOST_STEPS = 10**15


@dataclass(frozen=True, kw_only=True)
class WorstDescentRisk:
    """Worst excess risk over convex beta-smooth losses and noises of mean 0.

    Attributes:
        mean_value: of the mean of L(theta_1), ..., L(theta_T), and of L(mean iterate) where only the mean energy of the noise is
            known: exact. inf where it is too large for a float.
        mean_iterate_least: for noise of the same energy in all steps, what L(mean iterate) costs on some loss; its worst case
            lies between this and ``mean_value``.
    """

    mean_value: float
    mean_iterate_least: float


def worst_descent_risk(
    *, smoothness: float, initial_distance: float, steps: int, noise_energy: float
) -> WorstDescentRisk:
    r"""Largest mean excess risk that T steps of size 1/beta with unbiased noise can leave.

    .. math:: \frac1T\sum_{t=1}^TE L(\theta_t)-L_\ast\le\frac{\beta D^2}{2(T+2)}+\frac N{2\beta},\qquad
              c_T\ge\frac1{2T}\sum_{k=1}^T\frac{k^2}{k(k-1)+T},

    the first with equality for some loss, whatever D, N and T; c_T is the factor of N / beta for L at the mean iterate, in place
    of 1/2, if the noise has the same energy in all steps. The lower bound is 1/2, 3/8 and .3556 for T = 1, 2, 3, and back to 1/2
    as T grows.

    Args:
        smoothness: beta > 0, in [1e-60, 1e60] like all sizes here.
        initial_distance: D, 0 or a size; not squared.
        steps: T in 1..1e15.
        noise_energy: N >= 0, mean over the steps of E|noise|^2, noise of the averaged gradient. For ``mean_iterate_least`` it
            is the same in all steps.

    Returns:
        The worst case of the mean of the values, and a lower bound of that at the mean iterate for noise of one energy.

    Raises:
        ValueError: an argument outside its range.

    Source: GEP, new, on equation 12 (gep.noisy_steps).

    Example: two steps: 2^2 / (2 * 4) + 0.8 / 2, and 2^2 / (2 * 4) + 0.8 * 3/8.
        >>> from dptheory.embedding import worst_descent_risk
        >>> worst = worst_descent_risk(smoothness=1.0, initial_distance=2.0, steps=2, noise_energy=0.8)
        >>> round(worst.mean_value, 12), round(worst.mean_iterate_least, 12)
        (0.9, 0.8)
    """
    smoothness = _validate.size("smoothness", smoothness, *_risk.RANGE)
    steps = _validate.integer("steps", steps, 1, _MOST_STEPS)
    noise_energy = _validate.real("noise_energy", noise_energy, 0.0, ends="[)")
    start = _risk.least_risk(smoothness=smoothness, initial_distance=initial_distance, steps=steps)
    return WorstDescentRisk(
        mean_value=start + noise_energy / (2 * smoothness),
        mean_iterate_least=start + _mean_iterate_factor(steps) * noise_energy / smoothness,
    )


def _mean_iterate_factor(steps: int) -> float:
    """sum of k^2 / (k (k - 1) + T) over k = 1..T, over 2 T, by partial fractions: the roots of k (k - 1) + T are 1/2 +- i w."""
    root = complex(0.5, math.sqrt(steps - 0.25))
    residue = (root - steps) / (2j * root.imag)
    rest = 2 * (residue * (scipy.special.digamma(steps + 1 - root) - scipy.special.digamma(1 - root))).real
    return 0.5 + float(rest) / (2 * steps)
