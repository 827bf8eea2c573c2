"""What freezing the first layers does to clipped gradients, and the bound on descent that follows."""

from dptheory.freezing._bias_turn import BiasAngleChange, bias_angle, bias_turn, expected_angle
from dptheory.freezing._bound import (
    FreezingBounds,
    FreezingComparison,
    compare_freezing,
    freezing_bounds,
    private_second_moment,
)
from dptheory.freezing._effects import (
    FreezingEffect,
    SignalGrowth,
    TrainablePart,
    biased_signal,
    freezing_effect,
    norm_growth,
    signal_growth,
)
from dptheory.freezing._when import BestFreezing, LayerSteps, best_freezing, best_layer_steps

__all__ = [
    "BestFreezing",
    "BiasAngleChange",
    "FreezingBounds",
    "FreezingComparison",
    "FreezingEffect",
    "LayerSteps",
    "SignalGrowth",
    "TrainablePart",
    "best_freezing",
    "best_layer_steps",
    "bias_angle",
    "bias_turn",
    "biased_signal",
    "compare_freezing",
    "expected_angle",
    "freezing_bounds",
    "freezing_effect",
    "norm_growth",
    "private_second_moment",
    "signal_growth",
]
