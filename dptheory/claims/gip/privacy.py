"""GIP: privacy of the values, of index and values together, and of random-k pruning."""

import math
from collections.abc import Iterator
from fractions import Fraction

from scipy.special import log_ndtr

from dptheory import joint_privacy, renyi
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gip import _finite, _mixture
from dptheory.mallows import SubsetMallows
from dptheory.montecarlo import ExactCheck, Kind, Range, SearchCheck

# --- gip.lem1 ---------------------------------------------------------------------------------------------------------

_RATES = ((2, 0.01, 1.0), (2, 1.0, 3.0), (5, 0.3, 2.0), (16, 0.1, 4.0), (3, 0.5, 0.7))


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """log of the exact delta of the Gaussian mechanism with sensitivity / noise = mu."""
    near, far = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return float(near + math.log(-math.expm1(far - near)))


def _curve(order: float, rate: float, sigma: float) -> float:
    return float(joint_privacy.subsampled_gaussian_rdp([order], rate, sigma)[0])


def _reverse_slack(order: int, rate: float, sigma: float) -> float:
    """Relative gap of D_a(base, mixture) below the formula for D_a(mixture, base)."""
    return 1 - _mixture.divergence(order, rate, sigma, sign=-1) / _curve(order, rate, sigma)


def _reverse_half_slack(order: int, rate: float, sigma: float) -> float:
    return 0.5 - _mixture.divergence(order, rate, sigma, sign=-1) / _curve(order, rate, sigma)


def _gaussian_epsilon(mu: float, log_delta: float) -> float:
    orders = [1 + 1.1**i / 100 for i in range(120)]
    return renyi.epsilon_from_rdp(orders, [a * mu * mu / 2 for a in orders], math.exp(log_delta))


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
    calculators=(joint_privacy.subsampled_gaussian_rdp, renyi.epsilon_from_rdp),
    checks=(
        ExactCheck(
            name="curve of one step by quadrature",
            cases=lambda: _RATES,
            truth=_mixture.divergence,
            statement=_curve,
            wrong=lambda order, rate, sigma: rate * order / (2 * sigma**2),
            tolerance=1e-8,
        ),
        ExactCheck(
            name="replacing an example, no sampling",
            cases=lambda: [(2, 3.0), (7, 5.0)],
            truth=lambda order, sigma: _mixture.divergence(order, 1.0, sigma, shift=2.0),
            statement=lambda order, sigma: _curve(order, 1.0, sigma / 2),
            wrong=lambda order, sigma: _curve(order, 1.0, sigma),
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
            statement=lambda order, rdp, delta: renyi.epsilon_from_rdp([order], [rdp], delta),
            wrong=lambda order, rdp, delta: rdp - math.log(delta) / (order - 1),
            tolerance=1e-12,
        ),
    ),
    proved=True,
)


def _largest_share(order: float) -> float:
    """max over u in (0, 1) of u^(a-1) (1 - u), by evaluation."""
    best = (order - 1) / order
    return max(u ** (order - 1) * (1 - u) for u in (best, 0.999 * best, 1.001 * best))


# --- gip.thm2 ---------------------------------------------------------------------------------------------------------


def _model(dim: int, keep: int, weight: Fraction) -> SubsetMallows:
    return SubsetMallows(dim, keep, -math.log(weight))


def _joint_curve(order: int, rate: float, sigma: float, dim: int, keep: int, weight: Fraction) -> float:
    return float(joint_privacy.joint_rdp([order], rate, sigma, _model(dim, keep, weight))[0])


def _amplified_sum(order: int, rate: float, sigma: float, dim: int, keep: int, weight: Fraction) -> float:
    """The invalid accounting: both parts amplified by the one sample, each on its own, and added."""
    return _curve(order, rate, sigma) + _joint_curve(order, rate, math.inf, dim, keep, weight)


def _joint_cases() -> Iterator[tuple[int, float, float, int, int, Fraction]]:
    for order, rate, sigma in _RATES[:4]:
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
    return rate**2 * (1 - rate**2) * (w - 1) * (v - 1)


_SIZE = (4, 2)


def _bound_slack(order: int, rate: float, sigma: float, theta: float) -> float:
    """Relative gap of the joint curve below eps_2 + the curve of the values."""
    model = SubsetMallows(*_SIZE, theta)
    bound = model.epsilon(4) + _curve(order, rate, sigma)
    return 1 - float(joint_privacy.joint_rdp([order], rate, sigma, model)[0]) / bound


