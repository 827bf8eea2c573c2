import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _mechanism
from dptheory.claims.gep._mechanism import least_by_search
from dptheory.embedding import SplitNoise, split_noise

_SPLITS = (
    (12, 3, 1.0, 0.4, 1.0),
    (270_000, 1000, 10.0, 2.0, 0.7),
    (270_000, 1000, 5.0, 2.0, 3.0),
    (7, 6, 1.0, 1.0, 0.1),
    (10, 2, 0.3, 5.0, 2.0),
    (4, 0, 1.0, 3.0, 1.0),
    (4, 4, 2.0, 1.0, 1.0),
)
"""p, k, S1, S2, mu."""
_LARGE_SPLITS = ((12, 3, 1.0, 0.4, 1.0), (270_000, 1000, 10.0, 2.0, 0.7), (20_000_000, 5000, 3.0, 5.0, 2.0))
"""Small, and at the sizes of users."""


def equal_ratio_energy(dim: int, k: int, first: float, second: float, mu: float) -> float:
    """Noise energy with s1/S1 = s2/S2, as GEP has it, already without the noise inside the subspace."""
    return 2 * (k * first**2 + (dim - k) * second**2) / mu**2 if 0 < k < dim else math.nan


def _least_energy(dim: int, k: int, first: float, second: float, mu: float) -> float:
    if k in (0, dim):  # one release only
        return dim * (second if k == 0 else first) ** 2 / mu**2
    return least_by_search(dim, k, lambda t: first**2 + second**2 / t, mu)


def _least_symbolic(k: int, q: int, first: Fraction, second: Fraction) -> float:
    """The same for mu = 1 by setting the derivative to zero in exact arithmetic."""
    import sympy as sp  # the ledger loads without it

    t = sp.Symbol("t", positive=True)
    energy = (k + q * t) * (sp.Rational(first) ** 2 + sp.Rational(second) ** 2 / t)
    return float(min(energy.subs(t, root) for root in sp.solve(sp.diff(energy, t), t)))


def _mu_by_covariance(dim: int, k: int, first: float, second: float, mu: float, projected: bool) -> float:
    """Largest d^T C^+ d over pairs d = (a, B-orthogonal b), from the covariance C of the noise in R^(k + p)."""
    noise = split_noise(dim=dim, subspace_dim=k, embedding_clip=first, residual_clip=second, mu=mu)
    complement = _mechanism.complement(dim, k)
    second_part = complement.T @ complement if projected else np.eye(dim)
    covariance = np.zeros((k + dim, k + dim))
    covariance[:k, :k] = noise.embedding_std**2 * np.eye(k)
    covariance[k:, k:] = noise.residual_std**2 * second_part
    embedding = first * np.eye(k)[0] if k else np.zeros(0)
    shift = np.concatenate([embedding, second * complement[0] if k < dim else np.zeros(dim)])
    return math.sqrt(float(shift @ np.linalg.pinv(covariance, hermitian=True) @ shift))


def _covariance_cases() -> Iterator[tuple[int, int, float, float, float, bool]]:
    for case in ((12, 3, 1.0, 0.4, 1.0), (5, 4, 0.2, 0.3, 2.0), (4, 0, 1.0, 3.0, 1.0), (4, 4, 2.0, 1.0, 1.5)):
        yield *case, True
        yield *case, False


def _simulated_split() -> SplitNoise:
    return split_noise(
        dim=_mechanism.DIM, subspace_dim=_mechanism.SUBSPACE, embedding_clip=1.0, residual_clip=0.4, mu=2.0
    )


def _unprojected_energy() -> float:
    """Wrong statement: the residual noise is not projected."""
    noise = _simulated_split()
    return noise.energy + _mechanism.SUBSPACE * noise.residual_std**2


class _SimulatedEnergy:
    """Noise of the simulated mechanism; the standard deviations are looked up when it runs."""

    def __call__(self, rng: np.random.Generator, count: int) -> Array:
        noise = _simulated_split()
        return _mechanism.NoiseEnergy(noise.embedding_std, noise.residual_std)(rng, count)


