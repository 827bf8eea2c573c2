import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import scipy

from dptheory import embedding
from dptheory._arrays import Array
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row
from dptheory.claims.gep import _subspace_bounds

_CLIP = 2.0


def _found(norms: tuple[float, ...], clip: float, failure: float) -> embedding.HeldOutResidual:
    """The calculator's answer for residuals of these lengths."""
    rows = np.outer(norms, (0.6, 0.8))
    return embedding.held_out_residual(residuals=rows, residual_clip=clip, failure_probability=failure)


def _lengths(count: int, clipped: int, share: float = 0.5) -> tuple[float, ...]:
    """``clipped`` residuals above the clip of 2 among ``count``, the others at ``share`` of it."""
    return (_CLIP * 1.5,) * clipped + (_CLIP * share,) * (count - clipped)


def _exceeded(count: int, order: int) -> Fraction:
    """How often the last of count + 1 different lengths exceeds the order-th smallest of the others, over all their orders."""
    hits = sum(one[-1] > sorted(one[:-1])[order - 1] for one in itertools.permutations(range(count + 1)))
    return Fraction(hits, math.factorial(count + 1))


def _misses(chance: float, count: int, failure: float, bound: str) -> float:
    """How often the bound falls below the truth, the residual being clipped with ``chance`` and else 0."""
    held = np.arange(count + 1)
    found = [_found(_lengths(count, int(n), 0.0), _CLIP, failure) for n in held]
    least = np.array([getattr(one, bound) for one in found])
    truth = chance * (_CLIP**2 if bound == "energy_bound" else 1.0)
    return float(scipy.stats.binom.pmf(held, count, chance)[least < truth * (1 - 1e-12)].sum())


_ATOMS = ((2.0, 0.0, 0.0), (0.5, 1.0, 0.0), (0.1, -0.4, 0.3), (0.0, 1.5, 0.7))
_WEIGHTS = (0.4, 0.3, 0.2, 0.1)


def _left_out(size: int, dim: int) -> float:
    """Mean over all samples of the mean residual energy of an anchor off the subspace of the others."""
    atoms = np.array(_ATOMS)
    total = 0.0
    for often, chance in _subspace_bounds.counts(_WEIGHTS, size):
        for atom, times in enumerate(often):
            if times:
                others = [n - (i == atom) for i, n in enumerate(often)]
                kept = _subspace_bounds.leading(_subspace_bounds.second_moments(atoms, others, size - 1), dim)
                left = atoms[atom] - kept @ atoms[atom]
                total += chance * times / size * float(left @ left)
    return total


def _mean_residual(size: int, dim: int) -> float:
    return sum(value * chance for value, chance in _subspace_bounds.residuals(np.array(_ATOMS), _WEIGHTS, size, dim))


def _worst_shift(chance: float, distance: float, kind: str) -> float:
    """The largest P(A) where Q(A) = ``chance`` and P is that far from Q, over laws on six points, three in A, by a line search.

    The points of A have the weights 3 : 2 : 1 under Q, and so have the others; P mixes Q with every law on one point of A,
    and with Q given A.
    """
    inside, outside = np.array([3, 2, 1]) / 6 * chance, np.array([3, 2, 1]) / 6 * (1 - chance)
    law = np.concatenate([inside, outside])
    targets = [np.concatenate([one, np.zeros(3)]) for one in (*np.eye(3), inside / chance)]

    def far(share: float, target: Array) -> float:
        other = (1 - share) * law + share * target
        return {
            "variation": float(np.abs(other - law).sum() / 2),
            "ratio": float((other / law).max()),
            "chi": float((np.square(other - law) / law).sum()),
        }[kind]

    best = chance
    for target in targets:
        share = scipy.optimize.brentq(lambda s, to=target: far(s, to) - distance, 0.0, 1.0, xtol=1e-14)
        best = max(best, float(((1 - share) * law + share * target)[:3].sum()))
    return best


def _shifted(chance: float, distance: float, kind: str) -> float:
    """The bounds of item 4."""
    return min(
        1.0,
        {
            "variation": chance + distance,
            "ratio": chance * distance,
            "chi": chance + math.sqrt(distance * chance * (1 - chance)),
        }[kind],
    )


row = new_row(
    id="gep.held_out",
    source=Source("gep", "new, on Lemma 3.2"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.held_out_residual,),
)