def _amplified_slack(order: int, rate: float, sigma: float, theta: float) -> float:
    model = SubsetMallows(*_SIZE, theta)
    alone = float(joint_privacy.joint_rdp([order], rate, math.inf, model)[0])
    return 1 - float(joint_privacy.joint_rdp([order], rate, sigma, model)[0]) / (alone + _curve(order, rate, sigma))


def _reverse_joint(order: int, rate: float, sigma: float, theta: float) -> float:
    """D_a(base, mixture) of index and values for d = 2, where the ratio is e^(+-2 theta)."""
    up = math.exp(2 * theta)
    return _mixture.divergence(order, rate, sigma, index={up: 1 / (1 + up), 1 / up: up / (1 + up)}, sign=-1)


def _reverse_joint_slack(order: int, rate: float, sigma: float, theta: float) -> float:
    bound = float(joint_privacy.joint_rdp([order], rate, sigma, SubsetMallows(2, 1, theta))[0])
    return 1 - _reverse_joint(order, rate, sigma, theta) / bound


def _values_only_slack(order: int, rate: float, sigma: float, theta: float) -> float:
    return 1 - _reverse_joint(order, rate, sigma, theta) / _curve(order, rate, sigma)


_BOX = {
    "order": Range(2, 16, integer=True),
    "rate": Range(0.02, 1),
    "sigma": Range(0.7, 6, log=True),
    "theta": Range(0.01, 1, log=True),
}
_RUN = {"delta": 1e-5, "dim": 8, "keep": 2, "sampling_rate": 0.1, "noise_multiplier": 4.0, "steps": 50, "groups": 20}


def _spent_by_run(epsilon: float) -> float:
    """Epsilon of the whole run at the dispersion for a budget, groups and steps put together one by one."""
    theta = joint_privacy.theta_for_joint_budget(epsilon, **_RUN)  # type: ignore[arg-type]
    step = joint_privacy.joint_rdp(joint_privacy.ORDERS, 0.1, 4.0, SubsetMallows(8, 2, theta), 20)
    return renyi.epsilon_from_rdp(joint_privacy.ORDERS, 50 * step, 1e-5)


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
    r"one and adding is invalid: at $a = 2$ the joint moment is larger by $q^2(1-q^2)(E[r^2]-1)(E[L^2]-1)$.",
    calculators=(joint_privacy.joint_rdp, joint_privacy.theta_for_joint_budget),
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
        ExactCheck(
            name="theta for a joint budget spends all of it",
            cases=lambda: [(1.0,), (3.0,)],
            truth=lambda epsilon: epsilon,
            statement=_spent_by_run,
            wrong=lambda epsilon: 0.99 * epsilon,
            tolerance=1e-5,
        ),
    ),
    proved=True,
    figure="theta_accounting",
)

# --- gip.prop1 --------------------------------------------------------------------------------------------------------


def _fresh(order: int, rate: float, sigma: float, dim: int, keep: int) -> float:
    return float(joint_privacy.FreshMask(dim, keep).rdp([order], rate, sigma)[0])


def _one_entry(dim: int) -> tuple[float, ...]:
    return (1.0,) + (0.0,) * (dim - 1)


def _example(first: float, second: float, third: float, norm: float) -> list[float]:
    raw = [first, second, third, 0.3]
    size = math.sqrt(sum(x * x for x in raw))
    return [norm * x / size for x in raw]


def _fresh_slack(
    order: int, rate: float, sigma: float, first: float, second: float, third: float, norm: float
) -> float:
    example = _example(first, second, third, norm)
    return 1 - _mixture.masked_divergence(order, rate, sigma, example, 2) / _fresh(order, rate, sigma, 4, 2)


def _share_slack(
    order: int, rate: float, sigma: float, first: float, second: float, third: float, norm: float
) -> float:
    """Wrong statement: the divergence itself shrinks to the share k."""
    example = _example(first, second, third, norm)
    return 1 - _mixture.masked_divergence(order, rate, sigma, example, 2) / (0.5 * _curve(order, rate, sigma))


def _own_bound_holds(order: float, rate: float, sigma: float, dim: int, keep: int) -> bool:
    """D_a(base, mixture) of a flat example below the bound made from the one-entry D_a(base, mixture)."""
    flat = _mixture.divergence(order, rate, sigma, math.sqrt(keep / dim), sign=-1)
    own = (order - 1) * _mixture.divergence(order, rate, sigma, sign=-1)
    return flat <= math.log1p(keep / dim * math.expm1(own)) / (order - 1)


