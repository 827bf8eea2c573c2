import itertools
import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import cache

import numpy as np
import scipy

from dptheory import privacy
from dptheory._arrays import Array
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


prop1 = new_row(
    id="gip.prop1",
    source=Source("gip", "Proposition 1"),
    verdict=Verdict.LOOSE,
    calculators=(privacy.FreshMask.rdp,),
)


@prop1.equal(lambda: [(*point, dim, keep) for point in RATES[:4] for dim, keep in ((3, 1), (4, 3))], tolerance=1e-7)
def _(order: int, rate: float, sigma: float, dim: int, keep: int) -> Sides:
    """example with one entry attains the bound"""
    return (
        _fresh(order, rate, sigma, dim, keep),
        lambda: _mixture.masked_divergence(order, rate, sigma, _one_entry(dim), keep),
        values_curve(order, rate, sigma),
    )


@prop1.equal(
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


@prop1.inequality(
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


@prop1.equal(
    (2.0, 0.3, 1.0, 4, 2, False), (5.0, 0.3, 0.5, 4, 1, False), (2.0, 0.99, 2.0, 4, 1, True), kind=Kind.COUNTEREXAMPLE
)
def _(order: float, rate: float, sigma: float, dim: int, keep: int, holds: bool) -> Sides:
    """the other direction needs this direction's curve"""
    return holds, lambda: _own_bound_holds(order, rate, sigma, dim, keep), True


@prop1.equal((4, 1, 1.0, 0.0, False), (100, 10, 0.5, 0.05, False), (4, 1, 1.0, 2.0, True), kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int, mu: float, epsilon: float, holds: bool) -> Sides:
    """no dominating pair for privacy-loss accountants"""
    return holds, lambda: _pair_dominates(dim, keep, mu, epsilon), True


@prop1.equal((2, 2.0, 4), (5, 9.0, 9), tolerance=1e-7, kind=Kind.COUNTEREXAMPLE)
def _(order: int, sigma: float, steps: int) -> Sides:
    """one mask for all steps"""
    return (
        _fresh(order, 1.0, sigma / math.sqrt(steps), 4, 1),
        lambda: _mixture.masked_divergence(order, 1.0, sigma / math.sqrt(steps), _one_entry(4), 1),
        privacy.FreshMask(dim=4, keep=1).rdp(orders=[order], sampling_rate=1.0, noise_multiplier=sigma, steps=steps)[0],
    )


@prop1.equal((2, 0.3, 2.0), (5, 1.0, 3.0), tolerance=1e-7, kind=Kind.COUNTEREXAMPLE)
def _(order: int, rate: float, sigma: float) -> Sides:
    """mask before clipping"""
    return (
        values_curve(order, rate, sigma),
        # a long flat gradient is masked, then clipped: the shift is C under every mask
        lambda: _mixture.masked_divergence(order, rate, sigma, (2**-0.5,) * 4, 2),
        _fresh(order, rate, sigma, 4, 2),
    )


def _gaussian_delta(energy: Array | float, epsilon: float) -> Array:
    """H_epsilon(v): delta(epsilon) of N(0, 1) against N(sqrt(v), 1)."""
    mu = np.sqrt(np.maximum(energy, 1e-300))
    return np.asarray(
        scipy.special.ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * scipy.special.ndtr(-mu / 2 - epsilon / mu)
    )


@cache
def _kept(dim: int, keep: int, spread: int) -> tuple[Array, Array]:
    """How many of ``spread`` coordinates a mask keeps, from one on, and the chances."""
    counts = range(1, min(spread, keep) + 1)
    ways = [math.comb(spread, j) * math.comb(dim - spread, keep - j) / math.comb(dim, keep) for j in counts]
    return np.array(counts, dtype=np.float64), np.array(ways)


def _flat(energy: float, epsilon: float, dim: int, keep: int, spread: int) -> float:
    """delta where the gradient is flat on ``spread`` coordinates."""
    counts, chances = _kept(dim, keep, spread)
    return float(chances @ _gaussian_delta(energy * counts / spread, epsilon))


def _worst_flat(energy: float, epsilon: float, dim: int, keep: int, spreads: Iterable[int]) -> float:
    return max(_flat(energy, epsilon, dim, keep, spread) for spread in spreads)


def _mean_masked_delta(energies: Array, epsilon: float, keep: int) -> float:
    """delta for any gradient, over all masks; ``energies`` are the squares of its entries over those of the noise."""
    masks = itertools.combinations(range(len(energies)), keep)
    return float(_gaussian_delta(np.array([energies[list(mask)].sum() for mask in masks]), epsilon).mean())


def _on_a_grid(energy: float, epsilon: float, dim: int, keep: int) -> float:
    """The largest delta over gradients whose squares are multiples of energy / 12."""
    shares = (s for s in itertools.combinations_with_replacement(range(13), dim) if sum(s) == 12)
    return max(_mean_masked_delta(energy / 12 * np.array(share, dtype=np.float64), epsilon, keep) for share in shares)


def _by_quadrature(energy: float, epsilon: float) -> float:
    """The same delta from the two densities."""
    mu = math.sqrt(energy)

    def gap(x: float) -> float:
        return max(0.0, math.exp(-((x - mu) ** 2) / 2) - math.exp(epsilon - x * x / 2)) / math.sqrt(2 * math.pi)

    edge = epsilon / mu + mu / 2
    return float(scipy.integrate.quad(gap, edge, edge + mu + 12, epsabs=0, epsrel=1e-12, limit=200)[0])


def _cases() -> Iterator[tuple[float, float, int, int]]:
    for dim, keep in ((2, 1), (3, 1), (3, 2), (4, 1), (4, 3)):
        for energy in (0.2, 5.0, 30.0):
            for epsilon in (0.0, 0.05, 0.3, 1.0):
                yield energy, epsilon, dim, keep


def _levels(first: float, second: float, share: float, energy: float) -> tuple[tuple[int, float], tuple[int, float]]:
    """Numbers of coordinates, and the energy of each, of a gradient with two levels."""
    numbers = round(first), round(second)
    return (numbers[0], share * energy / numbers[0]), (numbers[1], (1 - share) * energy / numbers[1])


_DIM, _MOST = 10**6, 80


def _two_levels(energy: float, epsilon: float) -> float:
    """The largest delta at K = 1, d = 10^6, over gradients with two levels, up to 80 coordinates each."""
    first, second, share = np.meshgrid(np.arange(1, _MOST + 1), np.arange(1, _MOST + 1), np.linspace(0, 1, 21))
    costs = first * _gaussian_delta(share * energy / first, epsilon)
    return float((costs + second * _gaussian_delta((1 - share) * energy / second, epsilon)).max()) / _DIM


def _any_gradient(energy: float, epsilon: float, dim: int, keep: int) -> float:
    """The largest delta over 2,000 gradients drawn near the faces of the simplex, and the flat ones."""
    drawn = np.random.default_rng(0).dirichlet(np.full(dim, 0.3), size=2000)
    flat = np.tri(dim) / np.arange(1, dim + 1)[:, None]
    masks = np.array([[j in mask for j in range(dim)] for mask in itertools.combinations(range(dim), keep)])
    energies = energy * np.vstack([drawn, flat]) @ masks.T.astype(np.float64)
    return float(_gaussian_delta(energies, epsilon).mean(axis=1).max())


fresh_mask = new_row(
    id="gip.fresh_mask",
    source=Source("gip", "new, on Proposition 1"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.FreshMask.rdp,),
)


@fresh_mask.equal(_cases, tolerance=1e-10)
def _(energy: float, epsilon: float, dim: int, keep: int) -> Sides:
    """one entry kept, or all but one: the largest delta over all gradients on a grid"""
    return (
        _worst_flat(energy, epsilon, dim, keep, range(1, dim + 1)),
        lambda: _on_a_grid(energy, epsilon, dim, keep),
        _worst_flat(energy, epsilon, dim, keep, (1, dim)),
    )


@fresh_mask.equal(lambda: itertools.product((0.01, 1.0, 20.0), (0.0, 1.0), ((2, 1), (6, 2), (7, 3), (5, 4), (100, 30))))
def _(energy: float, end: float, sizes: tuple[int, int]) -> Sides:
    """flat on everything at epsilon = 0, one entry at large epsilon, for every mask"""
    dim, keep = sizes
    # at mu^2 / 2 + 5 mu the delta of the whole gradient is about 1e-7
    epsilon = end * (energy / 2 + 5 * math.sqrt(energy))
    costs = [_flat(energy, epsilon, dim, keep, r) for r in range(1, dim + 1)]
    return 1 + int(np.argmax(costs)), dim if end == 0 else 1, 1 if end == 0 else dim


@fresh_mask.equal(lambda: itertools.product((0.01, 1.0, 20.0), (0.0, 0.2, 3.0)), tolerance=1e-8)
def _(energy: float, epsilon: float) -> Sides:
    """H, from the densities"""
    return (
        float(_gaussian_delta(energy, epsilon)),
        _by_quadrature(energy, epsilon),
        _by_quadrature(1.01 * energy, epsilon),
    )


@fresh_mask.equal(lambda: itertools.product((1.0, 5.0, 20.0), (0.5, 1.0, 2.0)), tolerance=1e-10)
def _(energy: float, epsilon: float) -> Sides:
    """one of 10^6 entries kept: the largest delta over gradients with two levels"""
    return (
        _worst_flat(energy, epsilon, _DIM, 1, range(1, 2 * _MOST)),
        _two_levels(energy, epsilon),
        _flat(energy, epsilon, _DIM, 1, 1),
    )


@fresh_mask.equal(
    lambda: itertools.product((0.3, 3.0, 30.0), (0.02, 0.4, 2.0), (4, 5, 6), (2, 3)),
    tolerance=1e-10,
)
def _(energy: float, epsilon: float, dim: int, keep: int) -> Sides:
    """observed: other masks, the largest delta over random gradients"""
    return (
        _worst_flat(energy, epsilon, dim, keep, range(1, dim + 1)),
        lambda: _any_gradient(energy, epsilon, dim, keep),
        _worst_flat(energy, epsilon, dim, keep, (2,)),
    )
