"""Uniformly random masks with a fixed number of ones: expectations and norms of masked vectors.

Notation: r = rate, x = 1 - r, d = number of entries; a mask m has x d ones, every such mask being equally likely.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from dptheory import _arrays, _validate
from dptheory._arrays import Array, ArrayLike
from dptheory.errors import ArgumentError


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


_MOST_ENTRIES = 10**9

_ROUNDING = 1e-6


@dataclass(frozen=True, kw_only=True)
class NormBounds:
    """What E|m*u| lies between; both ends are attained by some u of the same norm.

    Attributes:
        lower: (1 - r) |u|.
        upper: sqrt(1 - r) |u|.
    """

    lower: float
    upper: float


def kept_entries(*, dim: int, drop_rate: float) -> int:
    """Number of ones of a mask, (1 - r) d.

    Args:
        dim: number of entries, 1..1e12.
        drop_rate: share of entries set to zero, in [0, 1); (1 - drop_rate) dim must be a whole number.

    Returns:
        The number of ones.

    Raises:
        ValueError: an argument outside its range, or a rate that keeps no entry or a fraction of one.

    Source: RF, section 2.1 (rf.lem1).

    Example: RF's CNN at its highest freeze rate.
        >>> from dptheory.gradients import kept_entries
        >>> kept_entries(dim=550_000, drop_rate=0.9)
        55000
    """
    dim = _validate.integer("dim", dim, 1, 10**12)
    drop_rate = _validate.real("drop_rate", drop_rate, 0.0, 1.0, ends="[)")
    exact = (1.0 - drop_rate) * dim
    keep = round(exact)
    if abs(exact - keep) > _ROUNDING + 2**-51 * dim or keep == 0:
        raise ArgumentError(
            "drop_rate",
            f"keep a whole number of the {dim} entries, at least 1",
            drop_rate,
            got=f"{drop_rate!r} ({exact:g} kept)",
        )
    return keep


def expected_masked_inner(first: ArrayLike, second: ArrayLike, *, drop_rate: float) -> float:
    r"""E<m*u, v> = E<m*u, m*v> = (1 - r) <u, v> for fixed vectors, or given (u, v) where m is independent of the pair.

    Args:
        first, second: vectors u and v, shape (d,), entries at most 1e70 in size.
        drop_rate: r in [0, 1) with (1 - r) d whole.

    Returns:
        The mean, in squared units of the vectors.

    Raises:
        ValueError: an argument outside its range, or shapes that differ.

    Source: RF, Lemma 1 and Corollary 1.1 (rf.lem1, rf.cor1.1).

    Example: by hand: half of 1 * 3 + 2 * 4.
        >>> from dptheory.gradients import expected_masked_inner
        >>> expected_masked_inner([1.0, 2.0], [3.0, 4.0], drop_rate=0.5)
        5.5
    """
    u, v = _validate.vector("first", first), _validate.vector("second", second)
    if u.shape != v.shape:
        raise ArgumentError("second", f"have the shape {u.shape} of first", v.shape)
    return kept_entries(dim=u.size, drop_rate=drop_rate) / u.size * float(u @ v)


def mask_norm_bounds(vector: ArrayLike, *, drop_rate: float) -> NormBounds:
    r"""(1 - r) |u| <= E|m*u| <= sqrt(1 - r) |u|.

    The lower end is attained by vectors with one entry that is not zero, the upper one by vectors with entries of equal size.

    Args:
        vector: vector of shape (d,), entries at most 1e70 in size.
        drop_rate: r in [0, 1) with (1 - r) d whole.

    Returns:
        Both bounds, in units of the vector.

    Source: RF, Lemma 2 (rf.lem2).

    Example: a mask with one of two ones leaves 3 or 4 of (3, 4), 3.5 on average: between these.
        >>> from dptheory.gradients import mask_norm_bounds
        >>> bounds = mask_norm_bounds([3.0, 4.0], drop_rate=0.5)
        >>> bounds.lower, round(bounds.upper, 4)
        (2.5, 3.5355)
    """
    array = _validate.vector("vector", vector)
    x = kept_entries(dim=array.size, drop_rate=drop_rate) / array.size
    size = _arrays.norm(array)
    return NormBounds(lower=x * size, upper=math.sqrt(x) * size)


def all_masks(dim: int, keep: int) -> Array:
    """Every mask with ``keep`` ones, one in each row.

    Args:
        dim: d, 1..1e9.
        keep: ones, 0..dim; binomial(dim, keep) * dim at most 1e9.

    Returns:
        Array of shape (masks, dim).

    Example: three entries have three masks with two ones.
        >>> from dptheory.gradients import all_masks
        >>> all_masks(3, 2)
        array([[1., 1., 0.],
               [1., 0., 1.],
               [0., 1., 1.]])
    """
    dim = _validate.integer("dim", dim, 1, _MOST_ENTRIES)
    keep = _validate.integer("keep", keep, 0, dim)
    if min(keep, dim - keep) > 30 or math.comb(dim, keep) * dim > _MOST_ENTRIES:  # 30 of 61 are more than 1e17 masks
        raise ArgumentError(
            "keep", f"leave masks with at most {_MOST_ENTRIES} entries in all", keep, got=f"{keep} of {dim}"
        )
    if keep == 0:
        return np.zeros((1, dim))
    chosen = np.array(list(itertools.combinations(range(dim), keep)))
    masks = np.zeros((len(chosen), dim))
    np.put_along_axis(masks, chosen, 1.0, axis=1)
    return masks


def random_masks(*, rng: np.random.Generator, count: int, dim: int, keep: int) -> Array:
    """Independent uniform masks with ``keep`` ones, one in each row.

    Args:
        rng: source of randomness.
        count: number of masks, >= 0; count * dim at most 1e9.
        dim: d, 1..1e9.
        keep: ones, 0..dim.

    Returns:
        Array of shape (count, dim).

    Example: every mask has exactly as many ones as asked for.
        >>> import numpy as np
        >>> from dptheory.gradients import random_masks
        >>> random_masks(rng=np.random.default_rng(0), count=3, dim=10, keep=4).sum(axis=1)
        array([4., 4., 4.])
    """
    _validate.instance("rng", rng, np.random.Generator)
    dim = _validate.integer("dim", dim, 1, _MOST_ENTRIES)
    keep = _validate.integer("keep", keep, 0, dim)
    count = _validate.integer("count", count, 0, _MOST_ENTRIES // dim)
    if keep == dim:
        return np.ones((count, dim))
    chosen = np.argpartition(rng.random((count, dim)), keep, axis=1)[:, :keep]
    masks = np.zeros((count, dim))
    np.put_along_axis(masks, chosen, 1.0, axis=1)
    return masks
