import itertools
import math
from collections.abc import Iterable, Iterator
from functools import cache

import numpy as np
import scipy
from scipy.special import ndtr

from dptheory import privacy
from dptheory._arrays import Array
from dptheory.claims._row import Sides, Source, Verdict, new_row


def _gaussian_delta(energy: Array | float, epsilon: float) -> Array:
    """H_epsilon(v): delta(epsilon) of N(0, 1) against N(sqrt(v), 1)."""
    mu = np.sqrt(np.maximum(energy, 1e-300))
    return np.asarray(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


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


def _masked(energies: Array, epsilon: float, keep: int) -> float:
    """delta for any gradient, over all masks; ``energies`` are the squares of its entries over those of the noise."""
    masks = itertools.combinations(range(len(energies)), keep)
    return float(_gaussian_delta(np.array([energies[list(mask)].sum() for mask in masks]), epsilon).mean())


def _on_a_grid(energy: float, epsilon: float, dim: int, keep: int) -> float:
    """The largest delta over gradients whose squares are multiples of energy / 12."""
    shares = (s for s in itertools.combinations_with_replacement(range(13), dim) if sum(s) == 12)
    return max(_masked(energy / 12 * np.array(share, dtype=np.float64), epsilon, keep) for share in shares)


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


row = new_row(
    id="gip.fresh_mask",
    source=Source("gip", "new, on Proposition 1"),
    verdict=Verdict.HOLDS,
    calculators=(privacy.FreshMask.rdp,),
)


@row.equal(_cases, tolerance=1e-10)
def _(energy: float, epsilon: float, dim: int, keep: int) -> Sides:
    """one entry kept, or all but one: the largest delta over all gradients on a grid"""
    return (
        _worst_flat(energy, epsilon, dim, keep, range(1, dim + 1)),
        lambda: _on_a_grid(energy, epsilon, dim, keep),
        _worst_flat(energy, epsilon, dim, keep, (1, dim)),
    )


@row.equal(lambda: itertools.product((0.01, 1.0, 20.0), (0.0, 1.0), ((2, 1), (6, 2), (7, 3), (5, 4), (100, 30))))
def _(energy: float, end: float, sizes: tuple[int, int]) -> Sides:
    """flat on everything at epsilon = 0, one entry at large epsilon, for every mask"""
    dim, keep = sizes
    # at mu^2 / 2 + 5 mu the delta of the whole gradient is about 1e-7
    epsilon = end * (energy / 2 + 5 * math.sqrt(energy))
    costs = [_flat(energy, epsilon, dim, keep, r) for r in range(1, dim + 1)]
    return 1 + int(np.argmax(costs)), dim if end == 0 else 1, 1 if end == 0 else dim


@row.equal(lambda: itertools.product((0.01, 1.0, 20.0), (0.0, 0.2, 3.0)), tolerance=1e-8)
def _(energy: float, epsilon: float) -> Sides:
    """H, from the densities"""
    return (
        float(_gaussian_delta(energy, epsilon)),
        _by_quadrature(energy, epsilon),
        _by_quadrature(1.01 * energy, epsilon),
    )


@row.equal(lambda: itertools.product((1.0, 5.0, 20.0), (0.5, 1.0, 2.0)), tolerance=1e-10)
def _(energy: float, epsilon: float) -> Sides:
    """one of 10^6 entries kept: the largest delta over gradients with two levels"""
    return (
        _worst_flat(energy, epsilon, _DIM, 1, range(1, 2 * _MOST)),
        _two_levels(energy, epsilon),
        _flat(energy, epsilon, _DIM, 1, 1),
    )


@row.equal(
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
