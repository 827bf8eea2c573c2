"""GIP: privacy of the values, and of index and values together."""

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from scipy.special import log_ndtr

from dptheory import privacy
from dptheory.checks import ExactCheck, Kind, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gip import _finite, _joint, _joint_at_scale, _mixture
from dptheory.pruning import SubsetMallows

# --- gip.lem1 ---------------------------------------------------------------------------------------------------------

RATES = ((2, 0.01, 1.0), (2, 1.0, 3.0), (5, 0.3, 2.0), (16, 0.1, 4.0), (3, 0.5, 0.7))


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """log of the exact delta of the Gaussian mechanism with sensitivity / noise = mu."""
    near, far = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return float(near + math.log(-math.expm1(far - near)))


def values_curve(order: float, rate: float, sigma: float) -> float:
    """Renyi curve of one step of DP-SGD at one order."""
    return float(privacy.subsampled_gaussian_rdp([order], rate, sigma)[0])


def _reverse_slack(order: int, rate: float, sigma: float) -> float:
    """Relative gap of D_a(base, mixture) below the formula for D_a(mixture, base)."""
    return 1 - _mixture.divergence(order, rate, sigma, sign=-1) / values_curve(order, rate, sigma)


def _reverse_half_slack(order: int, rate: float, sigma: float) -> float:
    return 0.5 - _mixture.divergence(order, rate, sigma, sign=-1) / values_curve(order, rate, sigma)


def _gaussian_epsilon(mu: float, log_delta: float) -> float:
    orders = [1 + 1.1**i / 100 for i in range(120)]
    return privacy.epsilon_from_rdp(orders, [a * mu * mu / 2 for a in orders], math.exp(log_delta))


def _conversion_slack(mu: float, log_delta: float) -> float:
    return log_delta - gaussian_log_delta(mu, _gaussian_epsilon(mu, log_delta))


def _conversion_short_slack(mu: float, log_delta: float) -> float:
    return log_delta - gaussian_log_delta(mu, 0.9 * _gaussian_epsilon(mu, log_delta))


_LEM1 = Claim(
    id="gip.lem1",
    title="privacy of the values",
    source=Source("gip", "Lemma 1"),
    statement=r"$T$ steps of DP-SGD with sampling ratio $q$ and noise $\sigma$ are $(\epsilon_1(T,q,\sigma), \delta)$-DP, "
    r"by Rényi privacy and its conversion.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "every example enters a batch by its own coin of probability q (Poisson sampling)",
        "neighbours differ by adding or removing one example, not by replacing one",
        "noise sigma C on the sum of the clipped gradients",
    ),
    correction=r"$e^{(a-1)R_a} = \sum_i\binom ai(1-q)^{a-i}q^ie^{i(i-1)/(2\sigma^2)}$ at whole orders bounds both directions, and "
    r"$\epsilon_1 = \min_a TR_a + \log(1-\frac1a) + \frac{\log(1/\delta)-\log a}{a-1}$. "
    r"Replacing an example moves the sum by $2C$: without sampling $R_a$ is four times as large.",
    calculators=(privacy.subsampled_gaussian_rdp, privacy.epsilon_from_rdp, privacy.conversion),
    checks=(
        ExactCheck(
            name="curve of one step by quadrature",
            cases=lambda: RATES,
            truth=_mixture.divergence,
            statement=values_curve,
            wrong=lambda order, rate, sigma: rate * order / (2 * sigma**2),
            tolerance=1e-8,
        ),
        ExactCheck(
            name="replacing an example, no sampling",
            cases=lambda: [(2, 3.0), (7, 5.0)],
            truth=lambda order, sigma: _mixture.divergence(order, 1.0, sigma, shift=2.0),
            statement=lambda order, sigma: values_curve(order, 1.0, sigma / 2),
            wrong=lambda order, sigma: values_curve(order, 1.0, sigma),
            tolerance=1e-9,
            kind=Kind.COUNTEREXAMPLE,
        ),
        SearchCheck(
            name="the other direction is no larger",
            box={
                "order": Range(2, 16, integer=True),
                "rate": Range(0.02, 1),
                "sigma": Range(0.7, 6, log=True),
            },
            slack=_reverse_slack,
            wrong=_reverse_half_slack,
            tolerance=1e-7,
        ),
        SearchCheck(
            name="conversion against the exact Gaussian",
            box={"mu": Range(0.05, 5, log=True), "log_delta": Range(-34, -3)},
            slack=_conversion_slack,
            wrong=_conversion_short_slack,
            tolerance=1e-9,
        ),
        ExactCheck(
            name="conversion, one order",
            cases=lambda: [(2.0, 0.3, 1e-5), (11.0, 2.0, 1e-9)],
            truth=lambda order, rdp, delta: -math.log(_largest_share(order) ** -1 * delta) / (order - 1) + rdp,
            statement=lambda order, rdp, delta: privacy.epsilon_from_rdp([order], [rdp], delta),
            wrong=lambda order, rdp, delta: rdp - math.log(delta) / (order - 1),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="what the conversion adds at an order",
            cases=lambda: [(1.5, 0.3), (2.0, 1e-5), (64.0, 1e-9)],
            truth=lambda order, delta: -math.log(_largest_share(order) ** -1 * delta) / (order - 1),
            statement=lambda order, delta: float(privacy.conversion(np.asarray(order), delta)),
            wrong=lambda order, delta: -math.log(delta) / (order - 1),
            tolerance=1e-12,
        ),
    ),
    proved=True,
)


