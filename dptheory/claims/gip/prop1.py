import itertools
import math
from fractions import Fraction

from dptheory import privacy
from dptheory.claims._row import Kind, Range, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _mixture
from dptheory.claims.gip._mixture import RATES, STEPS, gaussian_log_delta, values_curve
from dptheory.privacy import FreshMask


def _fresh(order: float, rate: float, sigma: float, dim: int, keep: int) -> float:
    return float(
        privacy.FreshMask(dim=dim, keep=keep).rdp(orders=[order], sampling_rate=rate, noise_multiplier=sigma)[0]
    )


def _one_entry(dim: int) -> tuple[float, ...]:
    return (1.0,) + (0.0,) * (dim - 1)


def _example(first: float, second: float, third: float, norm: float) -> list[float]:
    raw = [first, second, third, 0.3]
    size = math.sqrt(sum(x * x for x in raw))
    return [norm * x / size for x in raw]


def _share_slack(
    order: float, rate: float, sigma: float, first: float, second: float, third: float, norm: float
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


_MASKS = ((3, 1), (4, 3), (20_000, 500), (10**9, 10**8))


def _masked(order: int, rate: float, sigma: float, steps: int, dim: int, keep: int) -> float:
    """An example with one entry: in each step its share of the masks shows it, so the number of steps is binomial."""
    one = (order - 1) * _mixture.divergence(order, rate, sigma)
    seen = Fraction(keep, dim)
    moments = (
        float(math.comb(steps, t) * seen**t * (1 - seen) ** (steps - t)) * math.exp(t * one) for t in range(steps + 1)
    )
    return math.log(math.fsum(moments)) / (order - 1)


row = new_row(
    id="gip.prop1",
    source=Source("gip", "Proposition 1"),
    verdict=Verdict.LOOSE,
    calculators=(privacy.FreshMask.rdp,),
)


@row.equal(lambda: [(*point, dim, keep) for point in RATES[:4] for dim, keep in ((3, 1), (4, 3))], tolerance=1e-7)
def _(order: int, rate: float, sigma: float, dim: int, keep: int) -> Sides:
    """example with one entry attains the bound"""
    return (
        _fresh(order, rate, sigma, dim, keep),
        lambda: _mixture.masked_divergence(order, rate, sigma, _one_entry(dim), keep),
        values_curve(order, rate, sigma),
    )


@row.equal(
    lambda: [(*step, steps, *mask) for step, steps, mask in itertools.product(STEPS, (1, 2, 40), _MASKS)],
    tolerance=1e-7,
)
def _(order: int, rate: float, sigma: float, steps: int, dim: int, keep: int) -> Sides:
    """example with one entry over many entries and steps"""
    return (
        FreshMask(dim=dim, keep=keep).rdp(orders=[order], sampling_rate=rate, noise_multiplier=sigma, steps=steps)[0],
        lambda: _masked(order, rate, sigma, steps, dim, keep),
        FreshMask(dim=dim, keep=keep).rdp(orders=[order], sampling_rate=rate, noise_multiplier=sigma)[0],
    )


@row.inequality(
    {
        "order": Range(1.05, 12),
        "rate": Range(0.05, 1),
        "sigma": Range(0.7, 4, log=True),
        "first": Range(0, 10),
        "second": Range(0, 1),
        "third": Range(0, 1),
        "norm": Range(0.1, 1),
    },
    wrong=_share_slack,
    tolerance=1e-7,
)
def _fresh_slack(
    order: float, rate: float, sigma: float, first: float, second: float, third: float, norm: float
) -> float:
    """every clipped example, four entries"""
    example = _example(first, second, third, norm)
    return 1 - _mixture.masked_divergence(order, rate, sigma, example, 2) / _fresh(order, rate, sigma, 4, 2)


@row.equal(
    (2.0, 0.3, 1.0, 4, 2, False), (5.0, 0.3, 0.5, 4, 1, False), (2.0, 0.99, 2.0, 4, 1, True), kind=Kind.COUNTEREXAMPLE
)
def _(order: float, rate: float, sigma: float, dim: int, keep: int, holds: bool) -> Sides:
    """the other direction needs this direction's curve"""
    return holds, lambda: _own_bound_holds(order, rate, sigma, dim, keep), True


@row.equal((4, 1, 1.0, 0.0, False), (100, 10, 0.5, 0.05, False), (4, 1, 1.0, 2.0, True), kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int, mu: float, epsilon: float, holds: bool) -> Sides:
    """no dominating pair for privacy-loss accountants"""
    return holds, lambda: _pair_dominates(dim, keep, mu, epsilon), True


@row.equal((2, 2.0, 4), (5, 9.0, 9), tolerance=1e-7, kind=Kind.COUNTEREXAMPLE)
def _(order: int, sigma: float, steps: int) -> Sides:
    """one mask for all steps"""
    return (
        _fresh(order, 1.0, sigma / math.sqrt(steps), 4, 1),
        lambda: _mixture.masked_divergence(order, 1.0, sigma / math.sqrt(steps), _one_entry(4), 1),
        privacy.FreshMask(dim=4, keep=1).rdp(orders=[order], sampling_rate=1.0, noise_multiplier=sigma, steps=steps)[0],
    )


@row.equal((2, 0.3, 2.0), (5, 1.0, 3.0), tolerance=1e-7, kind=Kind.COUNTEREXAMPLE)
def _(order: int, rate: float, sigma: float) -> Sides:
    """mask before clipping"""
    return (
        values_curve(order, rate, sigma),
        # a long flat gradient is masked, then clipped: the shift is C under every mask
        lambda: _mixture.masked_divergence(order, rate, sigma, (2**-0.5,) * 4, 2),
        _fresh(order, rate, sigma, 4, 2),
    )
