"""Pruned and noised gradients: their error, the Mallows mechanism of the index vector, and other ways to select entries."""

from dptheory.pruning._comparison import PruningComparison, compare_methods
from dptheory.pruning._direction import cosine_ratio, least_retained_gain, pruned_cosine
from dptheory.pruning._error import (
    beta,
    expected_norm,
    noise_mse,
    perturbed_top_k_mse,
    random_k_mse,
    retained_gain,
    top_k_energy,
    top_k_mask,
    top_k_mse,
    zero_update_mse,
)
from dptheory.pruning._index_budget import (
    IndexBudget,
    SparseIndexBudget,
    groups_of,
    index_budget,
    sparse_index_budget,
    theta_for_budget,
)
from dptheory.pruning._mallows import SubsetMallows, index_sensitivity, theta_for_retained_gain
from dptheory.pruning._randomized_response import (
    mallows_theta,
    randomized_response_epsilon,
    randomized_response_probability,
)
from dptheory.pruning._selection import (
    SelectionGains,
    gumbel_gain,
    gumbel_rate,
    magnitude_gain,
    magnitude_noise,
    released_gain,
    released_top_k_mse,
    selection_gain_bound,
    selection_gains,
)

__all__ = [
    "IndexBudget",
    "PruningComparison",
    "SelectionGains",
    "SparseIndexBudget",
    "SubsetMallows",
    "beta",
    "compare_methods",
    "cosine_ratio",
    "expected_norm",
    "groups_of",
    "gumbel_gain",
    "gumbel_rate",
    "index_budget",
    "index_sensitivity",
    "least_retained_gain",
    "magnitude_gain",
    "magnitude_noise",
    "mallows_theta",
    "noise_mse",
    "perturbed_top_k_mse",
    "pruned_cosine",
    "random_k_mse",
    "randomized_response_epsilon",
    "randomized_response_probability",
    "released_gain",
    "released_top_k_mse",
    "retained_gain",
    "selection_gain_bound",
    "selection_gains",
    "sparse_index_budget",
    "theta_for_budget",
    "theta_for_retained_gain",
    "top_k_energy",
    "top_k_mask",
    "top_k_mse",
    "zero_update_mse",
]
