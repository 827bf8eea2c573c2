"""What one power iteration of GEP costs: operations, and numbers stored beyond the private gradients.

Sizes: ``dim`` p, ``subspace_dim`` k, ``anchors`` m, ``gradients`` n, ``groups`` g. Each of the g groups has
p/g parameters and k/g basis vectors.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dptheory import _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError

Unit = Literal["multiply-add", "operation"]

_MAX = 10**12


@dataclass(frozen=True, kw_only=True)
class PowerIteration:
    """Operations of one power iteration, all groups together.

    Attributes:
        products: the two matrix products A = G B' and B = A' G.
        orthogonalisation: Gram-Schmidt on the rows of B, with their norms.
        scaling: divisions that normalise the rows.
    """

    products: int
    orthogonalisation: int
    scaling: int

    @property
    def total(self) -> int:
        """All together; square roots, one a basis vector, are left out."""
        return self.products + self.orthogonalisation + self.scaling


def power_iteration(
    *, dim: int, subspace_dim: int, anchors: int, groups: int = 1, unit: Unit = "multiply-add"
) -> PowerIteration:
    """Operations of one power iteration (line 5 and 6 of Algorithm 1), by plain matrix products and modified Gram-Schmidt.

    "multiply-add" counts a product and its addition as one: 2 m k p / g + p k^2 / g^2, and k p / g divisions.
    "operation" counts every multiplication, addition and division. With p and k those of one group, a group takes
    m k (2 p - 1) + k p (2 m - 1) for the products, k (k - 1) / 2 times 4 p - 1 and k times 2 p - 1 for Gram-Schmidt, and
    k p divisions.

    Args:
        dim: p, 1..1e12, a multiple of ``groups``.
        subspace_dim: k, a multiple of ``groups``; at most the smaller of ``dim`` and ``anchors`` can be independent.
        anchors: m, 1..1e12.
        groups: g, >= 1.
        unit: what is counted as one.

    Returns:
        The operations of the products, of orthogonalisation and of scaling; ``.total`` is their sum.

    Source: GEP, section 3.1 and Appendix B, Table 4 (gep.appB.compute).

    Example: five groups take a fifth of the products, and a 25th of the orthogonalisation.
        >>> from dptheory.embedding import power_iteration
        >>> one, five = (power_iteration(dim=269_720, subspace_dim=1000, anchors=2000, groups=groups) for groups in (1, 5))
        >>> one.products / five.products, one.orthogonalisation / five.orthogonalisation
        (5.0, 25.0)
    """
    dim, subspace_dim, groups = _evenly(dim, subspace_dim, groups)
    m = _validate.integer("anchors", anchors, 1, _MAX)
    _validate.choice("unit", unit, ("multiply-add", "operation"))
    p, k = dim // groups, subspace_dim // groups
    pairs = k * (k - 1) // 2
    if unit == "multiply-add":
        products, orthogonalisation = 2 * m * k * p, 2 * p * pairs + p * k
    else:
        products = m * k * (2 * p - 1) + k * p * (2 * m - 1)
        orthogonalisation = pairs * (4 * p - 1) + k * (2 * p - 1)
    return PowerIteration(
        products=groups * products, orthogonalisation=groups * orthogonalisation, scaling=groups * k * p
    )


def extra_floats(*, dim: int, subspace_dim: int, anchors: int, gradient_count: int, groups: int = 1) -> int:
    """Most numbers held at one time beyond the n p of the private gradients: k p / g + max(m, n) k + max(m - n, 0) p.

    Algorithm 1 with every matrix held whole. While the basis is found, the anchor gradients (m p), the bases (k p / g) and
    the products A (m k) are held, and the private gradients are not yet. After the anchor gradients are deleted come the
    private gradients (n p), the bases and the embeddings (n k). Orthogonalisation, clipping and the residual, which
    replaces the private gradients, work in place. So this is max((m - n + k / g) p + m k, k p / g + n k).

    Args:
        dim: p, 1..1e12, a multiple of ``groups``.
        subspace_dim: k, a multiple of ``groups``, 1..p.
        anchors: m, 1..1e12.
        gradient_count: n, 1..1e12.
        groups: g, >= 1.

    Returns:
        The number.

    Source: GEP, Appendix B, Table 4 (gep.appB.memory).

    Example: ResNet20 in 5 groups, 1000 gradients, 2000 anchors: more than the gradients themselves, 2.7e8.
        >>> from dptheory.embedding import extra_floats
        >>> extra_floats(dim=269_720, subspace_dim=1000, anchors=2000, gradient_count=1000, groups=5)
        325664000
    """
    dim, subspace_dim, groups = _evenly(dim, subspace_dim, groups)
    m = _validate.integer("anchors", anchors, 1, _MAX)
    n = _validate.integer("gradient_count", gradient_count, 1, _MAX)
    return subspace_dim * dim // groups + max(m, n) * subspace_dim + max(m - n, 0) * dim


def _evenly(dim: int, subspace_dim: int, groups: int) -> tuple[int, int, int]:
    dim = _validate.integer("dim", dim, 1, _MAX)
    subspace_dim = _validate.integer("subspace_dim", subspace_dim, 1, dim)
    groups = _validate.integer("groups", groups, 1, subspace_dim)
    for name, size in (("dim", dim), ("subspace_dim", subspace_dim)):
        if size % groups:
            raise ArgumentError(name, f"be a multiple of groups = {groups}", size)
    return dim, subspace_dim, groups


# --- Bases of several groups of parameters: what they cost, and how many vectors each group gets


def grouping_cost_ratio(group_sizes: ArrayLike, *, subspace_dims: ArrayLike) -> float:
    r"""Work of a power iteration with one basis per group over that with one basis of as many vectors for all parameters.

    sum_g k_g p_g / (sum_g k_g sum_g p_g); below 1 for two groups or more. It is 1/g if all groups have one size, or all one
    number of vectors. With k_g proportional to sqrt(p_g) it is sum p_g^1.5 / (sum p_g^0.5 sum p_g) >= 1/g.

    Args:
        group_sizes: p_g >= 1, shape (groups,).
        subspace_dims: k_g vectors for each group, above 0 and at most p_g, same shape; need not be whole.

    Returns:
        The ratio, in (0, 1].

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