def _pair_dominates(dim: int, keep: int, mu: float, epsilon: float) -> bool:
    """delta of a flat example under a fresh mask at most k delta of the one-entry example."""
    flat = gaussian_log_delta(mu * math.sqrt(keep / dim), epsilon)
    return flat <= math.log(keep / dim) + gaussian_log_delta(mu, epsilon)


_PROP1 = Claim(
    id="gip.prop1",
    title="privacy of random-k",
    source=Source("gip", "Proposition 1"),
    statement=r"With random-$k$ in place of the index mechanism Algorithm 2 keeps the $(\epsilon_1, \delta)$ of Lemma 1.",
    verdict=Verdict.LOOSE,
    conditions=(
        "those of Lemma 1; the mask is drawn without a look at the data",
        "for the sharper bound: a new mask in every step, drawn after clipping, and Rényi accounting",
    ),
    correction=r"True, and the mask amplifies: with $R_a$ of Lemma 1, $D_a \le \frac{\log(1-k+ke^{(a-1)R_a})}{a-1}$ in both directions, "
    r"attained by an example with one entry. Outside Rényi privacy that example is not the worst: "
    r"$(1-k)\cdot$nothing$\;+\;k\cdot$Gaussian is no valid input of a privacy-loss accountant. A mask that is used again "
    r"amplifies as one step with noise $\sigma/\sqrt T$; a mask before clipping does not amplify.",
    calculators=(joint_privacy.FreshMask.rdp,),
    checks=(
        ExactCheck(
            name="example with one entry attains the bound",
            cases=lambda: [(*point, dim, keep) for point in _RATES[:4] for dim, keep in ((3, 1), (4, 3))],
            truth=lambda order, rate, sigma, dim, keep: _mixture.masked_divergence(
                order, rate, sigma, _one_entry(dim), keep
            ),
            statement=_fresh,
            wrong=lambda order, rate, sigma, dim, keep: _curve(order, rate, sigma),
            tolerance=1e-7,
        ),
        SearchCheck(
            name="every clipped example, four entries",
            box={
                "order": Range(2, 12, integer=True),
                "rate": Range(0.05, 1),
                "sigma": Range(0.7, 4, log=True),
                "first": Range(0, 10),
                "second": Range(0, 1),
                "third": Range(0, 1),
                "norm": Range(0.1, 1),
            },
            slack=_fresh_slack,
            wrong=_share_slack,
            tolerance=1e-7,
        ),
        ExactCheck(
            name="the other direction needs this direction's curve",
            cases=lambda: [(2.0, 0.3, 1.0, 4, 2, False), (5.0, 0.3, 0.5, 4, 1, False), (2.0, 0.99, 2.0, 4, 1, True)],
            truth=lambda order, rate, sigma, dim, keep, holds: _own_bound_holds(order, rate, sigma, dim, keep),
            statement=lambda order, rate, sigma, dim, keep, holds: holds,
            wrong=lambda order, rate, sigma, dim, keep, holds: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="no dominating pair for privacy-loss accountants",
            cases=lambda: [(4, 1, 1.0, 0.0, False), (100, 10, 0.5, 0.05, False), (4, 1, 1.0, 2.0, True)],
            truth=lambda dim, keep, mu, epsilon, holds: _pair_dominates(dim, keep, mu, epsilon),
            statement=lambda dim, keep, mu, epsilon, holds: holds,
            wrong=lambda dim, keep, mu, epsilon, holds: True,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="one mask for all steps",
            cases=lambda: [(2, 2.0, 4), (5, 9.0, 9)],
            truth=lambda order, sigma, steps: _mixture.masked_divergence(
                order, 1.0, sigma / math.sqrt(steps), _one_entry(4), 1
            ),
            statement=lambda order, sigma, steps: _fresh(order, 1.0, sigma / math.sqrt(steps), 4, 1),
            wrong=lambda order, sigma, steps: float(
                joint_privacy.FreshMask(4, 1).rdp([order], 1.0, sigma, steps=steps)[0]
            ),
            tolerance=1e-7,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="mask before clipping",
            cases=lambda: [(2, 0.3, 2.0), (5, 1.0, 3.0)],
            # a long flat gradient is masked, then clipped: the shift is C under every mask
            truth=lambda order, rate, sigma: _mixture.masked_divergence(order, rate, sigma, (2**-0.5,) * 4, 2),
            statement=_curve,
            wrong=lambda order, rate, sigma: _fresh(order, rate, sigma, 4, 2),
            tolerance=1e-7,
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

CLAIMS = (_LEM1, _THM2, _PROP1)
