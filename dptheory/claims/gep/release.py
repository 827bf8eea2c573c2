"""GEP: how noise is split between embedding and residual, and what clipping the gradient first adds."""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog, minimize_scalar

from dptheory.checks import ExactCheck, Kind, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gep import _energies_at_scale, _error, _mechanism
from dptheory.embedding import SplitNoise, joint_clip, split_noise

# --- gep.split --------------------------------------------------------------------------------------------------------

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


def equal_ratio_energy(dim: int, k: int, first: float, second: float, mu: float) -> float:
    """Noise energy with s1/S1 = s2/S2, as GEP has it, already without the noise inside the subspace."""
    return 2 * (k * first**2 + (dim - k) * second**2) / mu**2 if 0 < k < dim else math.nan


def _least_by_search(dim: int, k: int, worst: Callable[[float], float], mu: float) -> float:
    """min over t = s2^2/s1^2 of (k + q t) worst(t) / mu^2; worst(t) = max of a^2 + b^2/t over the pairs (a, b) that occur."""
    q = dim - k

    def energy(log_t: float) -> float:
        return (k + q * math.exp(log_t)) * worst(math.exp(log_t)) / mu**2

    found = minimize_scalar(energy, bounds=(-40.0, 40.0), method="bounded", options={"xatol": 1e-9})
    return float(found.fun)


def _least_energy(dim: int, k: int, first: float, second: float, mu: float) -> float:
    if k in (0, dim):  # one release only
        return dim * (second if k == 0 else first) ** 2 / mu**2
    return _least_by_search(dim, k, lambda t: first**2 + second**2 / t, mu)


def _least_symbolic(k: int, q: int, first: Fraction, second: Fraction) -> float:
    """The same for mu = 1 by setting the derivative to zero in exact arithmetic."""
    import sympy as sp  # the ledger loads without it

    t = sp.Symbol("t", positive=True)
    energy = (k + q * t) * (sp.Rational(first) ** 2 + sp.Rational(second) ** 2 / t)
    return float(min(energy.subs(t, root) for root in sp.solve(sp.diff(energy, t), t)))


def _mu_by_covariance(dim: int, k: int, first: float, second: float, mu: float, projected: bool) -> float:
    """Largest d^T C^+ d over pairs d = (a, B-orthogonal b), from the covariance C of the noise in R^(k + p)."""
    noise = split_noise(dim, k, first, second, mu)
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


def _correlated_slack(ratio: float, log_t: float, correlation: float) -> float:
    """p = 2, k = 1, S1 = 1: no Gaussian noise, correlated or not, does with less energy than the best split."""
    t = math.exp(log_t)
    covariance = np.array([[1.0, correlation * math.sqrt(t)], [correlation * math.sqrt(t), t]])
    worst = max(float(d @ np.linalg.solve(covariance, d)) for d in (np.array([1.0, ratio]), np.array([1.0, -ratio])))
    return (1 + t) * worst / split_noise(2, 1, 1.0, ratio, 1.0).energy - 1


def _correlated_wrong_slack(ratio: float, log_t: float, correlation: float) -> float:
    """Wrong statement: nor with less than the equal ratio of noises has."""
    return (1 + _correlated_slack(ratio, log_t, correlation)) * (1 + ratio) ** 2 / (2 * (1 + ratio**2)) - 1


def _simulated_split() -> SplitNoise:
    return split_noise(_mechanism.DIM, _mechanism.SUBSPACE, 1.0, 0.4, 2.0)


class _SimulatedEnergy:
    """Noise of the simulated mechanism; the standard deviations are looked up when it runs."""

    def __call__(self, rng: np.random.Generator, count: int) -> _mechanism.Array:
        noise = _simulated_split()
        return _mechanism.NoiseEnergy(noise.embedding_std, noise.residual_std)(rng, count)


