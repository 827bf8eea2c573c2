"""GEP's projections, random subspaces and costs, at small sizes and at users': against fractions, laws and loops."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.stats import beta

from dptheory import embedding
from dptheory.checks import ExactCheck

_TINY = 1e-10


# --- subspace ---------------------------------------------------------------------------------------------------------
def _projected(part: str, dim: int) -> float:
    """Gradient (5, 10, 7, 1, 1, ...) and its double on the rows (3 e1 + 4 e2) / 5 and e3, by the calculator."""
    gradient = np.ones(dim)
    gradient[:3] = 5.0, 10.0, 7.0
    basis = np.zeros((2, dim))
    basis[0, :2], basis[1, 2] = (0.6, 0.8), 1.0
    gradients = np.array([gradient, 2 * gradient])
    if part == "energy":
        return embedding.residual_energy(gradients, basis)
    found = embedding.project(gradients, basis)
    return float(
        (found.embeddings if part == "embeddings" else found.residuals) @ np.arange(1, _width(part, dim) + 1.0) @ [1, 1]
    )


def _width(part: str, dim: int) -> int:
    return 2 if part == "embeddings" else dim


def _projected_by_hand(part: str, dim: int) -> Fraction:
    """The same in fractions: the embedding is (11, 7), the residual (-8/5, 6/5, 0, 1, ..., 1)."""
    rest = dim - 3
    if part == "energy":
        return Fraction(5, 2) * (Fraction(64 + 36, 25) + rest)
    if part == "embeddings":
        return Fraction(3 * (11 + 2 * 7))
    return 3 * (Fraction(-8, 5) + 2 * Fraction(6, 5) + sum(range(4, dim + 1)))


PROJECTION = (
    ExactCheck(
        name="embeddings, residuals and their energy, in fractions",
        cases=lambda: [(part, dim) for part in ("embeddings", "residuals", "energy") for dim in (5, 20_000)],
        truth=_projected_by_hand,
        statement=_projected,
        wrong=lambda part, dim: 0.0,
        tolerance=1e-12,
    ),
)


def _kept_law(dim: int, k: int) -> Any:
    """Share of energy that a random subspace keeps."""
    return beta(k / 2, (dim - k) / 2)


RANDOM_BASIS = (
    ExactCheck(
        name="root mean square and mean error at users' sizes, by the Beta law",
        cases=lambda: [
            (what, dim, k) for what in ("root", "mean") for dim, k in ((12, 5), (27_000, 2000), (270_000, 100_000))
        ],
        truth=lambda what, dim, k: (
            math.sqrt(_kept_law(dim, k).expect(lambda x: 1 - x, epsabs=1e-13, epsrel=1e-10))
            if what == "root"
            else _kept_law(dim, k).expect(lambda x: math.sqrt(1 - x), epsabs=1e-13, epsrel=1e-10)
        ),
        statement=lambda what, dim, k: (
            embedding.random_basis_error(dim, k) if what == "root" else embedding.mean_random_basis_error(dim, k)
        ),
        wrong=lambda what, dim, k: 1 - k / dim,
        tolerance=1e-8,
    ),
)

DISTORTION = (
    ExactCheck(
        name="distortion and error at users' sizes, by the Beta law",
        cases=lambda: [(what, dim, k) for what in ("length", "error") for dim, k in ((12, 5), (27_000, 2000), (270_000, 1000))],
        truth=lambda what, dim, k: (
            dim / k * _kept_law(dim, k).std() if what == "length" else math.sqrt(1 - _kept_law(dim, k).mean())
        ),
        statement=lambda what, dim, k: (
            embedding.random_embedding_distortion(dim, k) if what == "length" else embedding.random_basis_error(dim, k)
        ),
        wrong=lambda what, dim, k: math.sqrt(2 / k),
        tolerance=1e-12,
    ),
)  # fmt: skip


# --- costs ------------------------------------------------------------------------------------------------------------
def counted_parts(part: str, dim: int, basis: int, anchors: int, groups: int, unit: str) -> int:
    """Operations of one power iteration, loop by loop, without running the innermost one."""
    p, k = dim // groups, basis // groups
    fused = unit == "multiply-add"
    found = {"products": 0, "orthogonalisation": 0, "scaling": 0}
    for _ in range(groups):
        found["products"] += anchors * k * (p if fused else p + p - 1)  # entries of A = G B^T: p products, p - 1 sums
        found["products"] += k * p * (anchors if fused else anchors + anchors - 1)
        for row in range(k):
            for _ in range(row):  # an inner product, and a multiple of the earlier row taken off
                found["orthogonalisation"] += (p if fused else p + p - 1) + (p if fused else p + p)
            found["orthogonalisation"] += p if fused else p + p - 1  # the squared norm
            found["scaling"] += p
    return sum(found.values()) if part == "total" else found[part]


COMPUTE = (
    ExactCheck(
        name="every part, loop by loop",
        cases=lambda: [
            (part, *sizes, unit)
            for part in ("products", "orthogonalisation", "scaling", "total")
            for sizes in ((12, 3, 5, 1), (24, 6, 5, 3), (270_000, 1000, 2000, 1), (270_000, 1000, 2000, 5))
            for unit in ("multiply-add", "operation")
        ],
        truth=counted_parts,
        statement=lambda part, *case: getattr(embedding.power_iteration(*case), part),
        wrong=lambda part, *case: counted_parts(part, *case) + 1,
    ),
)


def held_floats(dim: int, basis: int, anchors: int, gradients: int, groups: int) -> int:
    """Most numbers held beyond the private gradients, stage by stage."""
    bases = sum((dim // groups) * (basis // groups) for _ in range(groups))
    finding = anchors * dim + bases + anchors * basis
    releasing = gradients * dim + bases + gradients * basis
    return max(finding, releasing) - gradients * dim


MEMORY = (
    ExactCheck(
        name="numbers held, stage by stage",
        cases=lambda: [
            (6, 2, 1, 4, 1),
            (12, 3, 5, 6, 3),
            (270_000, 1000, 2000, 1000, 1),
            (270_000, 1000, 500, 1000, 5),
        ],
        truth=held_floats,
        statement=lambda *case: embedding.extra_floats(*case),
        wrong=lambda *case: held_floats(*case) + 1,
    ),
)
