from functools import partial

from dptheory import pruning
from dptheory.claims._row import Severity, Sides, Source, Verdict, new_row
from dptheory.claims.gip._at_scale import counted_mean_swaps
from dptheory.claims.gip._gaussian import energy_by_quadrature, pruned_gaussian, ranked_loss, zeta
from dptheory.claims.gip.mse_t0 import printed_top_k_mse


def printed_perturbed_mse(dim: int, keep: int, theta: float, sigma_g: float) -> float:
    """MSE_t as printed in equations 7 and 24."""
    k = keep / dim
    swaps = pruning.SubsetMallows(dim, keep, theta=theta).mean_swaps()
    return printed_top_k_mse(dim, keep, sigma_g) + sigma_g**2 * zeta(k) / k * swaps


_DIM, _KEEP, _THETA = 60, 15, 0.5


def _loss_by_rank(dim: int, keep: int, theta: float) -> float:
    """MSE_t by the chance of each entry to be left out: the E[i] swapped ones are uniform on both sides of the threshold."""
    swaps = counted_mean_swaps(dim, keep, theta)
    return ranked_loss(dim, keep, swaps / keep, 1 - swaps / (dim - keep))


def _asymptotic_rise(dim: int, keep: int, theta: float) -> float:
    """MSE_t - MSE_t0 with every entry on its side of the limiting threshold, by quadrature."""
    swaps, k = counted_mean_swaps(dim, keep, theta), keep / dim
    return swaps * (energy_by_quadrature(dim, k, True) / keep - energy_by_quadrature(dim, k, False) / (dim - keep))


row = new_row(
    id="gip.mse_t",
    source=Source("gip", "Proposition 2", (7, 17, 19, 20, 22, 23, 24)),
    verdict=Verdict.FALSE,
    severity=Severity.REPAIRABLE,
    printed=printed_perturbed_mse,
    calculators=(pruning.perturbed_top_k_mse, pruning.SubsetMallows.mean_swaps),
    figure="retained_gain",
)


@row.mean(
    partial(pruned_gaussian, dim=_DIM, keep=_KEEP, theta=_THETA),
    wrong=lambda: printed_perturbed_mse(_DIM, _KEEP, _THETA, 1.0),
    row_bytes=2400,
)
def _() -> float:
    """Gaussian gradient, d = 60"""
    return float(pruning.perturbed_top_k_mse(_DIM, _KEEP, theta=_THETA, sigma_g=1.0))


@row.equal(
    lambda: [(*size, theta) for size in ((10, 3), (8, 6), (20_000, 3000), (10**6, 50)) for theta in (0.0, 0.3, 3.0)],
    tolerance=1e-8,
)
def _(dim: int, keep: int, theta: float) -> Sides:
    """expected number of swaps, by counting index sets"""
    return (
        pruning.SubsetMallows(dim, keep, theta=theta).mean_swaps(),
        lambda: counted_mean_swaps(dim, keep, theta),
        keep * (dim - keep) / dim,  # random-k's
    )


@row.equal(
    lambda: [
        (*size, theta) for size in ((10, 3), (100, 10), (1000, 500), (20_000, 3000)) for theta in (1e-9, 0.3, 3.0)
    ],
    tolerance=1e-9,
)
def _(dim: int, keep: int, theta: float) -> Sides:
    """coefficient of the expected swaps: chance of each entry to be left out, by its rank"""
    return (
        pruning.perturbed_top_k_mse(dim, keep, theta=theta, sigma_g=1.0),
        lambda: _loss_by_rank(dim, keep, theta),
        printed_perturbed_mse(dim, keep, theta, 1.0),
    )


@row.equal((1000, 100, 0.3), (1000, 500, 1.0), (20_000, 2000, 0.01), (10**6, 10**5, 1.0), tolerance=1e-8)
def _(dim: int, keep: int, theta: float) -> Sides:
    """asymptotic coefficient: energy on both sides of the threshold, by quadrature"""
    return (
        pruning.perturbed_top_k_mse(dim, keep, theta=theta, sigma_g=1.0, method="asymptotic")
        - pruning.top_k_mse(dim, keep, sigma_g=1.0, method="asymptotic"),
        lambda: _asymptotic_rise(dim, keep, theta),
        counted_mean_swaps(dim, keep, theta) * zeta(keep / dim) / (keep / dim),
    )


@row.equal((1000, 100), (1000, 500), (10**6, 1000), tolerance=1e-8)
def _(dim: int, keep: int) -> Sides:
    """asymptotic coefficient in closed form"""
    return (
        (zeta(keep / dim) - keep / dim) / (keep / dim * (1 - keep / dim)),
        lambda: (
            energy_by_quadrature(dim, keep / dim, True) / keep
            - energy_by_quadrature(dim, keep / dim, False) / (dim - keep)
        ),
        zeta(keep / dim) / (keep / dim),
    )
