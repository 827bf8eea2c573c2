"""DP-SGD and its two ablations."""

from training.mechanisms._base import Contribution, Mechanism, Noise, StepCost, Tensors
from training.mechanisms._clipping import clip_factors, clipped_sum, sample_norms, weighted_sum, widened


class DpSgd(Mechanism):
    """Clip every sample's gradient to C, add N(0, (sigma C)^2) to the sum."""

    title = "DP-SGD"

    def contribute(self, samples: Tensors, clip_norm: float) -> Contribution:
        return clipped_sum(samples, clip_norm)


class NoisySgd(DpSgd):
    """Noise without clipping, to see what clipping costs."""

    title = "noisy SGD (NOT PRIVATE)"

    def contribute(self, samples: Tensors, clip_norm: float) -> Contribution:
        wide = widened(samples)
        return weighted_sum(wide, clip_factors(sample_norms(wide), float("inf")))

    def cost(self, noise_multiplier: float) -> StepCost:
        return StepCost(0.0)


class ClippedSgd(DpSgd):
    """Clipping without noise, to see what noise costs."""

    title = "clipped SGD (NOT PRIVATE)"

    def release(self, total: Tensors, *, noise_multiplier: float, clip_norm: float, noise: Noise) -> Tensors:
        return total

    def cost(self, noise_multiplier: float) -> StepCost:
        return StepCost(0.0)
