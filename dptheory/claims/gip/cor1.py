import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

from dptheory import pruning
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._finite import counted_swaps, gain, pruned_gaussian, ranked_loss, zeta


def printed_beta(clip: float, keep: int, dim: int, theta: float) -> float:
    """beta as printed in Corollary 1; equals C^2 / (1 - rho zeta)."""
    k = keep / dim
    swaps = pruning.SubsetMallows(dim, keep, theta=theta).mean_swaps()
    top_k_part = (1 - k) * dim * (1 - zeta(k))
    return clip**2 * (1 - k) * dim / (top_k_part + zeta(k) / k * swaps)


def _pruning_wins(clip: float, dim: int, keep: int, theta: float, ratio: float) -> bool:
    """MSE of pruning + noise below that of DP-SGD at sigma_g^2 / sigma^2 = ratio, by enumeration and rank integrals."""
    rho = 1.0 if math.isinf(theta) else gain(dim, keep, Fraction(math.exp(-theta)))
    pruned = ratio * (rho * ranked_loss(dim, keep) + (1 - rho) * (dim - keep)) + keep * clip**2
    return pruned < dim * clip**2


def _ratio_cases() -> Iterator[tuple[float, int, int, float, float]]:
    for clip, dim, keep, theta in (
        (1.0, 10, 1, 1.0),
        (0.1, 60, 15, 0.5),
        (3.0, 256, 26, 5.0),
        (1.0, 256, 128, 1e-11),
        (1.0, 20_000, 2_000, math.inf),
    ):
        exact, printed = (
            pruning.beta(clip_norm=clip, keep=keep, dim=dim, theta=theta),
            printed_beta(clip, keep, dim, theta),
        )
        for ratio in (0.999 * exact, 1.001 * exact, 0.5 * (exact + printed)):
            yield clip, dim, keep, theta, ratio


_DIM, _KEEP, _THETA = 40, 10, 1.0


