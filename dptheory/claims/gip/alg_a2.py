import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import scipy
from numpy.typing import NDArray

from dptheory import pruning
from dptheory._arrays import Array
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._at_scale import SIZES, WEIGHT, counted_swaps, log_of, model_of
from dptheory.pruning import SubsetMallows

_WEIGHTS = (Fraction(1, 2), Fraction(9, 10), Fraction(1))
_LAW_SIZE, _LAW_WEIGHT = (5, 2), Fraction(1, 2)


def _sampled_subset(rng: np.random.Generator, n: int) -> NDArray[np.intp]:
    """Index, in the order of :func:`_finite.subsets`, of n draws around the first subset."""
    dim, keep = _LAW_SIZE
    reference = np.zeros((n, dim), dtype=np.bool_)
    reference[:, :keep] = True
    drawn = pruning.SubsetMallows(dim, keep, theta=-math.log(_LAW_WEIGHT)).sample(reference, rng)
    codes = 1 << np.arange(dim)
    table = np.zeros(2**dim, dtype=np.intp)
    for place, subset in enumerate(_finite.subsets(dim, keep)):
        table[int(codes @ np.asarray(subset))] = place
    return np.asarray(table[drawn @ codes])


def _subset_law() -> Array:
    law = _finite.mallows(_finite.subsets(*_LAW_SIZE)[0], _LAW_WEIGHT)
    return np.array([float(p) for p in law.values()])


def _literal_law() -> Array:
    """The appendix taken at its word: i is the distance itself, P ~ e^{-theta i}, and i pairs are swapped."""
    reference = _finite.subsets(*_LAW_SIZE)[0]
    weights = [float(_LAW_WEIGHT) ** (_finite.hamming(s, reference) / 2) for s in _finite.subsets(*_LAW_SIZE)]
    return np.asarray(np.array(weights) / sum(weights))


def _swap_probability(dim: int, keep: int, weight: Fraction, swaps: int) -> float:
    return float(_finite.swap_law(dim, keep, weight)[swaps])


def _swap_cases() -> Iterator[tuple[int, int, Fraction, int]]:
    for dim, keep in _finite.SIZES:
        for weight in _WEIGHTS:
            for swaps in range(min(keep, dim - keep) + 1):
                yield dim, keep, weight, swaps


_HALF = SubsetMallows(20_000, 10_000, theta=0.002)


def _half_law(swaps: int) -> float:
    """log P(i) for d = 2K, from the gamma function."""
    keep, theta = _HALF.keep, _HALF.theta
    i = np.arange(keep + 1.0)
    logs = (
        2 * (scipy.special.gammaln(keep + 1) - scipy.special.gammaln(i + 1) - scipy.special.gammaln(keep - i + 1))
        - 2 * theta * i
    )
    return float(logs[swaps] - scipy.special.logsumexp(logs))


def _swap_entries(sizes: tuple[tuple[int, int], ...]) -> Iterator[tuple[str, int, int, int]]:
    for what, (dim, keep) in itertools.product(("swap_pmf", "swap_log_pmf"), sizes):
        for swaps in range(min(keep, dim - keep) + 1):
            yield what, dim, keep, swaps


def _swap_entry(what: str, dim: int, keep: int, swaps: int) -> float:
    p = counted_swaps(dim, keep, WEIGHT)[swaps]
    return float(p) if what == "swap_pmf" else log_of(p)


def _members(dim: int, keep: int, theta: float) -> int:
    """Members of three draws."""
    reference = np.zeros((3, dim), dtype=np.bool_)
    reference[:, :keep] = True
    return int(SubsetMallows(dim, keep, theta=theta).sample(reference, np.random.default_rng(0)).sum())


def _moved_members(dim: int, keep: int) -> int:
    """Places in which the draw of almost no dispersion, or of none, differs from its reference."""
    reference = np.zeros(dim, dtype=np.bool_)
    reference[:keep] = True
    drawn = SubsetMallows(dim, keep, theta=400.0).sample(reference, np.random.default_rng(0))
    return int(np.count_nonzero(drawn ^ reference))


row = new_row(
    id="gip.alg_a2",
    source=Source("gip", "Appendix A.2", (11,)),
    verdict=Verdict.CONDITIONAL,
    calculators=(
        pruning.SubsetMallows.swap_pmf,
        pruning.SubsetMallows.swap_log_pmf,
        pruning.SubsetMallows.sample,
    ),
)


@row.equal(_swap_cases, tolerance=1e-12)
def _(dim: int, keep: int, weight: Fraction, swaps: int) -> Sides:
    """law of the number of swaps"""
    return (
        pruning.SubsetMallows(dim, keep, theta=-math.log(weight)).swap_pmf()[swaps],
        lambda: _swap_probability(dim, keep, weight, swaps),
        pruning.SubsetMallows(dim, keep, theta=-math.log(weight) / 2).swap_pmf()[swaps],
    )


@row.law(_sampled_subset, wrong=_literal_law, row_bytes=200)
def _() -> Array:
    """sampler against the enumerated law"""
    return _subset_law()


@row.equal(lambda: _swap_entries(((7, 3), (30, 4), *SIZES)), tolerance=1e-11)
def _(what: str, dim: int, keep: int, swaps: int) -> Sides:
    """law of the swaps at users' sizes, in integers"""
    return (
        getattr(model_of(dim, keep, WEIGHT), what)()[swaps],
        lambda: _swap_entry(what, dim, keep, swaps),
        getattr(model_of(dim, keep, WEIGHT**2), what)()[swaps],
    )


@row.equal(lambda: [(swaps,) for swaps in (0, 4900, 4995, 5100, 10_000)], tolerance=1e-8)
def _(swaps: int) -> Sides:
    """law of ten thousand swaps, by the gamma function"""
    return (
        _HALF.swap_log_pmf()[swaps],
        lambda: _half_law(swaps),
        SubsetMallows(20_000, 10_000, theta=0.0).swap_log_pmf()[swaps],
    )


@row.equal((5, 2, 0.7), (40, 33, 0.0), (20_000, 2000, 0.01), (20_000, 19_000, 0.5))
def _(dim: int, keep: int, theta: float) -> Sides:
    """a draw has K members, and without dispersion those of its reference"""
    return _members(dim, keep, theta) + _moved_members(dim, keep), 3 * keep, 3 * (dim - keep)
