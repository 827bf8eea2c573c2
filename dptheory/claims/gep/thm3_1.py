import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np
import scipy

from dptheory import embedding, privacy
from dptheory._arrays import Array
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _mechanism
from dptheory.claims.gep._mechanism import (
    best_order_ratio,
    delta_of_pair_noise,
    delta_of_sum,
    hockey_stick,
    hockey_stick_of_output,
    hockey_stick_of_pair,
    is_enough,
    is_given,
    least,
    least_noise_ratio,
    mu_of_sum,
    printed_noise_ratio,
)
from dptheory.embedding import SplitNoise, joint_clip, split_noise

Method = Literal["exact", "renyi", "stated"]
Reference = Literal["exact", "renyi"]
_DELTAS = (1e-5, 1e-6)
_BUDGETS = tuple((epsilon, delta) for delta in _DELTAS for epsilon in (0.1, 1.0, 8.0, 2 * math.log(1 / delta)))
_CLIPS, _SIGMAS = (10.0, 2.0), (12.0, 2.0)
"""Clips of the embedding and the residual, and their noises: mu = 1.30 as a pair, 1.29 as a sum."""


def _recovered(what: str, mu: float, epsilon: float) -> float:
    """delta, mu or epsilon, as calculated from the two others; ``delta`` itself is taken by quadrature."""
    delta = hockey_stick(mu, epsilon)
    return {
        "delta": lambda: privacy.gaussian_delta(mu, epsilon),
        "log delta": lambda: math.exp(privacy.gaussian_log_delta(mu, epsilon)),
        "epsilon": lambda: privacy.gaussian_epsilon(mu, delta),
        "mu": lambda: privacy.gaussian_mu(epsilon, delta),
    }[what]()


def _ratio(method: str, epsilon: float) -> float:
    return {"exact": least_noise_ratio, "renyi": best_order_ratio, "stated": printed_noise_ratio}[method](epsilon, 1e-5)


def _renyi_recovered(what: str, epsilon: float, delta: float) -> float:
    if what == "epsilon":  # of the noise that the best order asks for
        return privacy.gaussian_rdp_epsilon(math.sqrt(2) / best_order_ratio(epsilon, delta), delta)
    if what == "mu":
        return privacy.gaussian_rdp_mu(epsilon, delta)
    return embedding.release_noise_ratio(epsilon=epsilon, delta=delta, method="renyi")


def _renyi_truth(what: str, epsilon: float, delta: float) -> float:
    return {"epsilon": epsilon, "mu": math.sqrt(2) / best_order_ratio(epsilon, delta)}.get(
        what, best_order_ratio(epsilon, delta)
    )


def _renyi_printed(what: str, epsilon: float, delta: float) -> float | None:
    """The order 1 + 2 L / epsilon and epsilon <= 2 L taken as 2 L."""
    return printed_noise_ratio(epsilon, delta) if what == "ratio" else None


def _replace_one_keeps_delta(log_inverse: int) -> bool:
    """Whether delta >= 1/2 - e^(mu^2/2) Phi(-mu), mu = 2 sqrt(L), can hold: in rational bounds.

    Mills: e^(mu^2/2) Phi(-mu) < 1 / (mu sqrt(2 pi)) = 1 / (2 sqrt(2 pi L)), with pi > 3.14; and delta = e^-L < 2^-L.
    """
    root = Fraction(math.isqrt(int(2 * 314 * log_inverse * 100)), 100)  # at most sqrt(2 pi L)
    return Fraction(1, 2) - 1 / (2 * root) < Fraction(1, 2**log_inverse)


def _calculated_replace_one(log_inverse: int) -> bool:
    epsilon, delta = 2.0 * log_inverse, math.exp(-log_inverse)
    ratio = embedding.release_noise_ratio(epsilon=epsilon, delta=delta, method="stated")
    return privacy.gaussian_delta(embedding.joint_mu([ratio, ratio], adjacency="replace-one"), epsilon) <= delta