@row.equal(((0.0, 0.5, 1.0, 1.9, 2.5), 0.1), ((0.1,) * 40, 0.05), ((1.0,) * 3 + (3.0,) * 5, 0.5), tolerance=1e-9)
def _(norms: tuple[float, ...], failure: float) -> Sides:
    """energy bound: the coin at the bound is as likely as allowed"""
    found = _found(norms, _CLIP, failure)
    share = sum(min(r, _CLIP) ** 2 for r in norms) / _CLIP**2 / len(norms)
    at = found.energy_bound / _CLIP**2
    spent = share * math.log(share / at) + (1 - share) * math.log((1 - share) / (1 - at))
    return spent, -math.log(failure) / len(norms), -math.log(failure / 2) / len(norms)


@row.equal((5, 0), (40, 3), (200, 0), (200, 60), (8, 7), tolerance=1e-12)
def _(count: int, clipped: int) -> Sides:
    """energy: the mean of the clipped squares"""
    found = _found(_lengths(count, clipped), _CLIP, 0.1)
    return found.energy, 4 * clipped / count + (count - clipped) / count, 4 * (clipped + 1) / (count + 1)


@row.equal(lambda: itertools.product((1, 7, 200), (0, 1, 5, 150), (0.5, 0.05, 1e-6)), tolerance=1e-9)
def _(count: int, clipped: int, failure: float) -> Sides:
    """clipping bound: so few are clipped with probability delta"""
    clipped = min(clipped, count - 1)
    at = _found(_lengths(count, clipped), _CLIP, failure).clip_probability_bound
    ways = (math.comb(count, n) * at**n * (1 - at) ** (count - n) for n in range(clipped + 1))
    return math.fsum(ways), failure, 2 * failure


@row.equal(lambda: ((h, j) for h in range(1, 7) for j in range(1, h + 1)), tolerance=1e-15)
def _(count: int, order: int) -> Sides:
    """clipping at the j-th length: how often a fresh one is longer, over all orders"""
    found = _found(tuple(range(1, count + 1)), float(order), 0.1)
    return found.clip_probability, float(_exceeded(count, order)), (count - order) / count


def _chances() -> Iterator[tuple[float, int, float, str]]:
    names = ("energy_bound", "clip_probability_bound")
    return itertools.product((0.001, 0.05, 0.26, 0.5, 0.9), (4, 30), (0.3, 0.05), names)


@row.equal(_chances)
def _(chance: float, count: int, failure: float, bound: str) -> Sides:
    """both bounds fail no more often than allowed, where a residual is 0 or clipped, over all samples"""
    missed = _misses(chance, count, failure, bound)
    return (
        max(missed, failure),
        failure,
        max(_misses(chance, count, 4 * failure if failure < 0.2 else 0.9, bound), failure),
    )


def _twice_slack(share: float, failure: float, room: float, needed: float = 3.26) -> float:
    count = math.ceil(room * needed * -math.log(failure) / share**2)
    found = _found((_CLIP * share,) * count, _CLIP, failure)
    return 2 - found.energy_bound / found.energy


def _twice_wrong(share: float, failure: float, room: float) -> float:
    """Wrong statement: two in place of 3.26."""
    return _twice_slack(share, failure, room, 2.0)


row.inequality(
    {"share": Range(0.2, 1), "failure": Range(0.01, 0.9, log=True), "room": Range(1, 2)},
    wrong=_twice_wrong,
    name="energy bound: at most twice the mean",
)(_twice_slack)


@row.equal(
    (0.1, 0.05, "variation"),
    (0.01, 0.3, "variation"),
    (0.1, 3.0, "ratio"),
    (0.02, 1.5, "ratio"),
    (0.1, 0.5, "chi"),
    (0.01, 0.2, "chi"),
    tolerance=1e-9,
)
def _(chance: float, distance: float, kind: str) -> Sides:
    """anchors of another law: the largest share clipped, by a line search"""
    return (
        _shifted(chance, distance, kind),
        _worst_shift(chance, distance, kind),
        _shifted(chance, 1.1 * distance, kind),
    )


@row.equal((3, 1), (5, 1), (6, 2), tolerance=1e-10)
def _(size: int, dim: int) -> Sides:
    """leave one out: the mean over all samples"""
    return _left_out(size, dim), _mean_residual(size - 1, dim), _mean_residual(size, dim)
