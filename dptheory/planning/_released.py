"""A plan beside statistics of private records: what these cost, and what they say of clip and layers."""

import math
from dataclasses import replace

from dptheory.planning._private_statistics import PrivateStats
from dptheory.planning._records import ReleasedStatistics
from dptheory.planning._setup import TrainingSetup, check_size
from dptheory.planning._signal import Step
from dptheory.privacy import (
    Composition,
    epsilon_bounds,
    gaussian_epsilon,
    gaussian_mu,
    least_noise_beside,
    least_noise_multiplier,
)

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def fitting(setup: TrainingSetup, stats: PrivateStats, borrowed: bool) -> TrainingSetup:
    """The setup with the layers of the statistics.

    Raises:
        ValueError: they are of other records, of another network, or borrowed.
    """
    if borrowed:
        raise ValueError("stats must be public where borrowed is true, got what was released of private records")
    if stats.num_examples != setup.num_examples:
        raise ValueError(
            f"stats must be of the num_examples = {setup.num_examples} records of the training, got {stats.num_examples}"
        )
    check_size(setup, stats.dim)
    if setup.layer_sizes is not None and setup.layer_sizes != stats.layer_sizes:
        raise ValueError(f"stats must be of layer_sizes = {setup.layer_sizes}, got {stats.layer_sizes}")
    return replace(setup, layer_sizes=stats.layer_sizes)


def left_for_training(setup: TrainingSetup, stats: PrivateStats) -> TrainingSetup:
    """The setup with about the epsilon that the release leaves, as mu^2 adds up; for choices, not for the noise.

    Raises:
        ValueError: it leaves nothing.
    """
    budget = gaussian_mu(setup.epsilon, setup.delta)
    taken = math.sqrt(stats.release.count) / stats.noise_multiplier
    if taken >= budget:
        spent = gaussian_epsilon(taken, setup.delta)
        raise ValueError(
            f"epsilon must be more than the {spent:.6g} that stats took at this delta, got {setup.epsilon!r}"
        )
    left = gaussian_epsilon(math.sqrt(budget**2 - taken**2), setup.delta)
    return replace(setup, epsilon=max(left, 0.01))


def noise_beside(setup: TrainingSetup, stats: PrivateStats, *, sampling_rate: float, steps: int) -> float:
    """sigma with which release and training together keep the budget."""
    return least_noise_beside(
        spent=Composition((stats.release,)),
        epsilon=setup.epsilon,
        delta=setup.delta,
        sampling_rate=sampling_rate,
        steps=steps,
    )


def released(setup: TrainingSetup, stats: PrivateStats, step: Step, clip_norm: float | None) -> ReleasedStatistics:
    """What the statistics cost at the plan's step, and what they say."""
    return ReleasedStatistics(
        noise_multiplier=stats.noise_multiplier,
        count=stats.release.count,
        secure=stats.secure,
        epsilon=Composition((stats.release,)).epsilon(setup.delta).upper,
        training_epsilon=epsilon_bounds(
            noise_multiplier=step.noise_multiplier,
            delta=setup.delta,
            sampling_rate=step.sampling_rate,
            steps=step.steps,
        ).upper,
        noise_alone=least_noise_multiplier(
            epsilon=setup.epsilon, delta=setup.delta, sampling_rate=step.sampling_rate, steps=step.steps
        ),
        clip_probability=None if clip_norm is None else stats.clip_probability(clip_norm),
        norm_quantiles=tuple((level, stats.norm_quantile(level)) for level in LEVELS),
        layer_shares=stats.layer_shares(),
    )
