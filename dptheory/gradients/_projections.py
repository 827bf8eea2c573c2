"""What random projections show of a skewed law."""

import math

from dptheory import _validate


def projected_skewness(*, dim: int, skewness: float) -> float:
    r"""Root mean square skewness of <u, xi>, u uniform on the sphere and xi with iid entries of the given skewness.

    .. math:: |\gamma_1|\sqrt{\frac{15}{(d+2)(d+4)}}

    Args:
        dim: number of entries of xi, 1..1e15.
        skewness: gamma_1 of an entry, E x^3 / (E x^2)^{3/2} for E x = 0; finite.

    Returns:
        The skewness, >= 0.

    Source: RS, Appendix F (rs.appF).

    Example: seen along a random direction, 1000 entries of skewness 2 are almost symmetric.
        >>> from dptheory.gradients import projected_skewness
        >>> round(projected_skewness(dim=1000, skewness=2.0), 4)
        0.0077
    """
    dim = _validate.integer("dim", dim, 1, 10**15)
    skewness = _validate.real("skewness", skewness, -math.inf, ends="()")
    return abs(skewness) * math.sqrt(15 / ((dim + 2) * (dim + 4)))
