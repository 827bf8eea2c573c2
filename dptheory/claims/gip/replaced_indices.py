import functools
import itertools
import math
from collections.abc import Iterator

import numpy as np
import scipy
from scipy.special import ndtr

from dptheory._arrays import Array
from dptheory.claims._row import Range, Sides, Source, Verdict, new_row

Reals = Array

_SIZES = ((3, 1), (4, 2), (5, 2), (5, 3))
_LINE = np.linspace(-8.0, 8.0, 801)
_MESH = float(_LINE[1] - _LINE[0])


@functools.cache
def _subsets(dim: int, keep: int) -> tuple[frozenset[int], ...]:
    return tuple(frozenset(one) for one in itertools.combinations(range(dim), keep))


def _law(reference: frozenset[int], dim: int, theta: float) -> Reals:
    weights = np.array([math.exp(-2 * theta * len(reference - one)) for one in _subsets(dim, len(reference))])
    return np.asarray(weights / weights.sum())


@functools.cache
def _triples(dim: int, keep: int) -> tuple[tuple[frozenset[int], frozenset[int]], ...]:
    """References of the two records beside that without them, {0..K-1}: one of each kind."""
    base = frozenset(range(keep))
    kinds = {
        (len(base & a), len(base & b), len(a & b), len(base & a & b)): (a, b)
        for a, b in itertools.product(_subsets(dim, keep), repeat=2)
    }
    return tuple(kinds.values())


def _hockey_stick(
    pair: tuple[frozenset[int], frozenset[int]],
    *,
    dim: int,
    theta: float,
    means: tuple[float, float],
    rate: float,
    gamma: float,
) -> float:
    """H_gamma of a step, by a grid, over all index sets."""

    base = frozenset(range(len(pair[0])))
    laws = np.stack([_law(one, dim, theta) for one in (base, *pair)], axis=1)
    (still, *moved), counts = _counted(laws)
    without, *sampled = (np.exp(-((_LINE - at) ** 2) / 2) / math.sqrt(2 * math.pi) for at in (0.0, *means))
    first, second = (
        (1 - rate) * np.outer(still, without) + rate * np.outer(law, density)
        for law, density in zip(moved, sampled, strict=True)
    )
    return float(counts @ np.maximum(first - gamma * second, 0.0).sum(axis=1)) * _MESH


def _counted(laws: Reals) -> tuple[tuple[Reals, ...], Reals]:
    """Columns without repeated rows, and how often each row stood."""
    rows, counts = np.unique(laws.round(14), axis=0, return_counts=True)
    return tuple(rows.T), counts.astype(float)


def _half_line(scale: float, against: float, still: float) -> float:
    """E of (phi(x - s) - a phi(x + s) - c phi(x))_+ over dx; the event is a half-line."""

    def excess(x: float) -> float:
        return scale * x - scale**2 / 2 - float(np.logaddexp(math.log(against) - scale * x - scale**2 / 2, log_still))

    log_still = math.log(still) if still > 0 else -math.inf
    edge = scipy.optimize.brentq(excess, -1e5, 1e5)
    return float(ndtr(scale - edge) - against * ndtr(-scale - edge) - still * ndtr(-edge))


def farthest_and_base(dim: int, keep: int, theta: float, *, scale: float, rate: float, gamma: float) -> float:
    """H_gamma, gamma >= 1: one record moves the reference as far as it can, the other leaves it; set by set, half-lines."""
    base, far = frozenset(range(keep)), frozenset(range(dim - keep, dim))
    total, still = 0.0, (gamma - 1) * (1 - rate) / rate
    for here, there in zip(_law(base, dim, theta), _law(far, dim, theta), strict=True):
        total += rate * there * _half_line(scale, gamma * here / there, still * here / there)
    return total


def worst(dim: int, keep: int, theta: float, *, scale: float, rate: float, gamma: float) -> float:
    """The profile h of the statement."""
    if gamma < 1:
        return 1 - gamma + gamma * worst(dim, keep, theta, scale=scale, rate=rate, gamma=1 / gamma)
    return farthest_and_base(dim, keep, theta, scale=scale, rate=rate, gamma=gamma)


def _as_far_as_three_can_be(size: int, theta: float, scale: float, rate: float, log_gamma: float, **_: float) -> float:
    """Wrong statement: the worst three references are those that are farthest from one another."""
    dim, keep = _SIZES[size]
    base, gamma = frozenset(range(keep)), math.exp(log_gamma)
    apart = min(_triples(dim, keep), key=lambda two: len(base & two[0]) + len(base & two[1]) + len(two[0] & two[1]))
    pairs = (apart, (frozenset(range(dim - keep, dim)), base))
    thought, other = (
        _hockey_stick(pair, dim=dim, theta=theta, means=(scale, -scale), rate=rate, gamma=gamma) for pair in pairs
    )
    return thought - other


row = new_row(
    id="gip.replaced_indices",
    source=Source("gip", "new, on Theorem 2"),
    verdict=Verdict.HOLDS,
)


@row.inequality(
    {
        "size": Range(0, len(_SIZES) - 1, integer=True),
        "theta": Range(0.05, 2.0),
        "scale": Range(0.3, 2.0),
        "rate": Range(0.05, 0.95),
        "log_gamma": Range(-2.0, 2.0),
        "first": Range(-1.0, 1.0),
        "second": Range(-1.0, 1.0),
    },
    wrong=_as_far_as_three_can_be,
    tolerance=2e-5,  # of the grid
)
def _worst_slack(
    size: int, theta: float, scale: float, rate: float, log_gamma: float, first: float, second: float
) -> float:
    """no references are worse, nor gradients that are alike on every set, gamma below 1 too, all kinds of three sets"""
    dim, keep = _SIZES[size]
    gamma = math.exp(log_gamma)
    most = max(
        _hockey_stick(pair, dim=dim, theta=theta, means=(first * scale, second * scale), rate=rate, gamma=gamma)
        for pair in _triples(dim, keep)
    )
    return worst(dim, keep, theta, scale=scale, rate=rate, gamma=gamma) - most


def _cases() -> Iterator[tuple[int, int, float, float, float, float]]:
    for (dim, keep), theta, scale in itertools.product(_SIZES, (0.1, 1.0), (0.5, 1.5)):
        yield from ((dim, keep, theta, scale, 0.3, gamma) for gamma in (1.0, 1.5, 3.0))


@row.equal(lambda: list(_cases()), tolerance=1e-3)  # of the grid
def _(dim: int, keep: int, theta: float, scale: float, rate: float, gamma: float) -> Sides:
    """attained: the profile set by set against the grid over the whole step; with a record that moves no reference it is not"""
    base, far = frozenset(range(keep)), frozenset(range(dim - keep, dim))
    setting = {"dim": dim, "theta": theta, "means": (scale, -scale), "rate": rate, "gamma": gamma}
    return (
        _hockey_stick((far, base), **setting),  # type: ignore[arg-type]
        worst(dim, keep, theta, scale=scale, rate=rate, gamma=gamma),
        _hockey_stick((base, base), **setting),  # type: ignore[arg-type]
    )