def _best_stds(dim: int, k: int, first: float, second: float, mu: float) -> tuple[float, float]:
    """s1 and s2 by bisection on the derivative of (k + q t)(S1^2 + S2^2 / t), t = s2^2 / s1^2."""
    low, high = -60.0, 60.0
    for _ in range(200):
        t = math.exp((low + high) / 2)
        low, high = (low, math.log(t)) if (dim - k) * first**2 * t * t > k * second**2 else (math.log(t), high)
    t = math.exp((low + high) / 2)
    std = math.sqrt(first**2 + second**2 / t) / mu
    return std, math.sqrt(t) * std


row = new_row(
    id="gep.split",
    source=Source("gep", "new, on Theorem 3.1"),
    verdict=Verdict.HOLDS,
    calculators=(split_noise,),
    figure="noise_vs_gradient",
)


@row.equal(
    lambda: [(what, *case) for what in ("embedding_std", "residual_std") for case in _LARGE_SPLITS], tolerance=1e-6
)
def _(what: str, dim: int, k: int, first: float, second: float, mu: float) -> Sides:
    """the stds: at the best ratio, and mu-GDP together"""
    return (
        getattr(split_noise(dim=dim, subspace_dim=k, embedding_clip=first, residual_clip=second, mu=mu), what),
        _best_stds(dim, k, first, second, mu)[what == "residual_std"],
        math.sqrt(2) * (second if what == "residual_std" else first) / mu,
    )


@row.equal(lambda: _SPLITS, tolerance=1e-10)
def _(dim: int, k: int, first: float, second: float, mu: float) -> Sides:
    """least energy, by search over the ratio of the noises"""
    case = dim, k, first, second, mu
    return (
        split_noise(dim=dim, subspace_dim=k, embedding_clip=first, residual_clip=second, mu=mu).energy,
        lambda: _least_energy(*case),
        equal_ratio_energy(*case),
    )


@row.equal(
    lambda: [
        (k, q, Fraction(*a), Fraction(*b))
        for k, q in ((4, 9), (3, 20), (1, 1))
        for a, b in (((1, 2), (3, 7)), ((5, 1), (1, 9)))
    ],
    tolerance=1e-13,
    kind=Kind.SYMBOLIC,
)
def _(k: int, q: int, a: Fraction, b: Fraction) -> Sides:
    """least energy, by SymPy"""
    return (
        split_noise(dim=k + q, subspace_dim=k, embedding_clip=float(a), residual_clip=float(b), mu=1.0).energy,
        lambda: _least_symbolic(k, q, a, b),
        split_noise(dim=k + q, subspace_dim=k, embedding_clip=float(b), residual_clip=float(a), mu=1.0).energy,
    )


@row.equal(_covariance_cases, tolerance=1e-9)
def _(dim: int, k: int, first: float, second: float, mu: float, projected: bool) -> Sides:
    """mu of the pair from its covariance, with and without the projection"""
    return _mu_by_covariance(dim, k, first, second, mu, projected), mu, mu * math.sqrt(2)  # each part mu-GDP


@row.mean(_SimulatedEnergy(), wrong=_unprojected_energy, row_bytes=8 * 3 * _mechanism.DIM)
def _() -> float:
    """gep.split: noise of the simulated mechanism"""
    return _simulated_split().energy


def _correlated_wrong_slack(ratio: float, log_t: float, correlation: float) -> float:
    """Wrong statement: nor with less than the equal ratio of noises has."""
    return (1 + correlated_slack(ratio, log_t, correlation)) * (1 + ratio) ** 2 / (2 * (1 + ratio**2)) - 1


@row.inequality(
    {"ratio": Range(0.05, 20, log=True), "log_t": Range(-6, 6), "correlation": Range(-0.99, 0.99)},
    wrong=_correlated_wrong_slack,
)
def correlated_slack(ratio: float, log_t: float, correlation: float) -> float:
    """correlated noise does no better

    p = 2, k = 1, S1 = 1: no Gaussian noise, correlated or not, does with less energy than the best split.
    """
    t = math.exp(log_t)
    covariance = np.array([[1.0, correlation * math.sqrt(t)], [correlation * math.sqrt(t), t]])
    worst = max(float(d @ np.linalg.solve(covariance, d)) for d in (np.array([1.0, ratio]), np.array([1.0, -ratio])))
    return (1 + t) * worst / split_noise(
        dim=2, subspace_dim=1, embedding_clip=1.0, residual_clip=ratio, mu=1.0
    ).energy - 1