cor1 = new_row(
    id="gip.cor1",
    source=Source("gip", "Corollary 1"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    printed=printed_beta,
    calculators=(pruning.beta,),
    figure="beta",
)


@cor1.equal(_ratio_cases, kind=Kind.COUNTEREXAMPLE)
def _(clip: float, dim: int, keep: int, theta: float, ratio: float) -> Sides:
    """pruning wins below the exact beta only"""
    return (
        ratio < pruning.beta(clip_norm=clip, keep=keep, dim=dim, theta=theta),
        lambda: _pruning_wins(clip, dim, keep, theta, ratio),
        ratio <= printed_beta(clip, keep, dim, theta),
    )


@cor1.mean(
    partial(pruned_gaussian, dim=_DIM, keep=_KEEP, theta=_THETA),
    wrong=lambda: (_DIM - _KEEP) / printed_beta(1.0, _KEEP, _DIM, _THETA),
    row_bytes=1600,
)
def _() -> float:
    """pruning MSE at beta, d = 40"""
    return (_DIM - _KEEP) / pruning.beta(clip_norm=1.0, keep=_KEEP, dim=_DIM, theta=_THETA)


@cor1.inequality(
    {"dim": Range(2, 2000, log=True), "keep_share": Range(0, 1), "theta": Range(1e-9, 20, log=True)},
    # wrong: the printed one is no larger than the exact one
    wrong=lambda dim, keep_share, theta: _chain(dim, keep_share, theta)[1] / _chain(dim, keep_share, theta)[3] - 1,
)
def _beta_order_slack(dim: float, keep_share: float, theta: float) -> float:
    """C^2 <= exact <= asymptotic <= printed"""
    return min(above / below - 1 for below, above in itertools.pairwise(_chain(dim, keep_share, theta)))


def _chain(dim: float, keep_share: float, theta: float) -> tuple[float, float, float, float]:
    """C^2 = 1 and the three values of beta."""
    size, keep = _finite.sizes(dim, keep_share)
    exact = pruning.beta(clip_norm=1.0, keep=keep, dim=size, theta=theta)
    asymptotic = pruning.beta(clip_norm=1.0, keep=keep, dim=size, theta=theta, method="asymptotic")
    return 1.0, exact, asymptotic, printed_beta(1.0, keep, size, theta)


_PRINTED_BETAS = (*((256, keep, 0.9913) for keep in (26, 128, 230)), (10, 1, 0.78))


def _attainable(dim: int, keep: int, value: float) -> bool:
    """Some theta >= 0 gives this beta, exact, asymptotic or printed, for C = 1 (all rise from 1 in theta)."""
    highest = max(
        pruning.beta(clip_norm=1.0, keep=keep, dim=dim, theta=math.inf, method="asymptotic"),
        printed_beta(1.0, keep, dim, math.inf),
    )
    return pruning.beta(clip_norm=1.0, keep=keep, dim=dim, theta=0.0) <= value <= highest


beta_values = new_row(
    id="gip.beta_values",
    source=Source("gip", "Corollary 1 and Appendix B.1"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_beta,
    calculators=(pruning.beta,),
    figure="beta",
)


@beta_values.equal(lambda: [*_PRINTED_BETAS, (10, 1, 1.5)], kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int, value: float) -> Sides:
    """no theta gives the printed values"""
    return _attainable(dim, keep, value), value >= 1, True


@beta_values.inequality(
    {"dim": Range(2, 2000, log=True), "keep_share": Range(0, 1), "theta": Range(1e-12, 50, log=True)},
    wrong=1e-3,
)
def _least_beta_slack(dim: float, keep_share: float, theta: float) -> float:
    """beta >= 1"""
    size, keep = _finite.sizes(dim, keep_share)
    return pruning.beta(clip_norm=1.0, keep=keep, dim=size, theta=theta) - 1


def _printed_with_rounded_swaps(dim: int, keep_share: float, swaps: int) -> float:
    """The printed beta at theta = 0 and C = 1, k as it is and the sum over another number of entries kept."""
    mean_swaps = pruning.SubsetMallows(dim, swaps, theta=0.0).mean_swaps()
    left = (1 - keep_share) * dim
    return left / (left * (1 - zeta(keep_share)) + zeta(keep_share) / keep_share * mean_swaps)


@beta_values.equal(
    lambda: [(256, 0.1, 26, 0.9939), (256, 0.08, 21, 0.9912), (11, 0.1, 2, 0.777), (10, 0.1, 2, 0.745)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(dim: int, keep_share: float, swaps: int, value: float) -> Sides:
    """the printed formula with k d rounded up in the sum alone: below 1, to the digits that the page has"""
    digits = len(repr(value)) - 2
    return value, lambda: round(_printed_with_rounded_swaps(dim, keep_share, swaps), digits), 1.0


fig5 = new_row(
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
    law = counted_swaps(dim, keep, Fraction(1))
    mean, square = (sum((p * i**power for i, p in law.items()), Fraction(0)) for power in (1, 2))
    return 2 * (square - mean**2) / mean


@fig5.equal(lambda: [(dim, share) for dim in (10, 50, 200) for share in _SHARES])
def _(dim: int, share: Fraction) -> Sides:
    """slope of the retained gain at theta = 0, from the law of the swaps in fractions"""
    return (
        _slope(dim, share),
        lambda: _slope_by_the_law_of_swaps(dim, int(share * dim)),
        2 * share * (1 - share),  # wrong: no d
    )


@fig5.equal(lambda: [(dim, share) for dim in (10, 50, 200) for share in _SHARES], tolerance=1e-6)
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


@fig5.equal(_falls_cases, kind=Kind.COUNTEREXAMPLE)
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


@fig5.equal(_without_noise_cases)
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


@fig5.equal(((2, 1), (4, 2)), ((3, 1), (6, 2)), ((3, 2), (6, 4)), ((4, 2), (6, 3)), ((6, 2), (6, 3)), ((6, 4), (6, 5)))
def _(low: tuple[int, int], high: tuple[int, int]) -> Sides:
    """the mean of the smallest entries falls as k or d grows, for entries of another law, in fractions"""
    # wrong: it stays, as that of random ones does
    return True, lambda: _smallest_mean(*high) < _smallest_mean(*low), False