def _largest_share(order: float) -> float:
    """max over u in (0, 1) of u^(a-1) (1 - u), by evaluation."""
    best = (order - 1) / order
    return max(math.pow(u, order - 1) * (1 - u) for u in (best, 0.999 * best, 1.001 * best))


# --- gip.thm2 ---------------------------------------------------------------------------------------------------------


def _model(dim: int, keep: int, weight: Fraction) -> SubsetMallows:
    return SubsetMallows(dim, keep, -math.log(weight))


def _joint_curve(order: int, rate: float, sigma: float, dim: int, keep: int, weight: Fraction) -> float:
    return float(privacy.joint_rdp([order], rate, sigma, _model(dim, keep, weight))[0])


def _amplified_sum(order: int, rate: float, sigma: float, dim: int, keep: int, weight: Fraction) -> float:
    """The invalid accounting: both parts amplified by the one sample, each on its own, and added."""
    return values_curve(order, rate, sigma) + _joint_curve(order, rate, math.inf, dim, keep, weight)


def _joint_cases() -> Iterator[tuple[int, float, float, int, int, Fraction]]:
    for order, rate, sigma in RATES[:4]:
        for dim, keep in ((2, 1), (4, 2), (5, 3)):
            yield order, rate, sigma, dim, keep, Fraction(4, 5)


def _second_moment(laws: tuple[tuple[Fraction, ...], tuple[Fraction, ...]], rate: Fraction) -> Fraction:
    """E[(mixture / base)^2] under the base, the mixture taking the second law with probability ``rate``."""
    base, other = laws
    return sum((p * ((1 - rate) + rate * o / p) ** 2 for p, o in zip(base, other, strict=True)), Fraction(0))


def _excess(rate: Fraction, weight: Fraction, chance: Fraction) -> Fraction:
    """exp of the joint order-2 divergence minus exp of the sum of the parts; the values are a randomised response."""
    first, second = (True, True, False, False), (False, False, True, True)
    one, two = _finite.mallows(first, weight), _finite.mallows(second, weight)
    index = (tuple(one.values()), tuple(two[out] for out in one))
    values = ((chance, 1 - chance), (1 - chance, chance))
    both = tuple(tuple(p * v for p in laws for v in ends) for laws, ends in zip(index, values, strict=True))
    return _second_moment((both[0], both[1]), rate) - _second_moment(index, rate) * _second_moment(values, rate)


def _stated_excess(rate: Fraction, weight: Fraction, chance: Fraction) -> Fraction:
    one = _finite.mallows((True, True, False, False), weight)
    two = _finite.mallows((False, False, True, True), weight)
    w = sum((two[out] ** 2 / p for out, p in one.items()), Fraction(0))
    v = (1 - chance) ** 2 / chance + chance**2 / (1 - chance)
    return Fraction(rate**2 * (1 - rate**2) * (w - 1) * (v - 1))


_SIZE = (4, 2)


def _bound_slack(order: int, rate: float, sigma: float, theta: float) -> float:
    """Relative gap of the joint curve below eps_2 + the curve of the values."""
    model = SubsetMallows(*_SIZE, theta)
    bound = model.epsilon(4) + values_curve(order, rate, sigma)
    return 1 - float(privacy.joint_rdp([order], rate, sigma, model)[0]) / bound


