"""GIP: privacy of random-k pruning."""

import math

from dptheory import privacy
from dptheory.checks import ExactCheck, Kind, Range, SearchCheck
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gip import _joint_at_scale, _mixture
from dptheory.claims.gip.privacy import RATES, gaussian_log_delta, values_curve


def _fresh(order: int, rate: float, sigma: float, dim: int, keep: int) -> float:
    return float(privacy.FreshMask(dim, keep).rdp([order], rate, sigma)[0])


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
    return 1 - _mixture.masked_divergence(order, rate, sigma, example, 2) / (0.5 * values_curve(order, rate, sigma))


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
        "for the sharper bound: a new mask in every step that nobody can tell before it is used, applied after clipping, and "
        "Rényi accounting",
    ),
    correction=r"True, and the mask amplifies: with $R_a$ of Lemma 1, $D_a \le \frac{\log(1-k+ke^{(a-1)R_a})}{a-1}$ in both directions, "
    r"attained by an example with one entry. Outside Rényi privacy that example is not the worst: "
    r"$(1-k)\cdot$nothing$\;+\;k\cdot$Gaussian is no valid input of a privacy-loss accountant. A mask that is used again "
    r"amplifies as one step with noise $\sigma/\sqrt T$; a mask before clipping does not amplify.",
    calculators=(privacy.FreshMask.rdp,),
    checks=(
        ExactCheck(
            name="example with one entry attains the bound",
            cases=lambda: [(*point, dim, keep) for point in RATES[:4] for dim, keep in ((3, 1), (4, 3))],
            truth=lambda order, rate, sigma, dim, keep: _mixture.masked_divergence(
                order, rate, sigma, _one_entry(dim), keep
            ),
            statement=_fresh,
            wrong=lambda order, rate, sigma, dim, keep: values_curve(order, rate, sigma),
            tolerance=1e-7,
        ),
        *_joint_at_scale.FRESH,
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
            wrong=lambda order, sigma, steps: float(privacy.FreshMask(4, 1).rdp([order], 1.0, sigma, steps=steps)[0]),
            tolerance=1e-7,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="mask before clipping",
            cases=lambda: [(2, 0.3, 2.0), (5, 1.0, 3.0)],
            # a long flat gradient is masked, then clipped: the shift is C under every mask
            truth=lambda order, rate, sigma: _mixture.masked_divergence(order, rate, sigma, (2**-0.5,) * 4, 2),
            statement=values_curve,
            wrong=lambda order, rate, sigma: _fresh(order, rate, sigma, 4, 2),
            tolerance=1e-7,
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

CLAIMS = (_PROP1,)
