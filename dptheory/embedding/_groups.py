"""Bases of several groups of parameters: what they cost, and how many vectors each group gets."""

import numpy as np
from numpy.typing import ArrayLike

from dptheory import _validate
from dptheory._arrays import Array
from dptheory.errors import ArgumentError


def grouping_cost_ratio(group_sizes: ArrayLike, *, subspace_dims: ArrayLike) -> float:
    r"""Work of a power iteration with one basis per group over that with one basis of as many vectors for all parameters.

    sum_g k_g p_g / (sum_g k_g sum_g p_g); below 1 for two groups or more. It is 1/g if all groups have one size, or all one
    number of vectors. With k_g proportional to sqrt(p_g) it is sum p_g^1.5 / (sum p_g^0.5 sum p_g) >= 1/g.

    Args:
        group_sizes: p_g >= 1, shape (groups,).
        subspace_dims: k_g vectors for each group, above 0 and at most p_g, same shape; need not be whole.

    Returns:
        The ratio, in (0, 1].

    Raises:
        ValueError: an argument outside its range.

    Source: GEP, section 3.1 (gep.groups).

    Example: by hand: (10 * 100 + 20 * 400) / (30 * 500).
        >>> from dptheory.embedding import grouping_cost_ratio
        >>> grouping_cost_ratio([100, 400], subspace_dims=[10, 20])
        0.6
    """
    p = _sizes(group_sizes)
    k = _validate.finite("subspace_dims", subspace_dims)
    if k.shape != p.shape or not ((k > 0) & (k <= p)).all():
        raise ArgumentError("subspace_dims", "give each group more than 0 and at most p_g vectors", subspace_dims)
    return float((k @ p) / (k.sum() * p.sum()))


def square_root_allocation(group_sizes: ArrayLike, *, subspace_dim: int) -> Array:
    r"""GEP's shares k_g = k sqrt(p_g) / sum_h sqrt(p_h), before rounding.

    They minimise sum_g p_g / k_g under sum_g k_g = k, the residual energy if that of each group is c p_g / k_g with one c;
    they do not minimise the work sum_g k_g p_g.

    Args:
        group_sizes: p_g >= 1, shape (groups,).
        subspace_dim: k >= 1; no group may get more than p_g.

    Returns:
        k_g as floats, shape (groups,).

    Raises:
        ValueError: an argument outside its range, or a group that gets more vectors than it has parameters.

    Source: GEP, section 4 (gep.groups).

    Example: by hand: shares of 10 : 20.
        >>> from dptheory.embedding import square_root_allocation
        >>> square_root_allocation([100, 400], subspace_dim=30)
        array([10., 20.])
    """
    p = _sizes(group_sizes)
    k = _validate.integer("subspace_dim", subspace_dim, 1, int(p.sum()))
    shares = k * np.sqrt(p) / np.sqrt(p).sum()
    if (shares > p * (1 + 1e-12)).any():
        raise ArgumentError("subspace_dim", "give no group more vectors than parameters", subspace_dim)
    return np.asarray(shares)


def _sizes(sizes: ArrayLike) -> Array:
    p = _validate.finite("group_sizes", sizes)
    if p.ndim != 1 or p.size == 0 or not ((p >= 1) & (p <= 1e12)).all():
        raise ArgumentError("group_sizes", "be a row of numbers in [1, 1e12]", sizes)
    return p
