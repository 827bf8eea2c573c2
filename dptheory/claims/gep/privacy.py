"""GEP: privacy of the two releases, as printed and exactly."""

import math
from fractions import Fraction
from functools import partial

from scipy.special import erfinv

from dptheory import embedding, privacy
from dptheory.checks import ExactCheck, Kind, MeanCheck, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gep import _risk_at_scale
from dptheory.claims.gep._neighbours import (
    best_order_ratio,
    hockey_stick,
    hockey_stick_of_output,
    hockey_stick_of_pair,
    least_noise_ratio,
    most_concatenated,
    normalised_move,
)
from dptheory.claims.gep._noise_ratios import (
    delta_of_pair_noise,
    delta_of_sum,
    is_enough,
    is_given,
    printed_noise_ratio,
    replaced_noise,
)
from dptheory.claims.gep._renyi import RDP
from dptheory.claims.gep._sampling import SAMPLING

# --- gep.thm3.1 -------------------------------------------------------------------------------------------------------

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


def _renyi_recovered(what: str, epsilon: float, delta: float) -> float:
    if what == "epsilon":  # of the noise that the best order asks for
        return privacy.gaussian_rdp_epsilon(math.sqrt(2) / best_order_ratio(epsilon, delta), delta)
    if what == "mu":
        return privacy.gaussian_rdp_mu(epsilon, delta)
    return embedding.release_noise_ratio(epsilon, delta, method="renyi")


def _renyi_truth(what: str, epsilon: float, delta: float) -> float:
    return {"epsilon": epsilon, "mu": math.sqrt(2) / best_order_ratio(epsilon, delta)}.get(
        what, best_order_ratio(epsilon, delta)
    )


def _renyi_printed(what: str, epsilon: float, delta: float) -> float | None:
    """The order 1 + 2 L / epsilon and epsilon <= 2 L taken as 2 L."""
    return printed_noise_ratio(epsilon, delta) if what == "ratio" else None


def _enough_slack(share: float, log_delta: float) -> float:
    """The stated noise over the least, for epsilon = share 2 L <= 2 L."""
    delta = math.exp(log_delta)
    return embedding.noise_ratio_excess(-2 * share * log_delta, delta) - 1


def _beyond_slack(share: float, log_delta: float) -> float:
    """Wrong statement: the same for epsilon up to 4 L."""
    epsilon, delta = -4 * share * log_delta, math.exp(log_delta)
    return printed_noise_ratio(epsilon, delta) / embedding.release_noise_ratio(epsilon, delta) - 1


def _renyi_range_slack(share: float, log_delta: float) -> float:
    """sqrt(2) >= stated over Renyi >= 2 sqrt(2) / (1 + sqrt(3))."""
    ratio = embedding.noise_ratio_excess(-2 * share * log_delta, math.exp(log_delta), reference="renyi")
    return min(math.sqrt(2) / ratio, ratio * (1 + math.sqrt(3)) / math.sqrt(8)) - 1


def _narrow_renyi_slack(share: float, log_delta: float) -> float:
    """Wrong statement: at least 1.04."""
    return embedding.noise_ratio_excess(-2 * share * log_delta, math.exp(log_delta), reference="renyi") / 1.04 - 1


def _unbounded_slack(epsilon: float, log_delta: float) -> float:
    """The stated noise is at least 4 sqrt(2 L) erfinv(delta) / epsilon times the least."""
    delta = math.exp(log_delta)
    floor = 4 * math.sqrt(-2 * log_delta) * float(erfinv(delta)) / epsilon
    return embedding.noise_ratio_excess(epsilon, delta) / floor - 1


def _bounded_slack(epsilon: float, log_delta: float) -> float:
    """Wrong statement: at most 2.21 times the least, as for epsilon >= 0.1 and delta = 1e-5."""
    return 2.21 / embedding.noise_ratio_excess(epsilon, math.exp(log_delta)) - 1


def _falling_slack(share: float, growth: float, log_delta: float) -> float:
    """The stated noise over the least falls from epsilon = share 2 L / growth to share 2 L."""
    large, delta = -2 * share * log_delta, math.exp(log_delta)
    return embedding.noise_ratio_excess(large / growth, delta) / embedding.noise_ratio_excess(large, delta) - 1


def _falling_fast_slack(share: float, growth: float, log_delta: float) -> float:
    """Wrong statement: in proportion to 1 / epsilon, as it does for small epsilon."""
    return (1 + _falling_slack(share, growth, log_delta)) / growth - 1


