"""Other rules of clipping than the flat one: what one record adds to the sum, and what an adaptive clip's count costs."""

from dptheory.privacy.clipping._rules import (
    COUNT_SHARE,
    CountedNoise,
    automatic_clip_sensitivity,
    counted_noise,
    layer_clip_sensitivity,
    weighted_mean_sensitivity,
)

__all__ = [
    "COUNT_SHARE",
    "CountedNoise",
    "automatic_clip_sensitivity",
    "counted_noise",
    "layer_clip_sensitivity",
    "weighted_mean_sensitivity",
]
