import math

from dptheory import pruning
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._gaussian import zeta
from dptheory.claims.gip.cor1 import printed_beta

_PRINTED_BETAS = (*((256, keep, 0.9913) for keep in (26, 128, 230)), (10, 1, 0.78))


def _attainable(dim: int, keep: int, value: float) -> bool:
    """Some theta >= 0 gives this beta, exact, asymptotic or printed, for C = 1 (all rise from 1 in theta)."""
    highest = max(
        pruning.beta(clip_norm=1.0, keep=keep, dim=dim, theta=math.inf, method="asymptotic"),
        printed_beta(1.0, keep, dim, math.inf),
    )
    return pruning.beta(clip_norm=1.0, keep=keep, dim=dim, theta=0.0) <= value <= highest


row = new_row(
    id="gip.beta_values",
    source=Source("gip", "Corollary 1 and Appendix B.1"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_beta,
    calculators=(pruning.beta,),
    figure="beta",
)


@row.equal(lambda: [*_PRINTED_BETAS, (10, 1, 1.5)], kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int, value: float) -> Sides:
    """no theta gives the printed values"""
    return _attainable(dim, keep, value), value >= 1, True


def _raised_beta_slack(dim: float, keep_share: float, theta: float) -> float:
    return _least_beta_slack(dim, keep_share, theta) - 1e-3


@row.inequality(
    {"dim": Range(2, 2000, log=True), "keep_share": Range(0, 1), "theta": Range(1e-12, 50, log=True)},
    wrong=_raised_beta_slack,
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


@row.equal(
    lambda: [(256, 0.1, 26, 0.9939), (256, 0.08, 21, 0.9912), (11, 0.1, 2, 0.777), (10, 0.1, 2, 0.745)],
    kind=Kind.COUNTEREXAMPLE,
)
def _(dim: int, keep_share: float, swaps: int, value: float) -> Sides:
    """the printed formula with k d rounded up in the sum alone: below 1, to the digits that the page has"""
    digits = len(repr(value)) - 2
    return value, lambda: round(_printed_with_rounded_swaps(dim, keep_share, swaps), digits), 1.0
