import itertools
import math
from fractions import Fraction
from functools import partial
from typing import Literal

import scipy

from dptheory import embedding, privacy
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.gep._mechanism import (
    best_order_ratio,
    delta_of_pair_noise,
    delta_of_sum,
    hockey_stick,
    hockey_stick_of_output,
    hockey_stick_of_pair,
    is_enough,
    is_given,
    least_noise_ratio,
    mu_of_sum,
    printed_noise_ratio,
)

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


def _excess(epsilon: float, method: Method, reference: Reference) -> float:
    return embedding.noise_ratio_excess(epsilon=epsilon, delta=1e-5, method=method, reference=reference)


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


def _beyond_slack(share: float, log_delta: float) -> float:
    """Wrong statement: the same for epsilon up to 4 L."""
    epsilon, delta = -4 * share * log_delta, math.exp(log_delta)
    return printed_noise_ratio(epsilon, delta) / embedding.release_noise_ratio(epsilon=epsilon, delta=delta) - 1


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


row = new_row(
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


@row.equal(
    lambda: itertools.product(("exact", "renyi", "stated"), ("exact", "renyi"), (0.3, 8.0)),
    tolerance=1e-7,
)
def _(method: Method, reference: Reference, epsilon: float) -> Sides:
    """noise of each method over that of each other, from quadratures and the search over orders"""
    ratio = _ratio(method, epsilon) / _ratio(reference, epsilon)
    return _excess(epsilon, method, reference), ratio, 1.001 * ratio


@row.equal(lambda: [(steps, change) for steps in (1, 1000) for change in (1, 2)], tolerance=1e-12)
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


@row.equal(
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


@row.mean(
    partial(hockey_stick_of_pair, clips=_CLIPS, sigmas=_SIGMAS, epsilon=1.0),
    wrong=lambda: privacy.gaussian_delta(_CLIPS[0] / _SIGMAS[0] + _CLIPS[1] / _SIGMAS[1], 1.0),
    row_bytes=400,
)
def _() -> float:
    """pair of noisy sums, k = 2, p = 5"""
    return privacy.gaussian_delta(embedding.joint_mu([s / c for s, c in zip(_SIGMAS, _CLIPS, strict=True)]), 1.0)


@row.mean(
    partial(hockey_stick_of_output, clips=(1.0, 1.0), sigmas=(1.0, 1.5), epsilon=1.0, steps=1),
    wrong=lambda: privacy.gaussian_delta(math.sqrt(1 + 1 / 1.5**2), 1.0),
    row_bytes=400,
)
def _() -> float:
    """noisy gradient alone, k = 2, p = 5"""
    return privacy.gaussian_delta(
        embedding.output_mu(embedding_clip=1.0, residual_clip=1.0, embedding_std=1.0, residual_std=1.5), 1.0
    )


@row.equal(
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


@row.equal(
    lambda: [
        (share, delta)
        for delta, limit in ((1e-5, 3.1345), (1e-10, 2.7847), (0.1, 5.1947))
        for share in (2.0, 0.999 * limit, 1.001 * limit)
    ]
)
def _(share: float, delta: float) -> Sides:
    """up to which epsilon the stated noise is enough, by quadrature"""
    return is_given(share, delta), lambda: is_enough(share, delta), share <= 2.0


@row.equal(lambda: _BUDGETS, tolerance=1e-7)
def _(epsilon: float, delta: float) -> Sides:
    """least noise, by root finding on quadratures"""
    return (
        embedding.release_noise_ratio(epsilon=epsilon, delta=delta),
        lambda: least_noise_ratio(epsilon, delta),
        printed_noise_ratio(epsilon, delta),
    )


@row.equal(lambda: [(what, *budget) for what in ("ratio", "mu", "epsilon") for budget in _BUDGETS], tolerance=1e-9)
def _(what: str, epsilon: float, delta: float) -> Sides:
    """best order, by search"""
    return (
        _renyi_recovered(what, epsilon, delta),
        lambda: _renyi_truth(what, epsilon, delta),
        _renyi_printed(what, epsilon, delta),
    )


@row.equal(lambda: [(epsilon, 1e-5) for epsilon in (0.1, 1.0, 2 * math.log(1e5))], tolerance=1e-7)
def _(epsilon: float, delta: float) -> Sides:
    """stated over least noise, delta = 1e-5"""
    return (
        embedding.noise_ratio_excess(epsilon=epsilon, delta=delta),
        printed_noise_ratio(epsilon, delta) / least_noise_ratio(epsilon, delta),
        printed_noise_ratio(epsilon, delta) / best_order_ratio(epsilon, delta),
    )


@row.inequality({"share": Range(1e-6, 1, log=True), "log_delta": Range(-60, -0.05)}, wrong=_beyond_slack)
def enough_slack(share: float, log_delta: float) -> float:
    """stated noise is enough up to epsilon = 2 L

    The stated noise over the least, for epsilon = share 2 L <= 2 L.
    """
    delta = math.exp(log_delta)
    return embedding.noise_ratio_excess(epsilon=-2 * share * log_delta, delta=delta) - 1


@row.inequality(
    {"share": Range(1e-6, 1, log=True), "log_delta": Range(-60, -0.05)},
    # wrong: at least 1.04
    wrong=lambda share, log_delta: (
        embedding.noise_ratio_excess(epsilon=-2 * share * log_delta, delta=math.exp(log_delta), reference="renyi")
        / 1.04
        - 1
    ),
)
def renyi_range_slack(share: float, log_delta: float) -> float:
    """stated over Renyi noise

    sqrt(2) >= stated over Renyi >= 2 sqrt(2) / (1 + sqrt(3)).
    """
    ratio = embedding.noise_ratio_excess(epsilon=-2 * share * log_delta, delta=math.exp(log_delta), reference="renyi")
    return min(math.sqrt(2) / ratio, ratio * (1 + math.sqrt(3)) / math.sqrt(8)) - 1


@row.inequality(
    {"epsilon": Range(1e-12, 1, log=True), "log_delta": Range(-60, -0.7)},
    # wrong: at most 2.21 times the least, as for epsilon >= 0.1 and delta = 1e-5
    wrong=lambda epsilon, log_delta: (
        2.21 / embedding.noise_ratio_excess(epsilon=epsilon, delta=math.exp(log_delta)) - 1
    ),
)
def unbounded_slack(epsilon: float, log_delta: float) -> float:
    """stated over least noise has no bound

    The stated noise is at least 4 sqrt(2 L) erfinv(delta) / epsilon times the least.
    """
    delta = math.exp(log_delta)
    floor = 4 * math.sqrt(-2 * log_delta) * float(scipy.special.erfinv(delta)) / epsilon
    return embedding.noise_ratio_excess(epsilon=epsilon, delta=delta) / floor - 1


def _falling_fast_slack(share: float, growth: float, log_delta: float) -> float:
    """Wrong statement: in proportion to 1 / epsilon, as it does for small epsilon."""
    return (1 + falling_slack(share, growth, log_delta)) / growth - 1


@row.inequality(
    {"share": Range(1e-6, 1, log=True), "growth": Range(1, 100, log=True), "log_delta": Range(-60, -0.05)},
    wrong=_falling_fast_slack,
)
def falling_slack(share: float, growth: float, log_delta: float) -> float:
    """stated over least noise falls with epsilon

    The stated noise over the least falls from epsilon = share 2 L / growth to share 2 L.
    """
    large, delta = -2 * share * log_delta, math.exp(log_delta)
    return (
        embedding.noise_ratio_excess(epsilon=large / growth, delta=delta)
        / embedding.noise_ratio_excess(epsilon=large, delta=delta)
        - 1
    )


@row.equal(lambda: [(log_inverse,) for log_inverse in (2, 4, 9, 12)], kind=Kind.COUNTEREXAMPLE)
def _(log_inverse: int) -> Sides:
    """S_i = clip where a record is replaced, epsilon = 2 L"""
    return _calculated_replace_one(log_inverse), lambda: _replace_one_keeps_delta(log_inverse), True
