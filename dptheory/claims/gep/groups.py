from fractions import Fraction

import numpy as np
import scipy

from dptheory import embedding
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row

_GROUPS = (((2000, 9000), (1, 2)), ((2, 5), (1, 2)), ((3, 3, 3), (1, 1, 1)), ((4, 1, 7), (2, 1, 3)), ((6, 2), (1, 2)))


def _counted(sizes: tuple[int, ...], basis: tuple[int, ...], examples: int = 2) -> int:
    """Multiplications of A = G B^T and of A^T G, one by one, for a basis a group."""
    count = 0
    for p, k in zip(sizes, basis, strict=True):
        for _ in range(examples * k * p):  # an entry of A is a sum of p products
            count += 1
        for _ in range(k * p * examples):  # an entry of A^T G is a sum of m products
            count += 1
    return count


def _counted_ratio(sizes: tuple[int, ...], basis: tuple[int, ...]) -> Fraction:
    return Fraction(_counted(sizes, basis), _counted((sum(sizes),), (sum(basis),)))


def _least_tail(sizes: tuple[int, ...], k: int) -> float:
    """min of sum p_g / k_g over k_g > 0 of sum k, numerically (softmax coordinates)."""
    p = np.asarray(sizes, dtype=np.float64)

    def tail(x: np.ndarray) -> float:
        weights = np.exp(x - x.max())
        return float((p * weights.sum() / (k * weights)).sum())

    return float(scipy.optimize.minimize(tail, np.zeros(p.size), method="BFGS", options={"gtol": 1e-9}).fun)


def _square_root_ratio(first: float, second: float, third: float) -> float:
    sizes = [first, second, third]
    return embedding.grouping_cost_ratio(sizes, subspace_dims=embedding.square_root_allocation(sizes, subspace_dim=1))


row = new_row(
    id="gep.groups",
    source=Source("gep", "Section 3.1"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.grouping_cost_ratio, embedding.square_root_allocation),
)


@row.equal(lambda: _GROUPS, tolerance=1e-15)
def _(sizes: tuple[int, ...], basis: tuple[int, ...]) -> Sides:
    """multiplications counted"""
    return (
        embedding.grouping_cost_ratio(sizes, subspace_dims=basis),
        lambda: _counted_ratio(sizes, basis),
        1 / len(sizes),
    )


@row.equal(((464, 14_016, 51_072, 203_520, 650), 1000), ((100, 400), 30), ((50, 50, 7), 20), tolerance=1e-9)
def _(sizes: tuple[int, ...], k: int) -> Sides:
    """what the square root is best for, by minimisation"""
    return (
        float((np.asarray(sizes) / embedding.square_root_allocation(sizes, subspace_dim=k)).sum()),
        lambda: _least_tail(sizes, k),
        len(sizes) * sum(sizes) / k,  # in proportion to p_g
    )


@row.inequality(
    {name: Range(1, 1e6, log=True) for name in ("first", "second", "third")},
    # wrong: the even split's 1/g is the most
    wrong=lambda first, second, third: 1 - 3 * _square_root_ratio(first, second, third),
)
def square_root_slack(first: float, second: float, third: float) -> float:
    """square-root shares cost at least 1/g"""
    return 3 * _square_root_ratio(first, second, third) - 1
