import math
from functools import partial

import scipy

from dptheory import pruning
from dptheory.claims._row import Kind, Range, Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._gaussian import energy_by_quadrature, pruned_gaussian, ranked_loss, zeta


def printed_top_k_mse(dim: int, keep: int, sigma_g: float = 1.0) -> float:
    """MSE_t0 as printed in equations 7 and 16: the factor 1 - k stands there twice."""
    return (dim - keep) * sigma_g**2 * (1 - zeta(keep / dim))


row = new_row(
    id="gip.mse_t0",
    source=Source("gip", "Proposition 2", (7, 14, 15, 16)),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    printed=printed_top_k_mse,
    calculators=(pruning.top_k_mse, pruning.top_k_energy),
    figure="top_k_mse",
)


@row.equal((2, 1), tolerance=1e-13, kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int) -> tuple[float, float]:
    """two entries: 1 - 2/pi"""
    return float(pruning.top_k_mse(dim, keep, sigma_g=1.0)), 1 - 2 / math.pi


@row.equal((3, 1), (3, 2), (10, 1), (10, 9), (100, 10), (1000, 5), (10_000, 3000), tolerance=1e-9)
def _(dim: int, keep: int) -> Sides:
    """second method: rank of each entry"""
    asymptotic = pruning.top_k_mse(dim, keep, sigma_g=1.0, method="asymptotic")
    return pruning.top_k_mse(dim, keep, sigma_g=1.0), lambda: ranked_loss(dim, keep), asymptotic


@row.equal((2, 1), (100, 10), (10**6, 3), (10**9, 10**8), tolerance=1e-12)
def _(dim: int, keep: int) -> Sides:
    """kept and lost energy add up"""
    lost, kept = pruning.top_k_mse(dim, keep, sigma_g=1.0), pruning.top_k_energy(dim, keep, sigma_g=1.0)
    return lost + kept, dim, printed_top_k_mse(dim, keep) + kept


@row.mean(
    partial(pruned_gaussian, dim=500, keep=50, theta=math.inf),
    wrong=lambda: printed_top_k_mse(500, 50),
    row_bytes=20_000,
)
def _() -> float:
    """Gaussian gradient, d = 500"""
    return float(pruning.top_k_mse(500, 50, sigma_g=1.0))


@row.mean(
    partial(pruned_gaussian, dim=20, keep=2, theta=math.inf),
    wrong=lambda: pruning.top_k_mse(20, 2, sigma_g=1.0, method="asymptotic"),
    row_bytes=800,
)
def _() -> float:
    """finite dimension counts, d = 20"""
    return float(pruning.top_k_mse(20, 2, sigma_g=1.0))


@row.equal((10**6, 10**5), (10**6, 5 * 10**5), (10**6, 9 * 10**5), tolerance=1e-4)
def _(dim: int, keep: int) -> Sides:
    """limit of the gap"""
    a = scipy.stats.norm.isf(keep / dim / 2)
    limit = keep / dim * (1 - keep / dim) * a / (2 * scipy.stats.norm.pdf(a))
    gap = pruning.top_k_mse(dim, keep, sigma_g=1.0) - pruning.top_k_mse(dim, keep, sigma_g=1.0, method="asymptotic")
    return limit, gap, 2 * limit


def _strengthened(dim: float, keep_share: float) -> float:
    return jensen_slack(dim, keep_share) - 1e-3


@row.inequality(
    {"dim": Range(2, 1e9, log=True), "keep_share": Range(0, 1)},
    wrong=_strengthened,
)
def jensen_slack(dim: float, keep_share: float) -> float:
    """asymptotic <= exact"""
    size, keep = _finite.sizes(dim, keep_share)
    return 1 - float(
        pruning.top_k_mse(size, keep, sigma_g=1.0, method="asymptotic") / pruning.top_k_mse(size, keep, sigma_g=1.0)
    )


@row.equal(
    lambda: [(dim, k, kept) for dim in (100, 20_000, 10**6) for k in (0.1, 0.5) for kept in (False, True)],
    tolerance=1e-9,
)
def _(dim: int, k: float, kept: bool) -> Sides:
    """asymptotic forms: energy beyond and below the threshold, by quadrature"""
    keep = round(k * dim)
    stated = pruning.top_k_energy if kept else pruning.top_k_mse
    return (
        stated(dim, keep, sigma_g=1.0, method="asymptotic"),
        energy_by_quadrature(dim, k, kept),
        printed_top_k_mse(dim, keep),
    )
