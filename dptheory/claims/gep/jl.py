import math
from functools import partial

import numpy as np

from dptheory import embedding
from dptheory._arrays import Array
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gep._mechanism import kept_law, lost_energy


def _squared_length_error(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> Array:
    kept = 1 - lost_energy(rng, n, dim, subspace_dim)
    return np.asarray(np.square(dim / subspace_dim * kept - 1))


row = new_row(
    id="gep.jl",
    source=Source("gep", "section 3.1, last paragraph, and Appendix C"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.random_embedding_distortion, embedding.random_basis_error),
)


@row.equal(
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


@row.mean(partial(_squared_length_error, dim=8, subspace_dim=3), wrong=lambda: 2 / 3, row_bytes=1500)
def _() -> float:
    """gep.jl variance of the squared length, p = 8, k = 3"""
    return embedding.random_embedding_distortion(dim=8, subspace_dim=3) ** 2


@row.mean(partial(lost_energy, dim=8, subspace_dim=3), row_bytes=1500)
def _() -> float:
    """gep.jl share of energy lost, p = 8, k = 3"""
    return embedding.random_basis_error(dim=8, subspace_dim=3) ** 2
