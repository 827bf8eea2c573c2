"""GEP: what a random subspace keeps of a gradient."""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from dptheory import embedding
from dptheory.checks import ExactCheck, Kind, LawCheck, MeanCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gep import _subspace_at_scale
from dptheory.papers import RESNET20_GROUPS

Array = NDArray[np.float64]


def _random_bases(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> Array:
    """Squared relative errors |g - B^T B g|^2 / |g|^2 for one fixed g and orthonormalised Gaussian rows."""
    vector = np.arange(1.0, dim + 1)
    basis = np.linalg.qr(rng.standard_normal((n, dim, subspace_dim)))[0]
    return np.asarray(1 - np.square(vector @ basis).sum(axis=-1) / float(vector @ vector))


def _error(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> Array:
    return np.asarray(np.sqrt(np.clip(_random_bases(rng, n, dim, subspace_dim), 0.0, 1.0)))


def _binned(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> NDArray[np.intp]:
    return np.minimum((10 * _random_bases(rng, n, dim, subspace_dim)).astype(np.intp), 9)


def _bins(dim: int, subspace_dim: int) -> Array:
    law = beta((dim - subspace_dim) / 2, subspace_dim / 2)
    return np.asarray(np.diff(law.cdf(np.linspace(0, 1, 11))))


def _squared_length_error(rng: np.random.Generator, n: int, dim: int, subspace_dim: int) -> Array:
    kept = 1 - _random_bases(rng, n, dim, subspace_dim)
    return np.asarray(np.square(dim / subspace_dim * kept - 1))


def _grouped(k: int) -> list[tuple[int, float]]:
    """p_g and k_g of the paper's ResNet20, k_g in proportion to the root of p_g."""
    return list(zip(RESNET20_GROUPS, embedding.square_root_allocation(RESNET20_GROUPS, k).tolist(), strict=True))


def _all_above(k: int) -> bool:
    """(p_g - k_g) / p_g > .95^2 in every group, k_g by hand."""
    roots = sum(math.sqrt(p) for p in RESNET20_GROUPS)
    return all(400 * (p - k * math.sqrt(p) / roots) > 361 * p for p in RESNET20_GROUPS)


_APPC = Claim(
    id="gep.appC",
    title="random basis",
    source=Source("gep", "Appendix C and Fig. 7"),
    statement=r"The projection error $|g-B^TBg|/|g|$ of random basis vectors is above 95 % throughout training.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "the rows are orthonormalised",
        "the basis is drawn independently of g",
        "unstated: k/p < 1 - 0.95^2 = 0.0975, for one basis or in every group; the paper's k = 2000 over five groups has .110 in its first layer",
    ),
    correction=r"A gradient that lies in that layer has an error of .943. For every $g$ the squared error has the law $\mathrm{Beta}(\frac{p-k}2,\frac k2)$: root mean square $\sqrt{1-k/p}$, mean "
    r"$\Gamma(\frac{p-k+1}2)\Gamma(\frac p2)/(\Gamma(\frac{p-k}2)\Gamma(\frac{p+1}2))$. For $p = 2.7\cdot10^5$, $k\le2000$ and one basis: above 99.6 %.",
    calculators=(embedding.random_basis_error, embedding.mean_random_basis_error),
    checks=(
        *_subspace_at_scale.RANDOM_BASIS,
        MeanCheck(
            name="gep.appC squared error, p = 12, k = 5",
            sampler=partial(_random_bases, dim=12, subspace_dim=5),
            claimed=lambda: embedding.random_basis_error(12, 5) ** 2,
            wrong=lambda: 1 - math.sqrt(5 / 12),
            row_bytes=3000,
        ),
        MeanCheck(
            name="gep.appC mean error, p = 4, k = 2",
            sampler=partial(_error, dim=4, subspace_dim=2),
            claimed=lambda: embedding.mean_random_basis_error(4, 2),
            wrong=lambda: math.sqrt(1 / 2),
            row_bytes=500,
        ),
        LawCheck(
            name="gep.appC law of the squared error, p = 4, k = 2",
            sampler=partial(_binned, dim=4, subspace_dim=2),
            law=lambda: _bins(4, 2),
            wrong=lambda: _bins(5, 2),
            row_bytes=500,
        ),
        ExactCheck(
            name="five groups of ResNet20, k = 2000: is the error above 95 % whatever the gradient?",
            cases=lambda: [(500,), (1000,), (1500,), (2000,)],
            truth=_all_above,
            statement=lambda k: all(embedding.random_basis_error(p, round(kg)) > 0.95 for p, kg in _grouped(k)),
            wrong=lambda k: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="above 95 %, in integers",
            cases=lambda: [(p, k) for p in (2_700, 41_000, 270_000) for k in (1, 250, 263, 264, 500, 2000)],
            truth=lambda p, k: 400 * (p - k) > 361 * p,
            statement=lambda p, k: embedding.random_basis_error(p, k) > 0.95,
            wrong=lambda p, k: 1 - k / p > 0.95,
        ),
    ),
    proved=True,
)

_JL = Claim(
    id="gep.jl",
    title="distances kept, vectors lost",
    source=Source("gep", "section 3.1, last paragraph, and Appendix C"),
    statement=r"A random projection keeps pairwise distances (Johnson-Lindenstrauss), which is not enough to reconstruct the gradients.",
    verdict=Verdict.HOLDS,
    conditions=("the subspace is drawn independently of the vectors",),
    correction=r"$\frac pk|Bg|^2/|g|^2$ has mean 1 and standard deviation $\sqrt{2(p-k)/(k(p+2))}<\sqrt{2/k}$, whatever $p$ is, while the relative "
    r"error of $B^TBg$ is $\sqrt{1-k/p}\to1$.",
    calculators=(embedding.random_embedding_distortion, embedding.random_basis_error),
    checks=(
        *_subspace_at_scale.DISTORTION,
        MeanCheck(
            name="gep.jl variance of the squared length, p = 8, k = 3",
            sampler=partial(_squared_length_error, dim=8, subspace_dim=3),
            claimed=lambda: embedding.random_embedding_distortion(8, 3) ** 2,
            wrong=lambda: 2 / 3,
            row_bytes=1500,
        ),
        MeanCheck(
            name="gep.jl share of energy lost, p = 8, k = 3",
            sampler=partial(_random_bases, dim=8, subspace_dim=3),
            claimed=lambda: embedding.random_basis_error(8, 3) ** 2,
            row_bytes=1500,
        ),
    ),
    proved=True,
)

CLAIMS: tuple[Claim, ...] = (_APPC, _JL)
