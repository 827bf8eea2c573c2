"""The trade-off that masking makes in the convergence bound of DP-SGD, at a fixed and at the tuned learning rate.

With x = 1 - r, learning rate g and no bias term, the bound on the mean of P h(w_t) |w_t| is

    (delta_c + x noise_term) / kappa,    delta_c = Delta_L / (g T) + g A,    noise_term = g D,

A = G C^2 / 2 and D = Delta_sigma = G C^2 sigma^2 d / (2 B^2). Rates are taken as continuous: of the rates that a dimension
allows, one next to the optimum is best where the bound has a single minimum. Terms, norms and
kappa are at most 1e70, and at least 1e-70 where 0 is not allowed.
"""

import math
from dataclasses import dataclass

from dptheory import _validate
from dptheory.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class TunedBound:
    """The least value of the bound over the learning rate.

    Attributes:
        bound: the least value.
        learning_rate: the one that attains it.
    """

    bound: float
    learning_rate: float


def relative_bound(*, drop_rate: float, delta_c: float, step_noise: float, kappa: float) -> float:
    r"""U(r) = (delta_c + (1 - r) step_noise) / kappa, the right-hand side of Theorem 3.5.

    Args:
        drop_rate: r in [0, 1).
        delta_c: Delta_L / (g T) + g G C^2 / 2 less the mean bias, in [0, 1e70].
        step_noise: learning rate times Delta_sigma, in [0, 1e70].
        kappa: in [1e-70, 1e70]; its value at this rate (:func:`dptheory.sparsification.kappa`).

    Returns:
        U(r), in the units of its terms.

    Source: RS, Appendix G, equations 113 and 114 (rs.appG).

    Example: by hand: (1 + 0.3 * 9) / 0.5, against 10 without a mask.
        >>> from dptheory.sparsification import relative_bound
        >>> round(relative_bound(drop_rate=0.7, delta_c=1.0, step_noise=9.0, kappa=0.5), 4)
        7.4
    """
    x = 1.0 - _validate.real("drop_rate", drop_rate, 0.0, 1.0, ends="[)")
    delta_c, step_noise = _terms(delta_c, step_noise)
    return (delta_c + x * step_noise) / _validate.size("kappa", kappa)


def optimal_rate(*, delta_c: float, step_noise: float, exponent: float = 0.5) -> float:
    r"""The r that minimises U(r) where kappa = (1 - r)^a: max(0, 1 - a / (1 - a) * delta_c / step_noise).

    Args:
        delta_c: in [0, 1e70].
        step_noise: learning rate times Delta_sigma, in [0, 1e70].
        exponent: a in [0, 1]; 1/2 is the paper's assumption, 1 holds for gradients below the threshold.

    Returns:
        r in [0, 1]; 1 says that U falls all the way to the mask that keeps nothing, which is not allowed.

    Source: RS, Appendix G, equation 116 (rs.appG).

    Example: by hand: 1 - 1 / 1.3 for RF's CNN, with nothing but curvature and noise in the bound.
        >>> from dptheory.sparsification import optimal_rate
        >>> round(optimal_rate(delta_c=1.0, step_noise=550_000 * 1.54**2 / 1000**2), 3)
        0.233
    """
    delta_c, step_noise = _terms(delta_c, step_noise)
    a = _validate.real("exponent", exponent, 0.0, 1.0)
    if (1.0 - a) * step_noise <= a * delta_c:
        return 0.0
    return 1.0 - a * delta_c / ((1.0 - a) * step_noise)


EXPONENTS = (0.5, 0.75, 1.0)
"""Of kappa = (1 - r)^a: the paper's assumption, halfway, and gradients below the threshold."""


@dataclass(frozen=True, kw_only=True)
class OptimalRate:
    """The best rate under one assumption on kappa.

    Attributes:
        exponent: a, where kappa = (1 - r)^a.
        drop_rate: r as of :func:`optimal_rate`.
    """

    exponent: float
    drop_rate: float