thm3_1 = new_row(
    id="gep.thm3.1",
    source=Source("gep", "Theorem 3.1", (5, 6)),
    verdict=Verdict.LOOSE,
    printed=printed_noise_ratio,
    calculators=(
        embedding.release_noise_ratio,
        embedding.noise_ratio_excess,
        embedding.joint_mu,
        embedding.output_mu,
        embedding.output_noise_ratio,
        privacy.gaussian_delta,
        privacy.gaussian_log_delta,
        privacy.gaussian_epsilon,
        privacy.gaussian_mu,
        privacy.gaussian_rdp_epsilon,
        privacy.gaussian_rdp_mu,
    ),
    figure="sigma_ratio",
)


@thm3_1.equal(
    lambda: itertools.product(("exact", "renyi", "stated"), ("exact", "renyi"), (0.3, 8.0)),
    tolerance=1e-7,
)
def _(method: Method, reference: Reference, epsilon: float) -> Sides:
    """noise of each method over that of each other, from quadratures and the search over orders"""
    ratio = _ratio(method, epsilon) / _ratio(reference, epsilon)
    stated = embedding.noise_ratio_excess(epsilon=epsilon, delta=1e-5, method=method, reference=reference)
    return stated, ratio, 1.001 * ratio


@thm3_1.equal(lambda: [(steps, change) for steps in (1, 1000) for change in (1, 2)], tolerance=1e-12)
def _(steps: int, change: int) -> Sides:
    """mu of the sums of many steps, either adjacency, by their covariance"""
    return (
        embedding.output_mu(
            embedding_clip=1.0,
            residual_clip=0.7,
            embedding_std=9.0,
            residual_std=3.0,
            steps=steps,
            adjacency="add-remove" if change == 1 else "replace-one",
        ),
        change * math.sqrt(steps) * mu_of_sum(1.0, 0.7, 9.0, 3.0),
        change * math.sqrt(steps) * math.hypot(1 / 9, 0.7 / 3),  # of the pair
    )


@thm3_1.equal(
    lambda: [
        (what, mu, epsilon)
        for what in ("delta", "log delta", "epsilon", "mu")
        for mu, epsilon in ((1e-3, 2e-3), (0.3, 1.0), (1.0, 0.1), (1.0, 6.0), (3.0, 8.0), (10.0, 45.0))
    ],
    tolerance=1e-8,
)
def _(what: str, mu: float, epsilon: float) -> Sides:
    """exact trade-off, by quadrature"""
    tail = math.exp(-((epsilon - mu**2 / 2) ** 2) / (2 * mu**2))
    return (
        _recovered(what, mu, epsilon),
        lambda: {"epsilon": epsilon, "mu": mu}.get(what, hockey_stick(mu, epsilon)),
        tail if what == "delta" else None,
    )


@thm3_1.mean(
    partial(hockey_stick_of_pair, clips=_CLIPS, sigmas=_SIGMAS, epsilon=1.0),
    wrong=lambda: privacy.gaussian_delta(_CLIPS[0] / _SIGMAS[0] + _CLIPS[1] / _SIGMAS[1], 1.0),
    row_bytes=400,
)
def _() -> float:
    """pair of noisy sums, k = 2, p = 5"""
    return privacy.gaussian_delta(embedding.joint_mu([s / c for s, c in zip(_SIGMAS, _CLIPS, strict=True)]), 1.0)


@thm3_1.mean(
    partial(hockey_stick_of_output, clips=(1.0, 1.0), sigmas=(1.0, 1.5), epsilon=1.0, steps=1),
    wrong=lambda: privacy.gaussian_delta(math.sqrt(1 + 1 / 1.5**2), 1.0),
    row_bytes=400,
)
def _() -> float:
    """noisy gradient alone, k = 2, p = 5"""
    return privacy.gaussian_delta(
        embedding.output_mu(embedding_clip=1.0, residual_clip=1.0, embedding_std=1.0, residual_std=1.5), 1.0
    )


