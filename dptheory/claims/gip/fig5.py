"""gip.fig5: beta over k and d."""

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

from dptheory import pruning
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict
from dptheory.claims.gip._gaussian import zeta
from dptheory.claims.gip.cor1 import printed_beta

row = Row(
    Claim(
        id="gip.fig5",
        title="beta over k and d",
        source=Source("gip", "Fig. 5, Appendix B.1"),
        statement=r"""$\log\beta$ of Corollary 1 is shown over $d\in[10,200]$, $k\in[0.1,0.9]$: "dominantly determined by $k$. A larger $k$ and a
larger $d$ most likely lead to a greater $\beta$".""",
        verdict=Verdict.CONDITIONAL,
        summary=r"true of the exact $\beta$ without index noise, $\theta = \infty$; at the small $\theta$ that a budget allows the printed "
        r"$\beta$ falls as $d$ grows, and is not monotone in $k$.",
        conditions=(
            r"Unstated: $\theta = \infty$, and the exact $\beta$ ([gip.cor1](cor1.md)) in place of the printed one, which does not depend "
            r"on $d$ there. Then $\beta$ rises with $k$ and, at one $k$, with $d$; the least value of the figure's range is that at "
            r"$(k,d) = (0.1,10)$, where the paper has it, but above $C^2$ ([gip.beta_values](beta_values.md)).",
            r"The paper does not say how $\theta$ varies over the figure. Three readings are judged with the printed $\beta$: one $\theta$, one "
            r"pure budget $\epsilon = 2\theta\min(K,d-K)$ of a release, and one that is shared by the $D/d$ groups of section 4.2, which leaves "
            r"each $\theta = \epsilon/(2D\min(k,1-k))$. None can be the figure's: in each $\beta$ at $k = 0.1$ is least at $d = 200$.",
            r"These for small $\theta$, with $k = K/d$ fixed. That the printed $\beta$ falls in $d$ for larger $\theta$ too is observed, on "
            "the figure's range.",
            r"The exact $\beta$ at one small $\theta$ rises with $d$ for $k$ = 0.1 and 0.2 and falls from 0.3 on (observed, on the "
            "figure's range).",
            r'"Dominantly determined by $k$" is right at one $\theta$, where $\frac d{d-1}$ changes by a tenth, not at one budget.',
        ),
        correction=r"""For $\theta\to0$, $\log\beta_{\mathrm{printed}} = 2\log C+2\theta\zeta k(1-k)\frac d{d-1}+O(\theta^2)$, $\zeta = k+2a\varphi(a)$:

1. at one $\theta$ the second term falls in $d$ like $\frac d{d-1}$, and in $k$ it rises from 0 and falls to 0;
   if a budget is shared by the groups it is $\frac\epsilon D\zeta\max(k,1-k)\frac d{d-1}$ and falls in $d$ likewise;
2. at one budget $\epsilon = 2\theta\min(K,d-K)$ of a release that term is $\epsilon\zeta\frac{\max(k,1-k)}{d-1}$: it falls in $d$ like
   $\frac1{d-1}$; in $k$ it rises, falls and rises again (0.395, 0.548, 0.464 and 0.900 for $k$ = 0.1, 0.3, 0.5 and 0.9, before
   $\frac\epsilon{d-1}$).

At $\theta = \infty$, $\beta_{\mathrm{printed}} = C^2/(1-\zeta)$, with $\zeta'(k) = a^2\ge0$; the exact $\beta$ is $C^2s^2$ over the mean
of the $d-K$ smallest squares in expectation, and rises with $K$ and, at one $k = K/d$, with $d$, whatever the law of the entries.""",
        printed=printed_beta,
        calculators=(pruning.beta, pruning.retained_gain),
        proved=True,
        figure="beta_surface",
    )
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
