import math

import numpy as np
import scipy

from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.gep._mechanism import least_by_search
from dptheory.embedding import SplitNoise, joint_clip, split_noise

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
    return least_by_search(dim, k, lambda t: float((a + b / t).max()), mu)


def _worst_case(clip: float, share: float, noise: SplitNoise) -> float:
    """Largest a^2/s1^2 + b^2/s2^2 by linear programming over x = a^2, y = b^2."""
    weights = -(np.array([clip / noise.embedding_std, clip / noise.residual_std]) ** 2)
    found = scipy.optimize.linprog(weights, A_ub=[[1.0, 1.0]], b_ub=[1.0], bounds=[(0.0, None), (0.0, share**2)])
    return math.sqrt(-float(found.fun))


def _ungated(dim: int, k: int, clip: float, share: float, mu: float) -> SplitNoise:
    """Wrong statement: the first case of the formula for every r."""
    return split_noise(
        dim=dim, subspace_dim=k, embedding_clip=math.sqrt(1 - share**2) * clip, residual_clip=share * clip, mu=mu
    )


def _protected(share: float, k: int, radius: float, height: float, noise: SplitNoise) -> float:
    b = height * min(share, radius)
    a = math.sqrt(radius**2 - b**2)
    return 1 - (a / noise.embedding_std) ** 2 - (b / noise.residual_std) ** 2


row = new_row(
    id="gep.joint_clip",
    source=Source("gep", "new, on Algorithm 1, lines 10-11"),
    verdict=Verdict.HOLDS,
    calculators=(joint_clip,),
)


@row.equal(lambda: _JOINT, tolerance=1e-7)
def _(dim: int, k: int, clip: float, share: float, mu: float) -> Sides:
    """least energy, by search over noises and worst pairs"""
    return (
        joint_clip(dim=dim, subspace_dim=k, clip_norm=clip, residual_share=share, mu=mu).energy,
        lambda: _least_joint_energy(dim, k, clip, share, mu),
        split_noise(dim=dim, subspace_dim=k, embedding_clip=clip, residual_clip=share * clip, mu=mu).energy,
    )


@row.equal(lambda: _JOINT, tolerance=1e-9)
def _(dim: int, k: int, clip: float, share: float, mu: float) -> Sides:
    """worst pair, by linear programming"""
    return (
        _worst_case(clip, share, joint_clip(dim=dim, subspace_dim=k, clip_norm=clip, residual_share=share, mu=mu)),
        mu,
        _worst_case(clip, share, _ungated(dim, k, clip, share, mu)) if share < 1 else None,
    )


@row.inequality(
    {
        "share": Range(0.01, 0.999),
        "k": Range(1, 9, integer=True),
        "radius": Range(0, 1),
        "height": Range(0, 1),
    },
    # wrong: the same with the noise of the first case for every r
    wrong=lambda share, k, radius, height: _protected(share, k, radius, height, _ungated(10, k, 1.0, share, 1.0)),
)
def protected_slack(share: float, k: int, radius: float, height: float) -> float:
    """no pair that occurs is less protected

    p = 10, S = mu = 1: a pair that occurs is at distance at most mu.
    """
    return _protected(
        share, k, radius, height, joint_clip(dim=10, subspace_dim=k, clip_norm=1.0, residual_share=share, mu=1.0)
    )


@row.inequality(
    {
        "share": Range(0, 1),
        "k": Range(0, 10**6, integer=True),
        "dim": Range(1, 10**6, integer=True),
    },
    # wrong: the same where embedding and residual are clipped apart, at S and r S
    wrong=lambda share, k, dim: (
        1 - split_noise(dim=dim, subspace_dim=min(k, dim), embedding_clip=1.0, residual_clip=share, mu=1.0).energy / dim
    ),
)
def never_above_slack(share: float, k: int, dim: int) -> float:
    """never above plain perturbation

    Relative to plain perturbation, p S^2 / mu^2.
    """
    return 1 - joint_clip(dim=dim, subspace_dim=min(k, dim), clip_norm=1.0, residual_share=share, mu=1.0).energy / dim