@thm3_1.equal(
    lambda: [
        (clip, residual_clip, epsilon, delta, steps, change)
        for clip, residual_clip in ((1.0, 0.2), (1.0, 1.0), (0.3, 5.0))
        for epsilon, delta in ((0.5, 1e-5), (4.0, 1e-6))
        for steps, change in ((1, 1.0), (1000, 1.0), (1000, 2.0))
    ],
    tolerance=1e-6,
)
def _(clip: float, residual_clip: float, epsilon: float, delta: float, steps: int, change: float) -> Sides:
    """least noise of the sum alone keeps delta with equality, by its covariance and quadrature"""
    case = clip, residual_clip, epsilon, delta, steps, change
    return delta_of_sum(*case), delta, delta_of_pair_noise(*case)


@thm3_1.equal(
    lambda: [
        (share, delta)
        for delta, limit in ((1e-5, 3.1345), (1e-10, 2.7847), (0.1, 5.1947))
        for share in (2.0, 0.999 * limit, 1.001 * limit)
    ]
)
def _(share: float, delta: float) -> Sides:
    """up to which epsilon the stated noise is enough, by quadrature"""
    return is_given(share, delta), lambda: is_enough(share, delta), share <= 2.0


@thm3_1.equal(lambda: _BUDGETS, tolerance=1e-7)
def _(epsilon: float, delta: float) -> Sides:
    """least noise, by root finding on quadratures"""
    return (
        embedding.release_noise_ratio(epsilon=epsilon, delta=delta),
        lambda: least_noise_ratio(epsilon, delta),
        printed_noise_ratio(epsilon, delta),
    )


@thm3_1.equal(lambda: [(what, *budget) for what in ("ratio", "mu", "epsilon") for budget in _BUDGETS], tolerance=1e-9)
def _(what: str, epsilon: float, delta: float) -> Sides:
    """best order, by search"""
    return (
        _renyi_recovered(what, epsilon, delta),
        lambda: _renyi_truth(what, epsilon, delta),
        _renyi_printed(what, epsilon, delta),
    )


@thm3_1.equal(lambda: [(epsilon, 1e-5) for epsilon in (0.1, 1.0, 2 * math.log(1e5))], tolerance=1e-7)
def _(epsilon: float, delta: float) -> Sides:
    """stated over least noise, delta = 1e-5"""
    return (
        embedding.noise_ratio_excess(epsilon=epsilon, delta=delta),
        printed_noise_ratio(epsilon, delta) / least_noise_ratio(epsilon, delta),
        printed_noise_ratio(epsilon, delta) / best_order_ratio(epsilon, delta),
    )


_STATED = {"share": Range(1e-6, 1, log=True), "log_delta": Range(-60, -0.05)}


def _stated_over(reference: Reference, share: float, log_delta: float) -> float:
    """The stated noise over another, for epsilon = share 2 L."""
    return embedding.noise_ratio_excess(epsilon=-2 * share * log_delta, delta=math.exp(log_delta), reference=reference)


def _fall(share: float, growth: float, log_delta: float) -> float:
    """How many times what it is at epsilon = share 2 L it is at epsilon / growth."""
    return _stated_over("exact", share / growth, log_delta) / _stated_over("exact", share, log_delta)


def _enough(share: float, log_delta: float) -> float:
    """The printed noise over the least, less 1, for epsilon = share 2 L of any size."""
    epsilon, delta = -2 * share * log_delta, math.exp(log_delta)
    return printed_noise_ratio(epsilon, delta) / embedding.release_noise_ratio(epsilon=epsilon, delta=delta) - 1


@thm3_1.inequality(
    _STATED,
    # wrong: the same for epsilon up to 4 L
    wrong=lambda share, log_delta: _enough(2 * share, log_delta),
)
def enough_slack(share: float, log_delta: float) -> float:
    """stated noise is enough up to epsilon = 2 L"""
    return _stated_over("exact", share, log_delta) - 1