def optimal_rates(*, delta_c: float, step_noise: float) -> tuple[OptimalRate, ...]:
    r"""The r that minimises U(r) for each exponent of :data:`EXPONENTS`: how much the answer depends on the assumption.

    .. math:: r^* = \max\left(0, 1 - \frac{a}{1-a}\frac{\Delta_C}{\gamma\Delta_\sigma}\right)

    Args:
        delta_c: what noise does not explain of the bound, in [0, 1e70].
        step_noise: learning rate times Delta_sigma, in [0, 1e70].

    Returns:
        One result per exponent, in their order.

    Source: RS, Appendix G, equation 116 (rs.appG).

    Example: the answer runs from .9 to 0 with the assumed exponent.
        >>> from dptheory.sparsification import optimal_rates
        >>> [(one.exponent, round(one.drop_rate, 6)) for one in optimal_rates(delta_c=0.1, step_noise=1.0)]
        [(0.5, 0.9), (0.75, 0.7), (1.0, 0.0)]
    """
    return tuple(
        OptimalRate(exponent=a, drop_rate=optimal_rate(delta_c=delta_c, step_noise=step_noise, exponent=a))
        for a in EXPONENTS
    )


def optimal_rate_flat(
    *, delta_c: float, step_noise: float, grad_norm: float, clip_norm: float, deviation_share: float = 0.75
) -> float:
    r"""The r that minimises U(r) for a gradient with entries of equal size and P' = P, kappa being exact.

    .. math:: 1 - r^* = \min(1, \max((c / |w|)^2, \Delta_C / (\gamma\Delta_\sigma))), \qquad c = (1 - z) C

    Zero for every noise term once |w| <= c: then kappa = 1 - r.

    Args:
        delta_c: in [0, 1e70].
        step_noise: learning rate times Delta_sigma, in [0, 1e70].
        grad_norm: |w|, in [1e-70, 1e70].
        clip_norm: C, in [1e-70, 1e70].
        deviation_share: share of C left to the deviation, in (0, 1).

    Returns:
        r in [0, 1): the float below 1 where it rounds to 1.

    Source: RS, Appendix G, corrected (rs.appG).

    Example: a gradient below the threshold should not be masked at all; a long one as far as the noise says.
        >>> from dptheory.sparsification import optimal_rate_flat
        >>> [optimal_rate_flat(delta_c=1.0, step_noise=2.0, grad_norm=norm, clip_norm=1.0) for norm in (0.25, 10.0)]
        [0.0, 0.5]
    """
    grad_norm = _validate.size("grad_norm", grad_norm)
    clip_norm = _validate.size("clip_norm", clip_norm)
    unclipped = (1.0 - _validate.real("deviation_share", deviation_share, 0.0, 1.0, ends="()")) * clip_norm
    least = min(unclipped / grad_norm, 1.0) ** 2
    return min(optimal_rate(delta_c=delta_c, step_noise=step_noise), 1.0 - least, math.nextafter(1.0, 0.0))


def least_kappa(*, drop_rate: float, delta_c: float, step_noise: float) -> float:
    r"""The kappa above which masking lowers the bound at a fixed learning rate.

    With x = 1 - r it is (delta_c + x step_noise) / (delta_c + step_noise).

    Args:
        drop_rate: r in [0, 1).
        delta_c: in [0, 1e70].
        step_noise: learning rate times Delta_sigma, in [0, 1e70]; not both 0.

    Returns:
        The least kappa, in [1 - drop_rate, 1].

    Source: RS, Theorem 3.5 (rs.fixed_rate).

    Example: by hand: (1 + 0.3 * 9) / (1 + 9) where the noise is nine times the other terms.
        >>> from dptheory.sparsification import least_kappa
        >>> round(least_kappa(drop_rate=0.7, delta_c=1.0, step_noise=9.0), 4)
        0.37
    """
    x = 1.0 - _validate.real("drop_rate", drop_rate, 0.0, 1.0, ends="[)")
    delta_c, step_noise = _terms(delta_c, step_noise)
    if max(delta_c, step_noise) == 0.0:
        raise ArgumentError("step_noise", "be positive where delta_c is 0", step_noise)
    return min(1.0, max(x, (delta_c + x * step_noise) / (delta_c + step_noise)))


