"""Gradient embedding perturbation."""

import numpy as np

from dptheory import papers
from tests.calls import Calls, Fresh, call, dear

_ROWS = np.array([[3.0, 0.0, 4.0], [0.0, 1.0, 0.5], [1.0, 1.0, 1.0], [0.2, 0.0, -0.1]])
_BASIS = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
_SIZES = {"dim": 10, "subspace_dim": 3}
_RESNET = {"dim": 269_722, "subspace_dim": 1000}
_EMBEDDING = "dptheory.embedding"

CALLS: Calls = {
    f"{_EMBEDDING}.anchor_subspace": [
        call(anchor_gradients=_ROWS, subspace_dim=2, iterations=1, rng=Fresh(lambda: np.random.default_rng(0))),
        dear(
            anchor_gradients=np.random.default_rng(0).standard_normal((20, 2000)),
            subspace_dim=10,
            iterations=1,
            rng=Fresh(lambda: np.random.default_rng(0)),
        ),
    ],
    f"{_EMBEDDING}.project": [call(gradients=_ROWS, basis=_BASIS)],
    f"{_EMBEDDING}.residual_energy": [call(gradients=_ROWS, basis=_BASIS)],
    f"{_EMBEDDING}.recovery_probability": [
        call(rank=3, anchors=5, zero_probability=0.1),
        call(rank=1000, anchors=2000, zero_probability=0.1),
    ],
    f"{_EMBEDDING}.residual_bound": [
        call(eigenvalues=[1.0, 0.5, 0.1], subspace_dim=2, anchors=100, squared_norm_bound=4.0, failure_probability=0.05,
             fourth_moment=3.0),
        call(eigenvalues=1.0 / np.arange(1.0, 10_001.0), subspace_dim=1000, anchors=2000, squared_norm_bound=20.0,
             failure_probability=0.05),
    ],
    f"{_EMBEDDING}.held_out_residual": [
        call(residuals=_ROWS, residual_clip=2.0, failure_probability=0.05),
    ],
    f"{_EMBEDDING}.random_basis_error": [call(**_SIZES), call(**_RESNET)],
    f"{_EMBEDDING}.mean_random_basis_error": [call(**_SIZES), call(**_RESNET)],
    f"{_EMBEDDING}.random_embedding_distortion": [call(**_SIZES), call(**_RESNET)],
    f"{_EMBEDDING}.joint_mu": [
        call(noise_multipliers=[1.0, 2.0], steps=10, adjacency="add-remove"),
        call(noise_multipliers=[20.0, 20.0], steps=100_000, adjacency="replace-one"),
    ],
    f"{_EMBEDDING}.output_mu": [
        call(embedding_clip=10.0, residual_clip=2.0, embedding_std=20.0, residual_std=4.0, steps=10, adjacency="add-remove"),
    ],
    f"{_EMBEDDING}.release_noise_ratio": [
        call(epsilon=1.0, delta=1e-5, steps=10, adjacency="add-remove", method="exact"),
        call(epsilon=8.0, delta=1e-5, steps=10_000, method="stated"),
    ],
    f"{_EMBEDDING}.output_noise_ratio": [
        call(embedding_clip=10.0, residual_clip=2.0, epsilon=1.0, delta=1e-5, steps=10, adjacency="add-remove"),
        call(embedding_clip=10.0, residual_clip=2.0, epsilon=8.0, delta=1e-5, steps=10_000, adjacency="replace-one"),
    ],
    f"{_EMBEDDING}.noise_ratio_excess": [
        call(epsilon=1.0, delta=1e-5, method="stated", reference="exact"),
    ],
    f"{_EMBEDDING}.sampled_epsilon": [call(epsilon=1.0, sampling_rate=0.01)],
    f"{_EMBEDDING}.clipping_bias": [
        call(embeddings=_ROWS, residuals=_ROWS[:, :2], embedding_clip=1.0, residual_clip=0.5),
    ],
    f"{_EMBEDDING}.joint_clipping_bias": [
        call(embeddings=_ROWS, residuals=_ROWS[:, :2], clip_norm=1.0, residual_share=0.5),
    ],
    f"{_EMBEDDING}.power_iteration": [
        call(dim=10, subspace_dim=4, anchors=6, groups=2, unit="multiply-add"),
        call(dim=269_720, subspace_dim=1000, anchors=2000, groups=5, unit="operation"),
    ],
    f"{_EMBEDDING}.extra_floats": [
        call(dim=10, subspace_dim=4, anchors=6, gradient_count=3, groups=2),
        call(dim=269_720, subspace_dim=1000, anchors=2000, gradient_count=1000, groups=5),
    ],
    f"{_EMBEDDING}.grouping_cost_ratio": [
        call(group_sizes=[10, 20], subspace_dims=[3.0, 4.0]),
        call(group_sizes=papers.RESNET20_GROUPS, subspace_dims=[100, 200, 200, 300, 200]),
    ],
    f"{_EMBEDDING}.square_root_allocation": [
        call(group_sizes=[10, 20], subspace_dim=6),
        call(group_sizes=papers.RESNET20_GROUPS, subspace_dim=1000),
    ],
    f"{_EMBEDDING}.gep_mse": [
        call(**_SIZES, clip_norm=10.0, residual_clip=2.0, mu=1.0, residual_norm=3.0, embedding_clip=5.0),
        call(**_RESNET, clip_norm=10.0, residual_clip=2.0, mu=0.5),
    ],
    f"{_EMBEDDING}.clipped_gep_mse": [
        call(embeddings=_ROWS, residuals=_ROWS[:, :2], clip_norm=2.0, residual_clip=1.0, mu=1.0, embedding_clip=1.5),
    ],
    f"{_EMBEDDING}.largest_residual_ratio": [call(**_SIZES), call(**_RESNET)],
    f"{_EMBEDDING}.least_residual_energy": [
        call(**_SIZES, clip_norm=10.0, residual_clip=2.0, mu=1.0),
        call(**_RESNET, clip_norm=10.0, residual_clip=2.0, mu=1.0),
    ],
    "dptheory.papers.EmbeddingPreset.noise": [call(self=papers.embedding_presets()[0], mu=1.0)],
    "dptheory.papers.embedding_noise": [call(mu=1.0)],
    f"{_EMBEDDING}.compare_releases": [
        call(**_SIZES, clip_norm=10.0, residual_clip=2.0, mu=1.0, residual_norm=3.0),
        call(**_RESNET, clip_norm=10.0, residual_clip=2.0, epsilon=1.0, delta=1e-5),
    ],
    "dptheory.papers.embedding_presets": [call()],
    f"{_EMBEDDING}.split_noise": [
        call(**_SIZES, embedding_clip=10.0, residual_clip=2.0, mu=1.0),
        call(**_RESNET, embedding_clip=10.0, residual_clip=2.0, mu=1.0),
    ],
    f"{_EMBEDDING}.joint_clip": [
        call(**_SIZES, clip_norm=10.0, residual_share=0.2, mu=1.0),
        call(**_RESNET, clip_norm=10.0, residual_share=0.2, mu=1.0),
    ],
    f"{_EMBEDDING}.noisy_descent_risk": [
        call(smoothness=1.0, initial_distance=2.0, steps=10, noise_energy=0.5),
        call(smoothness=1.0, initial_distance=2.0, steps=1_000_000, noise_energy=0.5),
    ],
    f"{_EMBEDDING}.worst_descent_risk": [
        call(smoothness=1.0, initial_distance=2.0, steps=10, noise_energy=0.5),
        call(smoothness=1.0, initial_distance=2.0, steps=1_000_000, noise_energy=0.5),
    ],
    f"{_EMBEDDING}.biased_descent_risk": [
        call(smoothness=1.0, initial_distance=2.0, steps=10, noise_energy=0.5, bias=0.1),
        call(smoothness=1.0, initial_distance=2.0, steps=1_000_000, noise_energy=0.5, bias=0.1),
    ],
    f"{_EMBEDDING}.best_residual_clip": [
        call(residual_norms=[[0.1, 0.5], [0.05, 0.4]], subspace_dims=[2, 3], dim=10, train_size=100, smoothness=1.0,
             initial_distance=2.0, mu=1.0, lipschitz=1.0),
        call(residual_norms=[np.linspace(0.0, 0.4, 100)], subspace_dims=[1000], dim=269_722, train_size=50_000, smoothness=1.0,
             initial_distance=2.0, mu=1.0),
    ],
    f"{_EMBEDDING}.least_risk": [
        call(smoothness=1.0, initial_distance=2.0, steps=10, lipschitz=1.0),
        call(smoothness=1.0, initial_distance=2.0, steps=1_000_000),
    ],
    f"{_EMBEDDING}.excess_risk": [
        call(**_SIZES, train_size=100, smoothness=1.0, initial_distance=2.0, mu=1.0, residual_clip=0.2, lipschitz=1.0, steps=10),
        call(**_RESNET, train_size=50_000, smoothness=1.0, initial_distance=2.0, mu=1.0, residual_clip=0.2),
    ],
    f"{_EMBEDDING}.excess_risk_as_published": [
        call(**_SIZES, train_size=100, smoothness=1.0, initial_distance=2.0, epsilon=1.0, delta=1e-5, residual_clip=0.2,
             lipschitz=1.0, steps=10),
        call(**_RESNET, train_size=50_000, smoothness=1.0, initial_distance=2.0, epsilon=8.0, delta=1e-5, residual_clip=0.2),
    ],
}  # fmt: skip