@thm3_1.inequality(
    _STATED,
    # wrong: at least 1.04
    wrong=lambda share, log_delta: _stated_over("renyi", share, log_delta) / 1.04 - 1,
)
def renyi_range_slack(share: float, log_delta: float) -> float:
    """stated over Renyi noise"""
    ratio = _stated_over("renyi", share, log_delta)
    return min(math.sqrt(2) / ratio, ratio * (1 + math.sqrt(3)) / math.sqrt(8)) - 1


@thm3_1.inequality(
    {"epsilon": Range(1e-12, 1, log=True), "log_delta": Range(-60, -0.7)},
    # wrong: at most 2.21 times the least, as for epsilon >= 0.1 and delta = 1e-5
    wrong=lambda epsilon, log_delta: (
        2.21 / embedding.noise_ratio_excess(epsilon=epsilon, delta=math.exp(log_delta)) - 1
    ),
)
def unbounded_slack(epsilon: float, log_delta: float) -> float:
    """stated over least noise has no bound"""
    delta = math.exp(log_delta)
    floor = 4 * math.sqrt(-2 * log_delta) * float(scipy.special.erfinv(delta)) / epsilon
    return embedding.noise_ratio_excess(epsilon=epsilon, delta=delta) / floor - 1


@thm3_1.inequality(
    {"share": Range(1e-6, 1, log=True), "growth": Range(1, 100, log=True), "log_delta": Range(-60, -0.05)},
    # wrong: in proportion to 1 / epsilon, as it does for small epsilon
    wrong=lambda share, growth, log_delta: _fall(share, growth, log_delta) / growth - 1,
)
def falling_slack(share: float, growth: float, log_delta: float) -> float:
    """stated over least noise falls with epsilon"""
    return _fall(share, growth, log_delta) - 1


@thm3_1.equal(lambda: [(log_inverse,) for log_inverse in (2, 4, 9, 12)], kind=Kind.COUNTEREXAMPLE)
def _(log_inverse: int) -> Sides:
    """S_i = clip where a record is replaced, epsilon = 2 L"""
    return _calculated_replace_one(log_inverse), lambda: _replace_one_keeps_delta(log_inverse), True


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
    return least(lambda t: (k + (dim - k) * t) * (first**2 + second**2 / t))[1] / mu**2


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


def _simulated_energy(rng: np.random.Generator, count: int) -> Array:
    """Squared norm of z1 B + P z2."""
    stds = _simulated_split()
    noise = _mechanism.noise(rng, count, stds.embedding_std, stds.residual_std, True)
    return np.asarray(np.square(noise).sum(axis=1))


def _best_stds(dim: int, k: int, first: float, second: float, mu: float) -> tuple[float, float]:
    """s1 and s2 where (k + q t)(S1^2 + S2^2 / t) is least over t = s2^2 / s1^2."""
    t, _ = least(lambda t: (k + (dim - k) * t) * (first**2 + second**2 / t))
    std = math.sqrt(first**2 + second**2 / t) / mu
    return std, math.sqrt(t) * std


split = new_row(
    id="gep.split",
    source=Source("gep", "new, on Theorem 3.1"),
    verdict=Verdict.HOLDS,
    calculators=(split_noise,),
    figure="noise_vs_gradient",
)


@split.equal(
    lambda: [(what, *case) for what in ("embedding_std", "residual_std") for case in _LARGE_SPLITS], tolerance=1e-6
)
def _(what: str, dim: int, k: int, first: float, second: float, mu: float) -> Sides:
    """the stds: at the best ratio, and mu-GDP together"""
    return (
        getattr(split_noise(dim=dim, subspace_dim=k, embedding_clip=first, residual_clip=second, mu=mu), what),
        _best_stds(dim, k, first, second, mu)[what == "residual_std"],
        math.sqrt(2) * (second if what == "residual_std" else first) / mu,
    )


