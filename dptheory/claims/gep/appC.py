import math
from functools import partial

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import embedding
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.gep._mechanism import kept_law, lost_energy
from dptheory.papers import RESNET20_GROUPS


def _error(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> Array:
    return np.asarray(np.sqrt(np.clip(lost_energy(rng, n, dim, subspace_dim), 0.0, 1.0)))


def _binned(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> NDArray[np.intp]:
    return np.minimum((10 * lost_energy(rng, n, dim, subspace_dim)).astype(np.intp), 9)


def _bins(dim: int, subspace_dim: int) -> Array:
    law = scipy.stats.beta((dim - subspace_dim) / 2, subspace_dim / 2)
    return np.asarray(np.diff(law.cdf(np.linspace(0, 1, 11))))


def _grouped(k: int) -> list[tuple[int, float]]:
    """p_g and k_g of the paper's ResNet20, k_g in proportion to the root of p_g."""
    return list(
        zip(RESNET20_GROUPS, embedding.square_root_allocation(RESNET20_GROUPS, subspace_dim=k).tolist(), strict=True)
    )


def _all_above(k: int) -> bool:
    """(p_g - k_g) / p_g > .95^2 in every group, k_g by hand."""
    roots = sum(math.sqrt(p) for p in RESNET20_GROUPS)
    return all(400 * (p - k * math.sqrt(p) / roots) > 361 * p for p in RESNET20_GROUPS)


def _error_by_law(what: str, dim: int, k: int) -> float:
    law = kept_law(dim, k)
    if what == "root":
        return math.sqrt(law.expect(lambda x: 1 - x, epsabs=1e-13, epsrel=1e-10))
    return float(law.expect(lambda x: math.sqrt(1 - x), epsabs=1e-13, epsrel=1e-10))


appC = new_row(
    id="gep.appC",
    source=Source("gep", "Appendix C and Fig. 7"),
    verdict=Verdict.CONDITIONAL,
    calculators=(embedding.random_basis_error, embedding.mean_random_basis_error),
)


@appC.equal(
    lambda: [(what, dim, k) for what in ("root", "mean") for dim, k in ((12, 5), (27_000, 2000), (270_000, 100_000))],
    tolerance=1e-8,
)
def _(what: str, dim: int, k: int) -> Sides:
    """root mean square and mean error at users' sizes, by the Beta law"""
    return (
        embedding.random_basis_error(dim=dim, subspace_dim=k)
        if what == "root"
        else embedding.mean_random_basis_error(dim=dim, subspace_dim=k),
        lambda: _error_by_law(what, dim, k),
        1 - k / dim,
    )


@appC.mean(partial(lost_energy, dim=12, subspace_dim=5), wrong=lambda: 1 - math.sqrt(5 / 12), row_bytes=3000)
def _() -> float:
    """gep.appC squared error, p = 12, k = 5"""
    return embedding.random_basis_error(dim=12, subspace_dim=5) ** 2


@appC.mean(partial(_error, dim=4, subspace_dim=2), wrong=lambda: math.sqrt(1 / 2), row_bytes=500)
def _() -> float:
    """gep.appC mean error, p = 4, k = 2"""
    return embedding.mean_random_basis_error(dim=4, subspace_dim=2)


@appC.law(partial(_binned, dim=4, subspace_dim=2), wrong=lambda: _bins(5, 2), row_bytes=500)
def _() -> Array:
    """gep.appC law of the squared error, p = 4, k = 2"""
    return _bins(4, 2)


@appC.equal((500,), (1000,), (1500,), (2000,), kind=Kind.COUNTEREXAMPLE)
def _(k: int) -> Sides:
    """five groups of ResNet20, k = 2000: is the error above 95 % whatever the gradient?"""
    return (
        all(embedding.random_basis_error(dim=p, subspace_dim=round(kg)) > 0.95 for p, kg in _grouped(k)),
        lambda: _all_above(k),
        True,
    )


@appC.equal(lambda: [(p, k) for p in (2_700, 41_000, 270_000) for k in (1, 250, 263, 264, 500, 2000)])
def _(p: int, k: int) -> Sides:
    """above 95 %, in integers"""
    return embedding.random_basis_error(dim=p, subspace_dim=k) > 0.95, 400 * (p - k) > 361 * p, 1 - k / p > 0.95


def _squared_length_error(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> Array:
    kept = 1 - lost_energy(rng, n, dim, subspace_dim)
    return np.asarray(np.square(dim / subspace_dim * kept - 1))


jl = new_row(
    id="gep.jl",
    source=Source("gep", "section 3.1, last paragraph, and Appendix C"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.random_embedding_distortion, embedding.random_basis_error),
)


@jl.equal(
    lambda: [(what, dim, k) for what in ("length", "error") for dim, k in ((12, 5), (27_000, 2000), (270_000, 1000))],
    tolerance=1e-12,
)
def _(what: str, dim: int, k: int) -> Sides:
    """distortion and error at users' sizes, by the Beta law"""
    return (
        embedding.random_embedding_distortion(dim=dim, subspace_dim=k)
        if what == "length"
        else embedding.random_basis_error(dim=dim, subspace_dim=k),
        dim / k * kept_law(dim, k).std() if what == "length" else math.sqrt(1 - kept_law(dim, k).mean()),
        math.sqrt(2 / k),
    )


@jl.mean(partial(_squared_length_error, dim=8, subspace_dim=3), wrong=lambda: 2 / 3, row_bytes=1500)
def _() -> float:
    """gep.jl variance of the squared length, p = 8, k = 3"""
    return embedding.random_embedding_distortion(dim=8, subspace_dim=3) ** 2


@jl.mean(partial(lost_energy, dim=8, subspace_dim=3), row_bytes=1500)
def _() -> float:
    """gep.jl share of energy lost, p = 8, k = 3"""
    return embedding.random_basis_error(dim=8, subspace_dim=3) ** 2
