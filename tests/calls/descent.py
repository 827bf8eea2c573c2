"""Clipping, angles, freezing, convergence bounds, quadratics, momentum, gradient errors."""

import numpy as np

from dptheory.gradients import DistortionAngle, QuadraticForm
from tests.calls import Calls, call, dear

_SMALL, _LARGE = DistortionAngle(10, snr=1.0), DistortionAngle(1_000_000, snr=1.0)
_FORM = QuadraticForm(weights=np.array([1.0, 0.5]), freedoms=np.array([2.0, 3.0]), noncentralities=np.array([0.0, 1.0]))
_ROWS = [[1.0, 2.0], [0.5, -1.0], [2.0, 0.1]]
_ANGLE = "dptheory.gradients.DistortionAngle"
_POISSON = {"sampling": "poisson", "sampling_rate": 0.01}
_STEP = {"objective_gap": 1.0, "learning_rate": 0.1, "steps": 10, "smoothness": 1.0}
_RUN = {"objective_gap": 2.0, "learning_rate": 0.01, "steps": 100_000, "smoothness": 2.0}

CALLS: Calls = {
    "dptheory.gradients.clip": [call(gradient=[3.0, 4.0], clip_norm=1.0), dear(gradient=np.ones((10, 10_000)), clip_norm=1.0)],
    "dptheory.gradients.symmetric_clip_lower_bound": [
        call(grad_norm=2.0, clip_norm=1.0, deviation_norms=[0.1, 0.2], deviation_share=0.75),
        dear(grad_norm=2.0, clip_norm=1.0, deviation_norms=np.linspace(0.0, 2.0, 10_000)),
    ],
    "dptheory.gradients.clip_probability": [
        call(grad_norm=1.0, dim=10, deviation=0.1, clip_norm=1.0),
        call(grad_norm=1.0, dim=1_000_000, deviation=0.001, clip_norm=1.0),
    ],
    "dptheory.gradients.gaussian_clip_moments": [
        dear(grad_norm=1.0, dim=10, deviation=0.1, clip_norm=1.0),
        dear(grad_norm=1.0, dim=1_000_000, deviation=0.001, clip_norm=1.0),
    ],
    _ANGLE: [call(dim=10, snr=1.0), call(dim=1_000_000, snr=0.1)],
    f"{_ANGLE}.expected_cos": [call(self=_SMALL), call(self=_LARGE)],
    f"{_ANGLE}.density": [call(self=_SMALL, x=[0.1, 0.5]), call(self=_LARGE, x=[0.0, 1e-3])],
    f"{_ANGLE}.cdf": [call(self=_SMALL, x=[0.1, 0.5]), call(self=_LARGE, x=[0.0, 1e-3])],
    f"{_ANGLE}.sf": [call(self=_SMALL, x=[0.1, 0.5]), call(self=_LARGE, x=[0.0, 1e-3])],
    f"{_ANGLE}.mean": [dear(self=_SMALL), dear(self=_LARGE)],
    f"{_ANGLE}.second_moment": [dear(self=_SMALL), dear(self=_LARGE)],
    f"{_ANGLE}.var": [dear(self=_SMALL), dear(self=_LARGE)],
    f"{_ANGLE}.asymptotic_mean": [call(self=_SMALL), call(self=_LARGE)],
    f"{_ANGLE}.asymptotic_var": [call(self=_SMALL), call(self=_LARGE)],
    "dptheory.gradients.angle_variance": [dear(dim=10, snr=1.0, bias_angle=0.5), dear(dim=1_000_000, snr=1.0, bias_angle=0.5)],
    "dptheory.gradients.batch_expected_cos": [
        call(cos_bias=0.5, dim=10, snr=1.0),
        call(cos_bias=[0.5, 1.0], dim=1_000_000, snr=0.1),
    ],
    "dptheory.gradients.angle_range": [call(bias_angle=0.1, noise_angle=0.2), call(bias_angle=[0.1, 1.0], noise_angle=0.2)],
    "dptheory.gradients.small_snr_slope": [call(dim=10), call(dim=1_000_000)],
    "dptheory.convergence.batch_second_moment": [
        call(mean_norm=0.5, second_moment=1.0, batch_size=10, **_POISSON),
        call(mean_norm=0.5, second_moment=1.0, batch_size=1000, sampling="fixed"),
    ],
    "dptheory.convergence.noise_term": [
        call(smoothness=1.0, clip_norm=1.0, noise_multiplier=1.0, dim=10, batch_size=4),
        call(smoothness=1.0, clip_norm=0.1, noise_multiplier=1.54, dim=550_000, batch_size=1000),
    ],
    "dptheory.convergence.alignment_bound": [
        call(decrease=1.0, learning_rate=0.1, smoothness=1.0, second_moment=1.0, noise_term=0.5, drop_rate=0.5),
    ],
    "dptheory.convergence.dpsgd_bound": [
        call(**_STEP, clip_norm=1.0, noise_multiplier=1.0, dim=10, batch_size=4, drop_rate=0.5, kappa=0.7, bias=0.1,
             second_moment=0.5, **_POISSON),
        call(**_RUN, clip_norm=0.1, noise_multiplier=1.54, dim=550_000, batch_size=1000),
    ],
    "dptheory.convergence.tuned_learning_rate": [
        call(
            objective_gap=2.0,
            steps=100,
            smoothness=1.0,
            clip_norm=1.0,
            noise_multiplier=1.0,
            dim=10,
            batch_size=5,
            drop_rate=0.5,
            sampling="poisson",
            sampling_rate=0.1,
        ),
        call(objective_gap=2.0, steps=100_000, smoothness=1.0, clip_norm=1.0, noise_multiplier=1.0, dim=1_000_000,
             batch_size=1000),
    ],
    "dptheory.convergence.noisy_sgd_bound": [
        call(**_STEP, deviation_norm=0.5, sum_noise_std=0.5, dim=10, batch_size=4, drop_rate=0.5, **_POISSON),
        call(**_RUN, deviation_norm=0.5, sum_noise_std=0.1, dim=550_000, batch_size=1000),
        call(objective_gap=1.0, learning_rate=[0.1, 0.05], steps=2, smoothness=2.0, deviation_norm=0.5, drop_rate=[0.5, 0.0]),
    ],
    "dptheory.convergence.drawn_size_factor": [
        call(train_size=10, sampling_rate=0.3),
        call(train_size=50_000, sampling_rate=0.01),
    ],
    "dptheory.convergence.least_gradient_bound": [
        call(**_STEP, deviation_norm=0.5, sum_noise_std=0.5, dim=10, batch_size=4, drop_rate=0.5, **_POISSON),
        call(**_RUN, deviation_norm=0.5, sum_noise_std=0.1, dim=550_000, batch_size=1000),
    ],
    "dptheory.convergence.held_mask_bound": [
        call(objective_gap=1.0, learning_rate=[0.1, 0.05], epochs=2, steps_per_epoch=3, smoothness=1.0, drop_rate=[0.5, 0.0]),
        call(objective_gap=1.0, learning_rate=0.1, epochs=5, steps_per_epoch=3, smoothness=2.0, deviation_norm=0.5,
             sum_noise_std=0.5, dim=10, batch_size=4, drop_rate=0.5),
        call(objective_gap=2.0, learning_rate=0.01, epochs=1000, steps_per_epoch=500, smoothness=2.0, sum_noise_std=0.1,
             dim=550_000, batch_size=1000),
    ],
    "dptheory.convergence.plain_mean_bound": [
        call(objective_gap=1.0, learning_rate=[0.1, 0.05], epochs=2, steps_per_epoch=3, smoothness=1.0, drop_rate=[0.5, 0.0]),
        call(objective_gap=1.0, learning_rate=0.1, epochs=5, steps_per_epoch=3, smoothness=2.0, deviation_norm=0.5,
             sum_noise_std=0.5, dim=10, batch_size=4, drop_rate=0.5),
        call(objective_gap=2.0, learning_rate=0.01, epochs=1000, steps_per_epoch=1, smoothness=2.0, deviation_norm=0.5,
             sum_noise_std=0.1, dim=550_000, batch_size=1000, drop_rate=np.linspace(0.0, 0.9, 1000)),
    ],
    "dptheory.convergence.momentum_mask_bound": [
        call(objective_gap=1.0, learning_rate=0.01, momentum=0.5, epochs=200, steps_per_epoch=3, smoothness=1.0,
             deviation_norm=0.5, sum_noise_std=0.5, dim=10, batch_size=4, drop_rate=0.5),
        call(objective_gap=1.0, learning_rate=0.1, momentum=0.0, epochs=2, steps_per_epoch=50, smoothness=1.0, sum_noise_std=0.5,
             dim=10, batch_size=4, drop_rate=[0.5, 0.0]),
        call(objective_gap=2.0, learning_rate=0.001, momentum=0.9, epochs=100_000, steps_per_epoch=1, smoothness=2.0,
             deviation_norm=0.5, sum_noise_std=0.1, dim=550_000, batch_size=1000, drop_rate=0.5),
    ],
    "dptheory.convergence.clipped_mask_bound": [
        call(objective_gap=1.0, learning_rate=0.01, momentum=0.5, epochs=20, steps_per_epoch=3, smoothness=1.0, clip_norm=1.0,
             noise_multiplier=0.5, dim=10, batch_size=4, drop_rate=0.5, probability=0.9, deviation_share=0.5, **_POISSON),
        call(objective_gap=1.0, learning_rate=0.1, momentum=0.3, epochs=2, steps_per_epoch=50, smoothness=1.0, clip_norm=1.0,
             noise_multiplier=0.5, dim=10, batch_size=4, drop_rate=[0.5, 0.0], bias=0.001, sampling="fixed"),
        call(objective_gap=2.0, learning_rate=0.001, momentum=0.9, epochs=100_000, steps_per_epoch=1, smoothness=2.0,
             clip_norm=0.1, noise_multiplier=1.0, dim=550_000, batch_size=1000, drop_rate=0.5),
    ],
    "dptheory.convergence.allocated_mask_bound": [
        call(objective_gap=1.0, learning_rate=0.001, momentum=0.5, epochs=20, steps_per_epoch=3, smoothness=1.0, clip_norm=1.0,
             example_smoothness=2.0, noise_multiplier=0.5, dim=10, batch_size=4, drop_rate=[0.0] * 10 + [0.5] * 10, probability=0.9,
             deviation_share=0.5, bias=0.01, sampling="shuffled"),
        call(objective_gap=2.0, learning_rate=0.00001, momentum=0.9, epochs=1000, steps_per_epoch=100, smoothness=2.0,
             clip_norm=1.0, example_smoothness=4.0, noise_multiplier=1.0, dim=550_000, batch_size=1000,
             drop_rate=0.5),
    ],
    "dptheory.convergence.poisson_quadratic_moments": [
        call(curvature=1.0, start=1.0, learning_rate=0.1, steps=10, batch_size=4, momentum=0.5, sampling_rate=0.1,
             curvature_square=1.5, offset_square=1.0, curvature_offset=0.1, noise_std=0.1),
        call(curvature=0.5, start=1.0, learning_rate=0.01, steps=100_000, batch_size=1000, momentum=0.9, noise_std=0.01),
    ],
    "dptheory.convergence.layer_freezing_bound": [
        call(decrease=1.0, learning_rate=[0.1, 0.1], steps=2, smoothness=1.0, clip_norm=1.0, noise_multiplier=1.0,
             dim=[10, 5], batch_size=4, second_moment=[1.0, 0.5], bias=[0.1, 0.1], **_POISSON),
        call(decrease=1.0, learning_rate=0.1, steps=1000, smoothness=1.0, clip_norm=1.0, noise_multiplier=1.0,
             dim=550_000, batch_size=1000),
    ],
    "dptheory.convergence.privacy_term": [
        call(epsilon=1.0, delta=1e-5, clip_norm=1.0, dim=10, train_size=100, constant=2.0, drop_rate=0.5),
        call(epsilon=3.0, delta=1e-5, clip_norm=0.1, dim=550_000, train_size=50_000, constant=2.0),
    ],
    "dptheory.convergence.private_bound": [
        call(objective_gap=1.0, steps=10, smoothness=1.0, clip_norm=1.0, noise_per_root_step=0.5, drop_rate=0.5, kappa=0.7,
             batch_size=4, **_POISSON),
        call(objective_gap=1.0, steps=100_000, smoothness=1.0, clip_norm=0.1, noise_per_root_step=0.01),
    ],
    "dptheory.convergence.optimal_steps": [
        call(objective_gap=1.0, smoothness=1.0, clip_norm=1.0, noise_per_root_step=0.5, batch_size=4, **_POISSON),
    ],
    "dptheory.freezing.norm_growth": [
        call(trainable_norms=[1.0, 0.5], frozen_norms=[0.5, 2.0], clip_norm=1.0),
        dear(trainable_norms=np.linspace(0.1, 2.0, 1000), frozen_norms=1.0, clip_norm=1.0),
    ],
    "dptheory.freezing.biased_signal": [call(trainable_gradients=_ROWS, frozen_norms=[0.5, 1.0, 2.0], clip_norm=1.0)],
    "dptheory.freezing.signal_growth": [call(trainable_gradients=_ROWS, frozen_norms=[0.5, 1.0, 2.0], clip_norm=1.0)],
    "dptheory.freezing.bias_angle": [call(direction=[1.0, 0.0], signal=[1.0, 1.0])],
    "dptheory.freezing.bias_turn": [call(direction=[1.0, 0.0], signal=[1.0, 1.0], added=[0.5, 0.0])],
    "dptheory.freezing.expected_angle": [dear(dim=10, snr=1.0, bias_angle=0.1), dear(dim=1_000_000, snr=1.0, bias_angle=0.1)],
    "dptheory.freezing.freezing_effect": [
        dear(layer_sizes=[5, 10], layer_norms=[1.0, 2.0], frozen_layers=1, clip_norm=1.0, noise_multiplier=1.0, batch_size=4,
             alignment=0.5),
    ],
    f"{_ANGLE}.quantile": [dear(self=_SMALL, probability=0.3), dear(self=_LARGE, probability=0.3)],
    "dptheory.gradients.angle_summary": [dear(dim=10, snr=1.0), dear(dim=1_000_000, snr=30.0)],
    "dptheory.freezing.compare_freezing": [
        dear(layer_sizes=[5, 10], layer_norms=[1.0, 2.0], frozen_layers=1, clip_norm=1.0, noise_multiplier=1.0, batch_size=4,
             objective_gap=1.0, learning_rate=0.1, steps=10, smoothness=1.0, alignment=0.5, **_POISSON),
        dear(layer_sizes=[100_000, 450_000], layer_norms=[1.0, 2.0], frozen_layers=1, clip_norm=1.0, noise_multiplier=1.0,
             batch_size=1000, objective_gap=1.0, learning_rate=0.1, steps=1000, smoothness=1.0),
    ],
    "dptheory.freezing.private_second_moment": [
        call(second_moment=1.0, clip_norm=1.0, noise_multiplier=1.0, dim=10, batch_size=4),
        call(second_moment=1.0, clip_norm=0.1, noise_multiplier=1.54, dim=550_000, batch_size=1000),
    ],
    "dptheory.freezing.freezing_bounds": [
        call(layer_sizes=[5, 10], frozen_layers=1, objective_gap=1.0, learning_rate=0.1, steps=10, smoothness=1.0, clip_norm=1.0,
             noise_multiplier=1.0, batch_size=4, second_moment=0.5, frozen_second_moment=0.5, bias=0.1, frozen_bias=0.1,
             **_POISSON),
        call(layer_sizes=[100_000, 450_000], frozen_layers=1, objective_gap=1.0, learning_rate=0.1, steps=1000, smoothness=1.0,
             clip_norm=1.0, noise_multiplier=1.0, batch_size=1000),
    ],
    "dptheory.freezing.best_layer_steps": [
        call(layer_sizes=[[5, 0], [10, 3]], gradient_norms=[[1.0, 0.0], [0.5, 0.1]], curvature=[[1.0, 1.0], [0.5, 0.1]],
             learning_rate=[0.1, 0.05], steps=2, clip_norm=1.0, noise_multiplier=1.0, batch_size=4,
             deviation_norm=[[1.0, 0.0], [1.0, 1.0]]),
        call(layer_sizes=[100_000, 450_000], gradient_norms=[0.5, 0.1], curvature=[1.0, 2.0], learning_rate=0.1, steps=100,
             clip_norm=0.1, noise_multiplier=1.54, batch_size=1000),
    ],
    "dptheory.freezing.best_freezing": [
        call(layer_sizes=[[5, 0], [10, 3]], gradient_norms=[[1.0, 0.0], [0.5, 0.1]], curvature=[[1.0, 1.0], [0.5, 0.1]],
             learning_rate=[0.1, 0.05], steps=2, clip_norm=[1.0, 0.5], noise_multiplier=1.0, batch_size=4,
             deviation_norm=[[1.0, 0.0], [1.0, 1.0]], layer_norms=[1.0, 2.0]),
        call(layer_sizes=[100_000, 450_000], gradient_norms=[0.5, 0.1], curvature=[1.0, 2.0], learning_rate=0.1, steps=100,
             clip_norm=0.1, noise_multiplier=1.54, batch_size=1000),
    ],
    "dptheory.gradients.mse_lower_bound": [call(trace=1.0, dim=10, noise_multiplier=1.0), call(trace=1.0, dim=550_000,
    noise_multiplier=1.54)],
    "dptheory.gradients.stationary_mse": [dear(eigenvalues=[1.0, 0.5], n=10, noise_multiplier=1.0)],
    "dptheory.gradients.expected_max_quadratic_form": [
        dear(eigenvalues=[1.0, 0.5], n=10, method="exact"),
        dear(eigenvalues=np.linspace(0.1, 1.0, 100), n=50_000, method="welch-satterthwaite"),
    ],
    "dptheory.gradients.clipped_gradient_mse": [
        dear(grad_norm=1.0, dim=10, deviation=0.1, clip_norm=1.0, noise_multiplier=1.0, batch_size=4, drop_rate=0.5,
        masked_norms=[0.5, 0.7]),
        dear(grad_norm=1.0, dim=1_000_000, deviation=0.001, clip_norm=1.0, noise_multiplier=1.0, batch_size=1000, drop_rate=0.5),
    ],
    "dptheory.convergence.fresh_mask_moments": [
        call(curvature=[1.0, 2.0], start=[1.0, -1.0], steps=3, learning_rate=0.1, drop_rate=0.5, variance=[0.1, 0.1]),
        call(curvature=np.linspace(0.1, 1.0, 100), start=np.ones(100), steps=100, learning_rate=0.1, drop_rate=0.5),
    ],
    "dptheory.convergence.epoch_mask_moments": [
        call(curvature=[1.0, 2.0], start=[1.0, -1.0], epochs=2, steps_per_epoch=3, learning_rate=0.1, drop_rate=0.5,
             variance=[0.1, 0.1]),
        call(curvature=np.linspace(0.1, 1.0, 100), start=np.ones(100), epochs=10, steps_per_epoch=10, learning_rate=0.1,
             drop_rate=0.5),
    ],
    "dptheory.convergence.noisy_quadratic_loss": [
        call(curvature=[1.0, 2.0], gradient_energy=[1.0, 0.5], learning_rate=[0.1, 0.2], steps=[3, 4], momentum=[0.5, 0.0],
             variance=[[0.1, 0.1], [0.2, 0.1]], noise_std=[0.1, 0.2], slope=[[1.0, 0.5], [0.5, 0.5]], multiplicities=[2.0, 1.5],
             schedule="linear", average=0.5),
        call(curvature=[1.0], gradient_energy=[1.0], learning_rate=0.1, steps=10, momentum=0.9, noise_std=0.1, schedule="cosine"),
        dear(curvature=np.linspace(0.1, 1.0, 1000), gradient_energy=np.ones(1000), learning_rate=0.1, steps=100, momentum=0.9,
             noise_std=0.1, average=0.1),
    ],
    "dptheory.gradients.QuadraticForm": [
        call(weights=[1.0, 0.5], freedoms=[2.0, 3.0], noncentralities=[0.0, 1.0]),
        call(weights=np.linspace(0.1, 1.0, 100), freedoms=np.full(100, 1e4), noncentralities=np.zeros(100)),
    ],
    "dptheory.gradients.QuadraticForm.tails": [call(self=_FORM, x=[0.5, 5.0])],
    "dptheory.gradients.QuadraticForm.chernoff": [call(self=_FORM, log_chance=-3.0)],
    "dptheory.convergence.velocity_variance": [call(noise_std=1.0, momentum=0.9, steps=10), call(noise_std=1.0, momentum=0.9)],
    "dptheory.convergence.adam_velocity_variance": [
        call(noise_std=1.0, momentum=0.9, steps=10),
        call(noise_std=1.0, momentum=0.9),
    ],
    "dptheory.convergence.adam_corrected_variance": [
        call(noise_std=1.0, momentum=0.9, steps=10),
        call(noise_std=1.0, momentum=0.9),
    ],
    "dptheory.convergence.displacement_mean": [
        call(learning_rate=0.1, force=1.0, momentum=0.9, steps=10),
        call(learning_rate=0.1, force=1.0, momentum=0.9, steps=100_000),
    ],
    "dptheory.convergence.displacement_variance": [
        call(learning_rate=0.1, noise_std=1.0, momentum=0.9, steps=10),
        call(learning_rate=0.1, noise_std=1.0, momentum=0.9, steps=100_000),
    ],
    "dptheory.convergence.coasting_distance": [call(learning_rate=0.1, velocity=1.0, momentum=0.9, steps=10)],
    "dptheory.convergence.stationary_excess": [call(learning_rate=0.1, noise_std=1.0, momentum=0.9, curvature=2.0)],
}  # fmt: skip