_SPLIT = Claim(
    id="gep.split",
    title="best split of the noise",
    source=Source("gep", "new, on Theorem 3.1"),
    ours=True,
    statement=r"For clips $S_1, S_2$ and the pair $\mu$-GDP (add/remove), the noise energy is least, "
    r"$(\sqrt k S_1 + \sqrt q S_2)^2/\mu^2$ with $q = p - k$, at $\sigma_1^2 = S_1H/(\sqrt k\mu^2)$, "
    r"$\sigma_2^2 = S_2H/(\sqrt q\mu^2)$, $H = \sqrt kS_1 + \sqrt qS_2$, and with the residual noise projected off "
    r"$\mathrm{span}(B)$, which costs no privacy. GEP's equal ratio $\sigma_i = \sqrt2S_i/\mu$ without projection has "
    r"$2(kS_1^2 + pS_2^2)/\mu^2$.",
    verdict=Verdict.HOLDS,
    conditions=(
        "B has orthonormal rows and does not depend on the private data",
        "add/remove of one example; under replace-one mu doubles",
        "the clips are fixed in advance",
    ),
    calculators=(split_noise,),
    checks=(
        *_energies_at_scale.SPLIT,
        ExactCheck(
            name="least energy, by search over the ratio of the noises",
            cases=lambda: _SPLITS,
            truth=_least_energy,
            statement=lambda *case: split_noise(*case).energy,
            wrong=equal_ratio_energy,
            tolerance=1e-10,
        ),
        ExactCheck(
            name="least energy, by SymPy",
            cases=lambda: [
                (k, q, Fraction(*a), Fraction(*b))
                for k, q in ((4, 9), (3, 20), (1, 1))
                for a, b in (((1, 2), (3, 7)), ((5, 1), (1, 9)))
            ],
            truth=_least_symbolic,
            statement=lambda k, q, a, b: split_noise(k + q, k, float(a), float(b), 1.0).energy,
            wrong=lambda k, q, a, b: split_noise(k + q, k, float(b), float(a), 1.0).energy,
            tolerance=1e-13,
            kind=Kind.SYMBOLIC,
        ),
        ExactCheck(
            name="mu of the pair from its covariance, with and without the projection",
            cases=_covariance_cases,
            truth=lambda dim, k, first, second, mu, projected: mu,
            statement=_mu_by_covariance,
            wrong=lambda dim, k, first, second, mu, projected: mu * math.sqrt(2),  # each part mu-GDP
            tolerance=1e-9,
        ),
        MeanCheck(
            name="gep.split: noise of the simulated mechanism",
            sampler=_SimulatedEnergy(),
            claimed=lambda: _simulated_split().energy,
            wrong=lambda: (
                _simulated_split().energy + _mechanism.SUBSPACE * _simulated_split().residual_std ** 2
            ),  # no projection
            row_bytes=8 * 3 * _mechanism.DIM,
        ),
        SearchCheck(
            name="correlated noise does no better",
            box={"ratio": Range(0.05, 20, log=True), "log_t": Range(-6, 6), "correlation": Range(-0.99, 0.99)},
            slack=_correlated_slack,
            wrong=_correlated_wrong_slack,
        ),
    ),
    proved=True,
    figure="noise_vs_gradient",
)

# --- gep.joint_clip ---------------------------------------------------------------------------------------------------

_JOINT = tuple(
    (dim, k, clip, share, mu)
    for dim, k in ((12, 3), (270_000, 1000), (7, 6), (10, 5))
    for clip, mu in ((1.0, 1.0), (10.0, 0.5))
    for share in (0.05, 0.2, 0.5, 0.8, 1.0)
)


def _least_joint_energy(dim: int, k: int, clip: float, share: float, mu: float) -> float:
    """The worst pair is looked for on the boundary, a = S cos x, b = S sin x up to b = r S, and then straight down."""
    angle = np.linspace(0.0, math.asin(share), 2001)
    a, b = (clip * np.cos(angle)) ** 2, (clip * np.sin(angle)) ** 2
    return _least_by_search(dim, k, lambda t: float((a + b / t).max()), mu)


def _worst_case(clip: float, share: float, noise: SplitNoise) -> float:
    """Largest a^2/s1^2 + b^2/s2^2 by linear programming over x = a^2, y = b^2."""
    weights = -(np.array([clip / noise.embedding_std, clip / noise.residual_std]) ** 2)
    found = linprog(weights, A_ub=[[1.0, 1.0]], b_ub=[1.0], bounds=[(0.0, None), (0.0, share**2)])
    return math.sqrt(-float(found.fun))


