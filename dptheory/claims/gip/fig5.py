import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

from dptheory import pruning
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.gip._gaussian import zeta
from dptheory.claims.gip.cor1 import printed_beta

row = new_row(
    id="gip.fig5",
    source=Source("gip", "Fig. 5, Appendix B.1"),
    verdict=Verdict.CONDITIONAL,
    printed=printed_beta,
    calculators=(pruning.beta, pruning.retained_gain),
    figure="beta_surface",
)

_SHARES = tuple(Fraction(tenths, 10) for tenths in range(1, 10))


def _slope(dim: int, share: Fraction) -> Fraction:
    """The slope of the retained gain at theta = 0: 2 k (1 - k) d / (d - 1)."""
    return 2 * share * (1 - share) * Fraction(dim, dim - 1)


def _slope_by_the_law_of_swaps(dim: int, keep: int) -> Fraction:
    """2 Var(i) / E[i] of the number of swapped pairs of a random index set, in fractions."""
    total, swaps = math.comb(dim, keep), range(min(keep, dim - keep) + 1)
    ways = [math.comb(keep, i) * math.comb(dim - keep, i) for i in swaps]
    mean, square = (Fraction(sum(w * i**power for i, w in zip(swaps, ways, strict=True)), total) for power in (1, 2))
    return 2 * (square - mean**2) / mean


@row.equal(lambda: [(dim, share) for dim in (10, 50, 200) for share in _SHARES])
def _(dim: int, share: Fraction) -> Sides:
    """slope of the retained gain at theta = 0, from the law of the swaps in fractions"""
    return (
        _slope(dim, share),
        lambda: _slope_by_the_law_of_swaps(dim, int(share * dim)),
        2 * share * (1 - share),  # wrong: no d
    )


@row.equal(lambda: [(dim, share) for dim in (10, 50, 200) for share in _SHARES], tolerance=1e-6)
def _(dim: int, share: Fraction) -> Sides:
    """log beta for a small theta, over theta"""
    theta = 1e-8
    return (
        float(_slope(dim, share)) * zeta(float(share)),
        lambda: math.log(printed_beta(1.0, int(share * dim), dim, theta)) / theta,
        float(_slope(2 * dim, share)) * zeta(float(share)),
    )


def _falls_cases() -> Iterator[tuple[str, float, Fraction, int, int]]:
    for (how, size), share in itertools.product(
        (("theta", 0.01), ("theta", 0.5), ("theta", 2.0), ("budget", 0.01), ("budget", 1.0), ("budget", 10.0)), _SHARES
    ):
        for dims in itertools.pairwise((10, 20, 50, 100, 200)):
            yield how, size, share, *dims


def _falls(how: str, size: float, share: Fraction, low: int, high: int) -> bool:
    def value(dim: int) -> float:
        keep = int(share * dim)
        theta = size if how == "theta" else size / (2 * min(keep, dim - keep))
        return printed_beta(1.0, keep, dim, theta)

    return value(high) < value(low)


@row.equal(_falls_cases, kind=Kind.COUNTEREXAMPLE)
def _(how: str, size: float, share: Fraction, low: int, high: int) -> Sides:
    """beta falls from each d to the next"""
    # wrong: a larger d leads to a greater beta
    return True, lambda: _falls(how, size, share, low, high), False


def _rises(beta: Callable[[int, int], float], low: tuple[int, int], high: tuple[int, int]) -> bool:
    return beta(*high) > beta(*low)


def _without_noise_cases() -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """(d, K) and the next larger k at one d, or the next larger d at one k."""
    dims = (10, 20, 50, 100, 200, 10**6)
    for dim, (less, more) in itertools.product(dims, itertools.pairwise(_SHARES)):
        yield (dim, int(less * dim)), (dim, int(more * dim))
    for share, (low, high) in itertools.product(_SHARES, itertools.pairwise(dims)):
        yield (low, int(share * low)), (high, int(share * high))


@row.equal(_without_noise_cases)
def _(low: tuple[int, int], high: tuple[int, int]) -> Sides:
    """without index noise the exact beta rises from each k and each d to the next"""
    return (
        True,
        lambda: _rises(lambda dim, keep: pruning.beta(dim, keep, theta=math.inf, clip_norm=1.0), low, high),
        # wrong: the printed one, which does not depend on d
        low[0] == high[0] and _rises(lambda dim, keep: printed_beta(1.0, keep, dim, math.inf), low, high),
    )


def _smallest_mean(dim: int, keep: int) -> Fraction:
    """Mean of the d - K smallest of d independent draws from 1, 2 and 3, in expectation."""
    draws = itertools.product((1, 2, 3), repeat=dim)
    return Fraction(sum(sum(sorted(drawn)[: dim - keep]) for drawn in draws), 3**dim * (dim - keep))


@row.equal(((2, 1), (4, 2)), ((3, 1), (6, 2)), ((3, 2), (6, 4)), ((4, 2), (6, 3)), ((6, 2), (6, 3)), ((6, 4), (6, 5)))
def _(low: tuple[int, int], high: tuple[int, int]) -> Sides:
    """the mean of the smallest entries falls as k or d grows, for entries of another law, in fractions"""
    # wrong: it stays, as that of random ones does
    return True, lambda: _smallest_mean(*high) < _smallest_mean(*low), False