def _replace_one_keeps_delta(log_inverse: int) -> bool:
    """Whether delta >= 1/2 - e^(mu^2/2) Phi(-mu), mu = 2 sqrt(L), can hold: in rational bounds.

    Mills: e^(mu^2/2) Phi(-mu) < 1 / (mu sqrt(2 pi)) = 1 / (2 sqrt(2 pi L)), with pi > 3.14; and delta = e^-L < 2^-L.
    """
    root = Fraction(math.isqrt(int(2 * 314 * log_inverse * 100)), 100)  # at most sqrt(2 pi L)
    return Fraction(1, 2) - 1 / (2 * root) < Fraction(1, 2**log_inverse)


def _calculated_replace_one(log_inverse: int) -> bool:
    epsilon, delta = 2.0 * log_inverse, math.exp(-log_inverse)
    ratio = embedding.release_noise_ratio(epsilon, delta, method="stated")
    return privacy.gaussian_delta(embedding.joint_mu([ratio, ratio], adjacency="replace-one"), epsilon) <= delta


_THM31 = Claim(
    id="gep.thm3.1",
    title="noise of the two releases",
    source=Source("gep", "Theorem 3.1", (5, 6)),
    statement=r"With $L = \log(1/\delta)$ and $\epsilon\le2L$, Algorithm 1 is $(\epsilon,\delta)$-DP if $\sigma_i\ge2S_i\sqrt{2L}/\epsilon$, $i = 1,2$.",
    verdict=Verdict.LOOSE,
    conditions=(
        "epsilon <= 2 L",
        "neighbours differ by one record added or removed, as its proof has it; where a record is replaced, S_i has to be twice the clip",
        "the number of records, by which the sums are divided, is public",
    ),
    correction=r"At the stated noise the pair of releases is exactly $\mu$-GDP with $\mu = \epsilon/(2\sqrt L)$. The least noise is "
    r"$\sigma_i = \sqrt2S_i/\mu(\epsilon,\delta)$ with the exact Gaussian trade-off; RDP at its best order gives $S_i(\sqrt{L+\epsilon}+\sqrt L)/\epsilon$. "
    r"The stated noise is $2\sqrt2/(1+\sqrt{1+\epsilon/L})$ times the latter (1.414 to 1.035) and, at $\delta = 10^{-5}$, 2.21 to 1.13 times the least for "
    r"$\epsilon$ from 0.1 to $2L$; without bound as $\epsilon\to0$. (The paper's experiments take their noise from a numerical accountant instead, section 4.) The sum $\tilde v$ alone is $\mu$-GDP with "
    r"$\mu^2 = S_1^2/(\sigma_1^2+\sigma_2^2)+S_2^2/\sigma_2^2$, which is less.",
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
    checks=(
        *_risk_at_scale.EXCESS,
        ExactCheck(
            name="exact trade-off, by quadrature",
            cases=lambda: [
                (what, mu, epsilon)
                for what in ("delta", "log delta", "epsilon", "mu")
                for mu, epsilon in ((1e-3, 2e-3), (0.3, 1.0), (1.0, 0.1), (1.0, 6.0), (3.0, 8.0), (10.0, 45.0))
            ],
            truth=lambda what, mu, epsilon: {"epsilon": epsilon, "mu": mu}.get(what, hockey_stick(mu, epsilon)),
            statement=_recovered,
            wrong=lambda what, mu, epsilon: (
                math.exp(-((epsilon - mu**2 / 2) ** 2) / (2 * mu**2)) if what == "delta" else None
            ),
            tolerance=1e-8,
        ),
        MeanCheck(
            name="pair of noisy sums, k = 2, p = 5",
            sampler=partial(hockey_stick_of_pair, clips=_CLIPS, sigmas=_SIGMAS, epsilon=1.0),
            claimed=lambda: privacy.gaussian_delta(
                embedding.joint_mu([s / c for s, c in zip(_SIGMAS, _CLIPS, strict=True)]), 1.0
            ),
            wrong=lambda: privacy.gaussian_delta(_CLIPS[0] / _SIGMAS[0] + _CLIPS[1] / _SIGMAS[1], 1.0),
            row_bytes=400,
        ),
        MeanCheck(
            name="noisy gradient alone, k = 2, p = 5",
            sampler=partial(hockey_stick_of_output, clips=(1.0, 1.0), sigmas=(1.0, 1.5), epsilon=1.0, steps=1),
            claimed=lambda: privacy.gaussian_delta(embedding.output_mu(1.0, 1.0, 1.0, 1.5), 1.0),
            wrong=lambda: privacy.gaussian_delta(math.sqrt(1 + 1 / 1.5**2), 1.0),
            row_bytes=400,
        ),
        ExactCheck(
            name="least noise of the sum alone keeps delta with equality, by its covariance and quadrature",
            cases=lambda: [
                (clip, residual_clip, epsilon, delta, steps, change)
                for clip, residual_clip in ((1.0, 0.2), (1.0, 1.0), (0.3, 5.0))
                for epsilon, delta in ((0.5, 1e-5), (4.0, 1e-6))
                for steps, change in ((1, 1.0), (1000, 1.0), (1000, 2.0))
            ],
            truth=lambda *case: case[3],
            statement=delta_of_sum,
            wrong=delta_of_pair_noise,
            tolerance=1e-6,
        ),
        ExactCheck(
            name="up to which epsilon the stated noise is enough, by quadrature",
            cases=lambda: [
                (share, delta)
                for delta, limit in ((1e-5, 3.1345), (1e-10, 2.7847), (0.1, 5.1947))
                for share in (2.0, 0.999 * limit, 1.001 * limit)
            ],
            truth=is_enough,
            statement=is_given,
            wrong=lambda share, delta: share <= 2.0,
        ),
        ExactCheck(
            name="least noise, by root finding on quadratures",
            cases=lambda: _BUDGETS,
            truth=least_noise_ratio,
            statement=lambda *budget: embedding.release_noise_ratio(*budget),
            wrong=printed_noise_ratio,
            tolerance=1e-7,
        ),
        ExactCheck(
            name="best order, by search",
            cases=lambda: [(what, *budget) for what in ("ratio", "mu", "epsilon") for budget in _BUDGETS],
            truth=_renyi_truth,
            statement=_renyi_recovered,
            wrong=_renyi_printed,
            tolerance=1e-9,
        ),
        ExactCheck(
            name="stated over least noise, delta = 1e-5",
            cases=lambda: [(epsilon, 1e-5) for epsilon in (0.1, 1.0, 2 * math.log(1e5))],
            truth=lambda epsilon, delta: printed_noise_ratio(epsilon, delta) / least_noise_ratio(epsilon, delta),
            statement=lambda epsilon, delta: embedding.noise_ratio_excess(epsilon, delta),
            wrong=lambda epsilon, delta: printed_noise_ratio(epsilon, delta) / best_order_ratio(epsilon, delta),
            tolerance=1e-7,
        ),
        SearchCheck(
            name="stated noise is enough up to epsilon = 2 L",
            box={"share": Range(1e-6, 1, log=True), "log_delta": Range(-60, -0.05)},
            slack=_enough_slack,
            wrong=_beyond_slack,
        ),
        SearchCheck(
            name="stated over Renyi noise",
            box={"share": Range(1e-6, 1, log=True), "log_delta": Range(-60, -0.05)},
            slack=_renyi_range_slack,
            wrong=_narrow_renyi_slack,
        ),
        SearchCheck(
            name="stated over least noise has no bound",
            box={"epsilon": Range(1e-12, 1, log=True), "log_delta": Range(-60, -0.7)},
            slack=_unbounded_slack,
            wrong=_bounded_slack,
        ),
        SearchCheck(
            name="stated over least noise falls with epsilon",
            box={"share": Range(1e-6, 1, log=True), "growth": Range(1, 100, log=True), "log_delta": Range(-60, -0.05)},
            slack=_falling_slack,
            wrong=_falling_fast_slack,
        ),
        ExactCheck(
            name="S_i = clip where a record is replaced, epsilon = 2 L",
            cases=lambda: [(log_inverse,) for log_inverse in (2, 4, 9, 12)],
            truth=_replace_one_keeps_delta,
            statement=_calculated_replace_one,
            wrong=lambda log_inverse: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
    figure="sigma_ratio",
)

# --- gep.thm3.2 -------------------------------------------------------------------------------------------------------

_RUN_SIGMAS = (1.0, 1.5)


_THM32 = Claim(
    id="gep.thm3.2",
    title="noise of T steps",
    source=Source("gep", "Theorem 3.2"),
    statement=r"For $\epsilon<2L$, Algorithm 2 is $(\epsilon,\delta)$-DP if $\sigma\ge2\sqrt{2TL}/\epsilon$, where $\sigma = \sigma_1/S_1 = \sigma_2/S_2$.",
    verdict=Verdict.LOOSE,
    conditions=(
        "epsilon <= 2 L",
        "sigma is the ratio of noise to sensitivity of either release",
        "neighbours differ by one record added or removed; every step uses all records",
        "anchor gradients, clips and learning rates do not depend on private records, other than through what was released",
    ),
    correction=r"The sequence of all releases is exactly $\sqrt{2T}/\sigma$-GDP, so the least noise is $\sigma = \sqrt{2T}/\mu(\epsilon,\delta)$. The stated "
    r"noise is the same multiple of it for every $T$, that of Theorem 3.1.",
    printed=printed_noise_ratio,
    calculators=(
        embedding.release_noise_ratio,
        embedding.noise_ratio_excess,
        embedding.joint_mu,
        embedding.output_mu,
    ),
    checks=(
        ExactCheck(
            name="least noise of T steps, by root finding on quadratures",
            cases=lambda: [(epsilon, 1e-5, steps) for epsilon in (0.5, 2.0) for steps in (1, 100, 10_000)],
            truth=least_noise_ratio,
            statement=lambda *budget: embedding.release_noise_ratio(*budget),
            wrong=printed_noise_ratio,
            tolerance=1e-7,
        ),
        ExactCheck(
            name="same excess for every T, by root finding on quadratures",
            cases=lambda: [(epsilon, steps) for epsilon in (0.3, 1.0, 8.0) for steps in (1, 7, 10**6)],
            truth=lambda epsilon, steps: (
                printed_noise_ratio(epsilon, 1e-5, steps) / least_noise_ratio(epsilon, 1e-5, steps)
            ),
            statement=lambda epsilon, steps: embedding.noise_ratio_excess(epsilon, 1e-5),
            wrong=lambda epsilon, steps: embedding.noise_ratio_excess(epsilon, 1e-5) * math.sqrt(steps),
            tolerance=1e-7,
        ),
        ExactCheck(
            name="T steps where a record is replaced: twice the noise, for each method",
            cases=lambda: [
                (method, epsilon, steps)
                for method in ("exact", "renyi", "stated")
                for epsilon in (0.3, 8.0)
                for steps in (1, 7, 10**6)
            ],
            truth=replaced_noise,
            statement=lambda method, epsilon, steps: embedding.release_noise_ratio(
                epsilon, 1e-5, steps, "replace-one", method
            ),
            wrong=lambda method, epsilon, steps: replaced_noise(method, epsilon, steps) / 2,
            tolerance=1e-7,
        ),
        MeanCheck(
            name="last iterate alone, linear loss, T = 3",
            sampler=partial(hockey_stick_of_output, clips=(1.0, 1.0), sigmas=_RUN_SIGMAS, epsilon=1.0, steps=3),
            claimed=lambda: privacy.gaussian_delta(embedding.output_mu(1.0, 1.0, *_RUN_SIGMAS, steps=3), 1.0),
            wrong=lambda: privacy.gaussian_delta(embedding.output_mu(1.0, 1.0, *_RUN_SIGMAS, steps=1), 1.0),
            row_bytes=600,
        ),
        ExactCheck(
            name="mu of T steps in squares",
            cases=lambda: [(first, second, steps) for first in (1, 2) for second in (2, 5) for steps in (1, 3, 12)],
            truth=lambda first, second, steps: float(
                sum(Fraction(1, first**2) + Fraction(1, second**2) for _ in range(steps))
            ),
            statement=lambda first, second, steps: embedding.joint_mu([first, second], steps) ** 2,
            wrong=lambda first, second, steps: (steps * (1 / first + 1 / second)) ** 2,
            tolerance=1e-12,
        ),
    ),
    proved=True,
)

# --- gep.concat -------------------------------------------------------------------------------------------------------


def _within_slack(**point: float) -> float:
    return math.sqrt(2) - normalised_move(**point)


def _smaller_slack(**point: float) -> float:
    """Wrong statement: the longer of the two parts alone."""
    return 1 - normalised_move(**point)


_CONCAT = Claim(
    id="gep.concat",
    title="one release of sensitivity sqrt 2",
    source=Source("gep", "section 4, implementation details"),
    statement=r"Embeddings over $S_1$ and residuals over $S_2$, concatenated and summed, have sensitivity $\sqrt2$; one Gaussian release of the sum, scaled back by $S_1$ and "
    r"$S_2$, is GEP's pair of releases.",
    verdict=Verdict.HOLDS,
    conditions=(
        "neighbours differ by one record added or removed; 2 sqrt 2 where one is replaced",
        "exact: attained by a gradient whose embedding and residual are both clipped, which exists for 0 < k < p",
    ),
    calculators=(embedding.joint_mu,),
    checks=(
        ExactCheck(
            name="squared sensitivity, by enumeration in fractions",
            cases=lambda: [("add-remove",), ("replace-one",)],
            truth=most_concatenated,
            statement=lambda adjacency: round(embedding.joint_mu([1.0, 1.0], adjacency=adjacency) ** 2, 12),
            wrong=lambda adjacency: Fraction(1 if adjacency == "add-remove" else 4),
            tolerance=1e-12,
        ),
        SearchCheck(
            name="no gradient moves the sum further",
            box={name: Range(-20, 20) for name in ("w1", "w2", "r1", "r2")}
            | {name: Range(0.01, 20, log=True) for name in ("clip", "residual_clip")},
            slack=_within_slack,
            wrong=_smaller_slack,
        ),
    ),
    proved=True,
)

CLAIMS = (_THM31, _THM32, RDP, _CONCAT, SAMPLING)