def least_kappa_tuned(*, drop_rate: float, noise_to_curvature: float) -> float:
    r"""The kappa above which masking lowers the bound at the tuned learning rate: sqrt((A + x D) / (A + D)).

    Larger than sqrt(x) for r > 0, whatever the noise.

    Args:
        drop_rate: r in [0, 1).
        noise_to_curvature: D / A = d sigma^2 / B^2, in [0, 1e70].

    Returns:
        The least kappa, in [sqrt(1 - drop_rate), 1].

    Source: RS, Theorem 3.5 (rs.tuned).

    Example: RF's CNN, d sigma^2 / B^2 = 1.3: dropping 70 % pays only if 78 % of the descent remain.
        >>> from dptheory.sparsification import least_kappa_tuned
        >>> round(least_kappa_tuned(drop_rate=0.7, noise_to_curvature=550_000 * 1.54**2 / 1000**2), 3)
        0.777
    """
    return math.sqrt(
        least_kappa(
            drop_rate=drop_rate,
            delta_c=1.0,
            step_noise=_validate.real("noise_to_curvature", noise_to_curvature, 0.0, _validate.LARGEST),
        )
    )


def tuned_bound(
    *, drop_rate: float, kappa: float, objective_gap: float, steps: float, curvature_term: float, noise_term: float
) -> TunedBound:
    r"""Least value over the learning rate of (Delta_L / (g T) + g A + x g D) / kappa, kappa free of g, no bias.

    .. math:: \frac2\kappa\sqrt{\Delta_L(A + xD)/T} \quad\text{at}\quad \gamma = \sqrt{\Delta_L / (T(A + xD))}

    Args:
        drop_rate: r in [0, 1).
        kappa: in [1e-70, 1e70].
        objective_gap: Delta_L, in [1e-70, 1e70].
        steps: T, in [1, 1e70]; need not be whole, as it may come from a budget.
        curvature_term: A = G C^2 / 2, in [1e-70, 1e70].
        noise_term: D = Delta_sigma, in [0, 1e70].

    Returns:
        The bound, and the learning rate at which it is least.

    Source: RS, Theorem 3.5 (rs.tuned); RF, section 2.2 (rf.raise_noise).

    Example: by hand: 2 sqrt(1 * (0.5 + 0.65) / 1000).
        >>> from dptheory.sparsification import tuned_bound
        >>> found = tuned_bound(drop_rate=0.0, kappa=1.0, objective_gap=1.0, steps=1000, curvature_term=0.5, noise_term=0.65)
        >>> round(found.bound, 4), round(found.learning_rate, 4)
        (0.0678, 0.0295)
    """
    x = 1.0 - _validate.real("drop_rate", drop_rate, 0.0, 1.0, ends="[)")
    kappa = _validate.size("kappa", kappa)
    gap = _validate.size("objective_gap", objective_gap)
    steps = _validate.real("steps", steps, 1.0, 1e70)
    slope = _validate.size("curvature_term", curvature_term)
    slope += x * _validate.real("noise_term", noise_term, 0.0, _validate.LARGEST)
    return TunedBound(
        bound=2.0 * math.sqrt(gap / steps) * math.sqrt(slope) / kappa, learning_rate=math.sqrt(gap / steps / slope)
    )


def _terms(delta_c: float, noise_term: float) -> tuple[float, float]:
    return (
        _validate.real("delta_c", delta_c, 0.0, _validate.LARGEST),
        _validate.real("step_noise", noise_term, 0.0, _validate.LARGEST),
    )
