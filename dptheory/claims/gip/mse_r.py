import math
from fractions import Fraction
from functools import partial

from dptheory import pruning
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._gaussian import pruned_gaussian

row = new_row(
    id="gip.mse_r",
    source=Source("gip", "Proposition 2", (7, 12, 13)),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds",),
    calculators=(pruning.random_k_mse,),
)


@row.equal(lambda: _finite.SIZES, tolerance=1e-12)
def _(dim: int, keep: int) -> Sides:
    """any fixed gradient, all subsets"""
    return (
        pruning.random_k_mse(dim, keep, sigma_g=math.sqrt(sum(x * x for x in _finite.VECTORS[dim]) / dim)),
        lambda: _finite.perturbed_loss(_finite.VECTORS[dim], keep, Fraction(1)),
        pruning.random_k_mse(dim, dim - keep, sigma_g=math.sqrt(sum(x * x for x in _finite.VECTORS[dim]) / dim)),
    )


@row.mean(partial(pruned_gaussian, dim=200, keep=40, theta=0.0), row_bytes=8000)
def _() -> float:
    """Gaussian gradient, d = 200"""
    return float(pruning.random_k_mse(200, 40, sigma_g=1.0))


@row.equal((20_000, 2_000), (2_700_000, 270_000), tolerance=1e-12)
def _(dim: int, keep: int) -> Sides:
    """users' sizes: one variance for each entry dropped"""
    return (
        pruning.random_k_mse(dim, keep, sigma_g=0.1),
        lambda: Fraction(1, 100) * sum(1 for _ in range(dim - keep)),
        Fraction(dim, 100),
    )
