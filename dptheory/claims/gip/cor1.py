import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial

from dptheory import pruning
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._gaussian import pruned_gaussian, ranked_loss, zeta
from dptheory.claims.gip.prop2 import gain


def printed_beta(clip: float, keep: int, dim: int, theta: float) -> float:
    """beta as printed in Corollary 1; equals C^2 / (1 - rho zeta)."""
    k = keep / dim
    swaps = pruning.SubsetMallows(dim, keep, theta=theta).mean_swaps()
    top_k_part = (1 - k) * dim * (1 - zeta(k))
    return clip**2 * (1 - k) * dim / (top_k_part + zeta(k) / k * swaps)


def _printed_is_safe_slack(dim: float, keep_share: float, theta: float) -> float:
    size, keep = _finite.sizes(dim, keep_share)
    return pruning.beta(clip_norm=1.0, keep=keep, dim=size, theta=theta) / printed_beta(1.0, keep, size, theta) - 1


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


row = new_row(
    id="gip.cor1",
    source=Source("gip", "Corollary 1"),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    printed=printed_beta,
    calculators=(pruning.beta,),
    figure="beta",
)


@row.equal(_ratio_cases, kind=Kind.COUNTEREXAMPLE)
def _(clip: float, dim: int, keep: int, theta: float, ratio: float) -> Sides:
    """pruning wins below the exact beta only"""
    return (
        ratio < pruning.beta(clip_norm=clip, keep=keep, dim=dim, theta=theta),
        lambda: _pruning_wins(clip, dim, keep, theta, ratio),
        ratio <= printed_beta(clip, keep, dim, theta),
    )


@row.mean(
    partial(pruned_gaussian, dim=_DIM, keep=_KEEP, theta=_THETA),
    wrong=lambda: (_DIM - _KEEP) / printed_beta(1.0, _KEEP, _DIM, _THETA),
    row_bytes=1600,
)
def _() -> float:
    """pruning MSE at beta, d = 40"""
    return (_DIM - _KEEP) / pruning.beta(clip_norm=1.0, keep=_KEEP, dim=_DIM, theta=_THETA)


@row.inequality(
    {"dim": Range(2, 2000, log=True), "keep_share": Range(0, 1), "theta": Range(1e-9, 20, log=True)},
    wrong=_printed_is_safe_slack,
)
def _beta_order_slack(dim: float, keep_share: float, theta: float) -> float:
    """C^2 <= exact <= asymptotic <= printed"""
    size, keep = _finite.sizes(dim, keep_share)
    chain = (
        1.0,
        pruning.beta(clip_norm=1.0, keep=keep, dim=size, theta=theta),
        pruning.beta(clip_norm=1.0, keep=keep, dim=size, theta=theta, method="asymptotic"),
        printed_beta(1.0, keep, size, theta),
    )
    return min(above / below - 1 for below, above in itertools.pairwise(chain))