def _ungated(dim: int, k: int, clip: float, share: float, mu: float) -> SplitNoise:
    """Wrong statement: the first case of the formula for every r."""
    return split_noise(dim, k, math.sqrt(1 - share**2) * clip, share * clip, mu)


def _protected_slack(share: float, k: int, radius: float, height: float) -> float:
    """p = 10, S = mu = 1: a pair that occurs is at distance at most mu."""
    return _protected(share, k, radius, height, joint_clip(10, k, 1.0, share, 1.0))


def _ungated_slack(share: float, k: int, radius: float, height: float) -> float:
    """Wrong statement: the same with the noise of the first case for every r."""
    return _protected(share, k, radius, height, _ungated(10, k, 1.0, share, 1.0))


def _protected(share: float, k: int, radius: float, height: float, noise: SplitNoise) -> float:
    b = height * min(share, radius)
    a = math.sqrt(radius**2 - b**2)
    return 1 - (a / noise.embedding_std) ** 2 - (b / noise.residual_std) ** 2


def _never_above_slack(share: float, k: int, dim: int) -> float:
    """Relative to plain perturbation, p S^2 / mu^2."""
    return 1 - joint_clip(dim, min(k, dim), 1.0, share, 1.0).energy / dim


def _apart_slack(share: float, k: int, dim: int) -> float:
    """Wrong statement: the same where embedding and residual are clipped apart, at S and r S."""
    return 1 - split_noise(dim, min(k, dim), 1.0, share, 1.0).energy / dim


_JOINT_CLIP = Claim(
    id="gep.joint_clip",
    title="clipping the gradient first",
    source=Source("gep", "new, on Algorithm 1, lines 10-11"),
    ours=True,
    statement=r"Clip $|G_i| \le S$, then the residual at $rS$, and account over $a^2 + b^2 \le S^2$, $b \le rS$. The least noise "
    r"energy of a $\mu$-GDP release (add/remove) is $(\sqrt{k(1-r^2)} + \sqrt q\,r)^2S^2/\mu^2$ if $r^2 \le q/p$, else $pS^2/\mu^2$: "
    r"never above plain Gaussian perturbation, and below it if and only if $r^2 < q/p$.",
    verdict=Verdict.HOLDS,
    conditions=(
        "B has orthonormal rows and does not depend on the private data",
        "add/remove of one example; under replace-one mu doubles",
        "the bias of clipping the residual at r S is extra (gep.rem1)",
    ),
    calculators=(joint_clip,),
    checks=(
        ExactCheck(
            name="least energy, by search over noises and worst pairs",
            cases=lambda: _JOINT,
            truth=_least_joint_energy,
            statement=lambda *case: joint_clip(*case).energy,
            wrong=lambda dim, k, clip, share, mu: split_noise(dim, k, clip, share * clip, mu).energy,
            tolerance=1e-7,
        ),
        ExactCheck(
            name="worst pair, by linear programming",
            cases=lambda: _JOINT,
            truth=lambda dim, k, clip, share, mu: mu,
            statement=lambda dim, k, clip, share, mu: _worst_case(clip, share, joint_clip(dim, k, clip, share, mu)),
            wrong=lambda dim, k, clip, share, mu: (
                _worst_case(clip, share, _ungated(dim, k, clip, share, mu)) if share < 1 else None
            ),
            tolerance=1e-9,
        ),
        SearchCheck(
            name="no pair that occurs is less protected",
            box={
                "share": Range(0.01, 0.999),
                "k": Range(1, 9, integer=True),
                "radius": Range(0, 1),
                "height": Range(0, 1),
            },
            slack=_protected_slack,
            wrong=_ungated_slack,
        ),
        SearchCheck(
            name="never above plain perturbation",
            box={
                "share": Range(0, 1),
                "k": Range(0, 10**6, integer=True),
                "dim": Range(1, 10**6, integer=True),
            },
            slack=_never_above_slack,
            wrong=_apart_slack,
        ),
    ),
    proved=True,
)

CLAIMS: tuple[Claim, ...] = (_SPLIT, _JOINT_CLIP, *_error.ERROR_CLAIMS)