def _amplified_slack(order: int, rate: float, sigma: float, theta: float) -> float:
    model = SubsetMallows(*_SIZE, theta)
    alone = float(privacy.joint_rdp([order], rate, math.inf, model)[0])
    return 1 - float(privacy.joint_rdp([order], rate, sigma, model)[0]) / (alone + values_curve(order, rate, sigma))


def _reverse_joint(order: int, rate: float, sigma: float, theta: float) -> float:
    """D_a(base, mixture) of index and values for d = 2, where the ratio is e^(+-2 theta)."""
    up = math.exp(2 * theta)
    return _mixture.divergence(order, rate, sigma, index={up: 1 / (1 + up), 1 / up: up / (1 + up)}, sign=-1)


def _reverse_joint_slack(order: int, rate: float, sigma: float, theta: float) -> float:
    bound = float(privacy.joint_rdp([order], rate, sigma, SubsetMallows(2, 1, theta))[0])
    return 1 - _reverse_joint(order, rate, sigma, theta) / bound


def _values_only_slack(order: int, rate: float, sigma: float, theta: float) -> float:
    return 1 - _reverse_joint(order, rate, sigma, theta) / values_curve(order, rate, sigma)


_BOX = {
    "order": Range(2, 16, integer=True),
    "rate": Range(0.02, 1),
    "sigma": Range(0.7, 6, log=True),
    "theta": Range(0.01, 1, log=True),
}


_THM2 = Claim(
    id="gip.thm2",
    title="privacy of index and values",
    source=Source("gip", "Theorem 2"),
    statement=r"Algorithm 2 is $(\epsilon_1 + T\sum_i\epsilon_2^{(i)}, \delta)$-DP, by basic composition of index and values.",
    verdict=Verdict.LOOSE,
    conditions=(
        "those of Lemma 1, with an epsilon_1 from a valid accountant",
        "the index mechanism is epsilon_2-DP for every batch, not after amplification by sampling",
        "the update inside the loop",
    ),
    correction=r"The theorem is true, but basic composition does not prove it at every step: index and values share one sample. "
    r"The ratio of the joint densities lies in $e^{\pm\epsilon_2}((1-q)+qL)$, so $D_a \le \epsilon_2 + R_a$ in both directions. "
    r"Exactly, for the worst pair, $e^{(a-1)D_a} = \sum_i\binom ai(1-q)^{a-i}q^iE[r^i]E[L^i]$. Amplifying the two parts one by "
    r"one and adding is invalid: at $a = 2$ the joint moment is larger by $q^2(1-q^2)(E[r^2]-1)(E[L^2]-1)$. "
    r"Valid under any accountant: sampled values with index sets that are not sampled, composed; so $\epsilon_v(\delta_1) + \epsilon_2(\delta_2)$ at "
    r"$\delta_1+\delta_2$.",
    calculators=(
        privacy.joint_rdp,
        privacy.joint_epsilon,
        privacy.run_epsilon,
        privacy.values_epsilon,
        privacy.theta_for_joint_budget,
    ),
    checks=(
        ExactCheck(
            name="joint curve by enumeration and quadrature",
            cases=_joint_cases,
            truth=lambda order, rate, sigma, dim, keep, weight: _mixture.divergence(
                order, rate, sigma, index=_mixture.ratios(dim, keep, weight)
            ),
            statement=_joint_curve,
            wrong=_amplified_sum,
            tolerance=1e-8,
        ),
        ExactCheck(
            name="separately amplified parts do not add up",
            cases=lambda: [
                (rate, weight, chance)
                for rate in (Fraction(1, 2), Fraction(1, 100))
                for weight in (Fraction(1, 2), Fraction(9, 10))
                for chance in (Fraction(1, 3), Fraction(1, 10))
            ],
            truth=_excess,
            statement=_stated_excess,
            wrong=lambda rate, weight, chance: Fraction(0),
            kind=Kind.COUNTEREXAMPLE,
        ),
        SearchCheck(
            name="joint curve <= eps_2 + curve of the values",
            box=_BOX,
            slack=_bound_slack,
            wrong=_amplified_slack,
        ),
        SearchCheck(
            name="joint curve bounds the other direction",
            box=_BOX,
            slack=_reverse_joint_slack,
            wrong=_values_only_slack,
            tolerance=1e-7,
        ),
        *_joint.CHECKS,
        *_joint_at_scale.JOINT,
    ),
    proved=True,
    figure="theta_accounting",
)

CLAIMS = (_LEM1, _THM2)
