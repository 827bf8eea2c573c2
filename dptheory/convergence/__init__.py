r"""Descent bounds for SGD with clipping, noise and random masks, as sums of their terms.

Notation: w_t the iterate, grad its true gradient, gamma the learning rate, G the smoothness of the objective, x = 1 - rate
the share of entries that a mask keeps, C the clipping norm, sigma the noise multiplier (noise N(0, C^2 sigma^2 I) on the sum
of B clipped gradients, B the batch size), T the number of steps, Delta = E L(w_1) - inf L.

All statements, but for those that say so, are of plain steps w_{t+1} = w_t - gamma * update (no momentum), with batch
and noise drawn afresh at every step. What no function can check is named in the docstrings.

``sampling`` says how a batch is drawn: "poisson", every example with probability ``sampling_rate`` q, the sum divided by the
expected size B = qN; or "fixed", B examples drawn independently or without replacement, the sum divided by B. |update| <= C
holds for "fixed" alone: a Poisson batch can be larger than B, and E|update|^2 reaches C^2 (1 + (1 - q) / B). The default is
"poisson" at an unknown rate, q = 0, which is right for every rate and for "fixed". Division by the drawn size is not offered:
the noise term would need E[1 / size^2], and the size would have to be released.
"""

from dptheory.convergence._bounds import (
    dpsgd_bound,
    drawn_size_factor,
    layer_freezing_bound,
    least_gradient_bound,
    noisy_sgd_bound,
    tuned_learning_rate,
)
from dptheory.convergence._budget import optimal_steps, privacy_term, private_bound
from dptheory.convergence._held_masks import (
    allocated_mask_bound,
    clipped_mask_bound,
    held_mask_bound,
    momentum_mask_bound,
    plain_mean_bound,
)
from dptheory.convergence._momentum import (
    adam_corrected_variance,
    adam_velocity_variance,
    coasting_distance,
    displacement_mean,
    displacement_variance,
    stationary_excess,
    velocity_variance,
)
from dptheory.convergence._noisy_quadratic import (
    SCHEDULES,
    epoch_mask_moments,
    fresh_mask_moments,
    noisy_quadratic_loss,
    poisson_quadratic_moments,
)
from dptheory.convergence._terms import DescentBound, alignment_bound, batch_second_moment, noise_term

__all__ = [
    "SCHEDULES",
    "DescentBound",
    "adam_corrected_variance",
    "adam_velocity_variance",
    "alignment_bound",
    "allocated_mask_bound",
    "batch_second_moment",
    "clipped_mask_bound",
    "coasting_distance",
    "displacement_mean",
    "displacement_variance",
    "dpsgd_bound",
    "drawn_size_factor",
    "epoch_mask_moments",
    "fresh_mask_moments",
    "held_mask_bound",
    "layer_freezing_bound",
    "least_gradient_bound",
    "momentum_mask_bound",
    "noise_term",
    "noisy_quadratic_loss",
    "noisy_sgd_bound",
    "optimal_steps",
    "plain_mean_bound",
    "poisson_quadratic_moments",
    "privacy_term",
    "private_bound",
    "stationary_excess",
    "tuned_learning_rate",
    "velocity_variance",
]
