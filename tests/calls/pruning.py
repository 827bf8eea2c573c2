"""Pruned, masked and sparsified gradients: errors, kappa, trade-offs, schedules, costs, reconstruction."""

import numpy as np

from tests.calls import Calls, Fresh, call, dear

_GRADIENT = np.linspace(0.1, 1.0, 8)
_LONG = np.random.default_rng(0).standard_normal(20_000)
_LARGE = {"dim": 2_700_000, "keep": 270_000}
_SMALL = {"dim": 10, "keep": 3}

CALLS: Calls = {
    "dptheory.pruning.top_k_mask": [call(gradient=_GRADIENT, keep=3), dear(gradient=_LONG, keep=2000)],
    "dptheory.pruning.expected_norm": [call(dim=10, sigma_g=1.0), call(dim=2_700_000, sigma_g=[0.1, 1.0])],
    "dptheory.pruning.zero_update_mse": [call(dim=10, sigma_g=1.0), call(dim=2_700_000, sigma_g=[0.1, 1.0])],
    "dptheory.pruning.noise_mse": [
        call(keep=3, clip_norm=1.0, noise_multiplier=1.0),
        call(keep=270_000, clip_norm=[0.1, 1.0], noise_multiplier=1.1),
    ],
    "dptheory.pruning.random_k_mse": [call(**_SMALL, sigma_g=1.0), call(**_LARGE, sigma_g=[0.1, 1.0])],
    "dptheory.pruning.top_k_mse": [
        call(**_SMALL, sigma_g=1.0, method="exact"),
        call(**_LARGE, sigma_g=[0.1, 1.0]),
    ],
    "dptheory.pruning.top_k_energy": [
        call(**_SMALL, sigma_g=1.0, method="exact"),
        call(**_LARGE, sigma_g=[0.1, 1.0]),
    ],
    "dptheory.pruning.retained_gain": [call(**_SMALL, theta=0.3), call(dim=256, keep=26, theta=1e-3)],
    "dptheory.pruning.perturbed_top_k_mse": [
        call(**_SMALL, theta=0.3, sigma_g=1.0, method="exact"),
        call(dim=256, keep=26, theta=1e-3, sigma_g=[0.1, 1.0]),
    ],
    "dptheory.pruning.beta": [
        call(clip_norm=1.0, keep=3, dim=10, theta=0.3, method="exact"),
        call(clip_norm=1.0, keep=26, dim=256, theta=1e-3),
    ],
    "dptheory.pruning.pruned_cosine": [
        call(grad_norm=2.0, retained_norm=1.0, keep=3, noise_std=1.0),
        call(grad_norm=2.0, retained_norm=1.0, keep=270_000, noise_std=1.0),
    ],
    "dptheory.pruning.cosine_ratio": [
        call(**_SMALL, theta=0.3, method="exact", groups=2),
        call(dim=256, keep=26, theta=1e-3, groups=10_547),
    ],
    "dptheory.pruning.least_retained_gain": [
        call(**_SMALL, method="exact", groups=2),
        call(dim=256, keep=26, groups=10_547),
    ],
    "dptheory.pruning.compare_methods": [
        call(**_SMALL, sigma_g=1.0, noise_std=0.5),
        call(**_LARGE, sigma_g=0.1, noise_std=0.5),
    ],
    "dptheory.sparsification.divisor_kl": [
        call(batch_size=10, other_batch_size=11, keep=5),
        call(batch_size=1000, other_batch_size=1001, keep=1_000_000),
    ],
    "dptheory.sparsification.divisor_renyi": [
        call(order=2.0, batch_size=10, other_batch_size=11, keep=5),
        call(order=32.0, batch_size=1000, other_batch_size=1001, keep=1_000_000),
    ],
    "dptheory.sparsification.divisor_delta": [
        call(epsilon=1.0, batch_size=10, other_batch_size=11, keep=5),
        call(epsilon=0.1, batch_size=1000, other_batch_size=1001, keep=1_000_000),
    ],
    "dptheory.sparsification.average_sensitivity": [call(batch_size=10, clip_norm=1.0)],
    "dptheory.sparsification.published_size_delta": [
        call(epsilon=0.5, train_size=20, sampling_rate=0.5, shift=1.0),
        dear(epsilon=0.5, train_size=60_000, sampling_rate=0.01, shift=1.0),
    ],
    "dptheory.sparsification.flat_kappa": [
        call(grad_norm=2.0, dim=10, clip_norm=4.0, drop_rate=0.5, deviation=0.05),
        call(grad_norm=2.0, dim=10**12, clip_norm=4.0, drop_rate=0.5),
    ],
    "dptheory.sparsification.optimal_rates": [call(delta_c=0.5, step_noise=1.0)],
    "dptheory.sparsification.reconstruction_errors": [
        dear(vector=[1.0, 2.0, 3.0, 4.0], drop_rate=0.5, noise_std=0.1, prior_std=2.0),
        dear(vector=np.repeat([1.0, 2.0], 50), drop_rate=0.9, noise_std=0.1, prior_std=1.0),
    ],
    "dptheory.sparsification.captured_energy": [call(**_SMALL, snr=1.0), call(**_LARGE, snr=0.01)],
    "dptheory.sparsification.signed_captured_energy": [call(keep_share=0.3, snr=1.0)],
    "dptheory.sparsification.sparse_captured_energy": [dear(keep_share=0.3, snr=1.0, nonzero_share=0.5)],
    "dptheory.gradients.kept_entries": [call(dim=10, drop_rate=0.5), call(dim=1_000_000, drop_rate=0.9)],
    "dptheory.gradients.expected_masked_inner": [
        call(first=_GRADIENT, second=_GRADIENT[::-1], drop_rate=0.5),
        dear(first=_LONG, second=_LONG[::-1], drop_rate=0.9),
    ],
    "dptheory.gradients.mask_norm_bounds": [call(vector=_GRADIENT, drop_rate=0.5), dear(vector=_LONG, drop_rate=0.9)],
    "dptheory.gradients.all_masks": [call(dim=5, keep=2)],
    "dptheory.gradients.random_masks": [call(rng=Fresh(lambda: np.random.default_rng(0)), count=4, dim=5, keep=2)],
    "dptheory.sparsification.kappa": [
        dear(gradient=_GRADIENT, clip_norm=1.0, drop_rate=0.5, deviation=0.1, deviation_share=0.75, masks=100, seed=0),
        dear(gradient=_LONG, clip_norm=100.0, drop_rate=0.9),
    ],
    "dptheory.sparsification.masked_descent": [
        call(
            gradients=[[1.0, 2.0, -0.5, 1.5], [0.5, 1.0, 2.0, 1.0]],
            clip_norm=1.0,
            drop_rate=0.5,
            true_gradient=[1.0, 1.0, 0.5, 1.0],
        ),
        call(gradients=np.ones((2, 20_000)), clip_norm=100.0, drop_rate=0.9),
    ],
    "dptheory.sparsification.best_rate": [
        dear(gradient=_GRADIENT, clip_norm=1.0, delta_c=0.5, step_noise=1.0, deviation=0.1, deviation_share=0.75),
    ],
    "dptheory.sparsification.relative_bound": [call(drop_rate=0.5, delta_c=0.5, step_noise=1.0, kappa=0.7)],
    "dptheory.sparsification.optimal_rate": [call(delta_c=0.5, step_noise=1.0, exponent=0.5)],
    "dptheory.sparsification.optimal_rate_flat": [
        call(delta_c=0.5, step_noise=1.0, grad_norm=2.0, clip_norm=1.0, deviation_share=0.75)
    ],
    "dptheory.sparsification.largest_split_free_kappa": [
        call(grad_norm=0.5, clip_norm=1.0, deviation_norms=[0.1, 2.0], drop_rate=0.5),
        call(grad_norm=0.5, clip_norm=1.0, deviation_norms=np.linspace(0.0, 2.0, 10_000), drop_rate=0.5),
    ],
    "dptheory.sparsification.isotropic_kappa": [
        call(grad_norm=2.0, dim=10, clip_norm=1.0, drop_rate=0.5, deviation=0.3),
        call(grad_norm=2.0, dim=1_000_000, clip_norm=1.0, drop_rate=0.9, deviation=0.01),
    ],
    "dptheory.sparsification.largest_isotropic_kappa": [
        call(dim=10, drop_rate=0.5),
        call(dim=1_000_000, drop_rate=0.9),
    ],
    "dptheory.sparsification.least_kappa": [call(drop_rate=0.5, delta_c=0.5, step_noise=1.0)],
    "dptheory.sparsification.least_kappa_tuned": [call(drop_rate=0.5, noise_to_curvature=2.0)],
    "dptheory.sparsification.tuned_bound": [
        call(drop_rate=0.5, kappa=0.7, objective_gap=2.0, steps=1000.0, curvature_term=0.5, noise_term=3.0),
    ],
    "dptheory.gradients.mean_reciprocal": [
        call(values=_GRADIENT, keep=3, shift=0.5),
        dear(values=np.repeat(_GRADIENT, 1000), keep=1000),
    ],
    "dptheory.gradients.noise_norm_ratio": [call(**_SMALL), call(**_LARGE)],
    "dptheory.gradients.relaxed_gradient_ratio": [
        call(grad_norm=2.0, masked_norm=1.5, clip_norm=1.0),
        call(grad_norm=np.linspace(1.0, 2.0, 1000), masked_norm=0.5, clip_norm=1.0),
    ],
    "dptheory.gradients.posterior_freeze": [
        call(gradients=[[3.0, 4.0], [1.0, 0.0]], clip_norm=1.0, keep=1),
        dear(gradients=_LONG.reshape(10, -1), clip_norm=1.0, keep=1000),
    ],
    "dptheory.gradients.projected_skewness": [call(dim=10, skewness=2.0), call(dim=1_000_000, skewness=-2.0)],
    "dptheory.sparsification.freeze_rate": [call(epoch=3, final_drop_rate=0.9, cooling_epochs=40)],
    "dptheory.sparsification.total_density": [
        call(final_drop_rate=0.9, cooling_epochs=40, epochs=60, baseline_epochs=40),
        call(final_drop_rate=0.9, cooling_epochs=40, epochs=60),
    ],
    "dptheory.sparsification.communication": [
        call(**_SMALL, rounds=4, index="seed", value_bits=32),
        call(**_LARGE, rounds=400, index="kept"),
    ],
    "dptheory.sparsification.projection_operations": [
        call(dim=10, subspace_dim=2, anchors=4, gradient_count=5, iterations=1),
        call(dim=2_700_000, subspace_dim=1000, anchors=2000, gradient_count=1000),
    ],
    "dptheory.sparsification.expected_error": [
        call(vector=[1.0, 2.0, 3.0, 4.0], drop_rate=0.5, noise_std=0.1),
        dear(vector=np.repeat([1.0, 2.0], 5000), drop_rate=0.9, noise_std=0.1),
    ],
    "dptheory.sparsification.error_lower_bound": [
        call(vector=[1.0, 2.0, 3.0, 4.0], drop_rate=0.5, noise_std=0.1),
        call(vector=np.repeat([1.0, 2.0], 5000), drop_rate=0.9, noise_std=0.1),
    ],
    "dptheory.sparsification.bayes_error": [
        call(vector=[1.0, 2.0, 3.0, 4.0], drop_rate=0.5, noise_std=0.1, prior_std=1.0),
        dear(vector=np.repeat([1.0, 2.0], 5000), drop_rate=0.9, noise_std=0.1, prior_std=1.0),
    ],
    "dptheory.sparsification.matrix_expected_error": [
        call(matrix=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]], drop_rate=0.25, noise_std=0.1),
    ],
    "dptheory.sparsification.matrix_error_lower_bound": [
        call(matrix=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]], drop_rate=0.25, noise_std=0.1),
    ],
    "dptheory.sparsification.gaussian_matrix_error": [
        call(keep=10, unknowns=3, noise_std=0.1),
        call(keep=1_000_000, unknowns=1000, noise_std=0.1),
    ],
}
