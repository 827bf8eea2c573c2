"""Methods side by side: each number against the formula that the ledger checks."""

import pytest

from dptheory import pruning
from dptheory.pruning import PruningComparison, compare_methods


@pytest.mark.parametrize(("dim", "keep"), [(10, 3), (2_700_000, 270_000)])
@pytest.mark.parametrize(("sigma_g", "noise_std"), [(1.0, 1.0), (0.5, 2.0), (3.0, 0.25)])
def test_every_field(dim: int, keep: int, sigma_g: float, noise_std: float) -> None:
    pruned = float(pruning.top_k_mse(dim, keep, sigma_g=sigma_g))
    assert compare_methods(dim, keep, sigma_g=sigma_g, noise_std=noise_std) == PruningComparison(
        dp_sgd_mse=dim * noise_std**2,
        zero_update_mse=dim * sigma_g**2,
        random_k_mse=(dim - keep) * sigma_g**2 + keep * noise_std**2,
        top_k_mse=pruned + keep * noise_std**2,
        top_k_pruning_mse=pruned,
        least_retained_gain=pruning.least_retained_gain(dim, keep),
    )


def test_without_noise_only_pruning_is_left() -> None:
    found = compare_methods(100, 10, noise_std=0.0)
    assert found.dp_sgd_mse == 0.0 and found.top_k_mse == found.top_k_pruning_mse
    assert compare_methods(100, 10) == compare_methods(100, 10, sigma_g=1.0, noise_std=1.0)