@split.equal(lambda: _SPLITS, tolerance=1e-10)
def _(dim: int, k: int, first: float, second: float, mu: float) -> Sides:
    """least energy, by search over the ratio of the noises"""
    case = dim, k, first, second, mu
    return (
        split_noise(dim=dim, subspace_dim=k, embedding_clip=first, residual_clip=second, mu=mu).energy,
        lambda: _least_energy(*case),
        equal_ratio_energy(*case),
    )


@split.equal(
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


@split.equal(_covariance_cases, tolerance=1e-9)
def _(dim: int, k: int, first: float, second: float, mu: float, projected: bool) -> Sides:
    """mu of the pair from its covariance, with and without the projection"""
    return _mu_by_covariance(dim, k, first, second, mu, projected), mu, mu * math.sqrt(2)  # each part mu-GDP


@split.mean(_simulated_energy, wrong=_unprojected_energy, row_bytes=8 * 3 * _mechanism.DIM)
def _() -> float:
    """gep.split: noise of the simulated mechanism"""
    return _simulated_split().energy


def _correlated_energy(ratio: float, log_t: float, correlation: float) -> float:
    t = math.exp(log_t)
    covariance = np.array([[1.0, correlation * math.sqrt(t)], [correlation * math.sqrt(t), t]])
    worst = max(float(d @ np.linalg.solve(covariance, d)) for d in (np.array([1.0, ratio]), np.array([1.0, -ratio])))
    return (1 + t) * worst


@split.inequality(
    {"ratio": Range(0.05, 20, log=True), "log_t": Range(-6, 6), "correlation": Range(-0.99, 0.99)},
    # wrong: nor with less than the equal ratio of noises has
    wrong=lambda ratio, log_t, correlation: _correlated_energy(ratio, log_t, correlation) / (2 * (1 + ratio**2)) - 1,
)
def correlated_slack(ratio: float, log_t: float, correlation: float) -> float:
    """correlated noise does no better

    p = 2, k = 1, S1 = 1: no Gaussian noise, correlated or not, does with less energy than the best split.
    """
    best = split_noise(dim=2, subspace_dim=1, embedding_clip=1.0, residual_clip=ratio, mu=1.0)
    return _correlated_energy(ratio, log_t, correlation) / best.energy - 1


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
    return least(lambda t: (k + (dim - k) * t) * float((a + b / t).max()))[1] / mu**2


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


joint_clip_row = new_row(
    id="gep.joint_clip",
    source=Source("gep", "new, on Algorithm 1, lines 10-11"),
    verdict=Verdict.HOLDS,
    calculators=(joint_clip,),
)


@joint_clip_row.equal(lambda: _JOINT, tolerance=1e-7)
def _(dim: int, k: int, clip: float, share: float, mu: float) -> Sides:
    """least energy, by search over noises and worst pairs"""
    return (
        joint_clip(dim=dim, subspace_dim=k, clip_norm=clip, residual_share=share, mu=mu).energy,
        lambda: _least_joint_energy(dim, k, clip, share, mu),
        split_noise(dim=dim, subspace_dim=k, embedding_clip=clip, residual_clip=share * clip, mu=mu).energy,
    )


@joint_clip_row.equal(lambda: _JOINT, tolerance=1e-9)
def _(dim: int, k: int, clip: float, share: float, mu: float) -> Sides:
    """worst pair, by linear programming"""
    return (
        _worst_case(clip, share, joint_clip(dim=dim, subspace_dim=k, clip_norm=clip, residual_share=share, mu=mu)),
        mu,
        _worst_case(clip, share, _ungated(dim, k, clip, share, mu)) if share < 1 else None,
    )


@joint_clip_row.inequality(
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


@joint_clip_row.inequality(
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
    """never above plain perturbation"""
    return 1 - joint_clip(dim=dim, subspace_dim=min(k, dim), clip_norm=1.0, residual_share=share, mu=1.0).energy / dim
