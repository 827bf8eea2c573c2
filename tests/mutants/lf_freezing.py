"""Wrong calculators of lf freezing."""

import dataclasses
import math
from typing import Any

from dptheory import freezing
from mutants.mutators import Calculator, Mutant, larger_field, scaled, wrong_where


def _larger_part(when: str, field: str) -> Any:
    """One field of the trainable part before or after freezing is 2 % too large."""

    def mutate(function: Calculator) -> Calculator:
        def mutant(*a: Any, **k: Any) -> freezing.FreezingEffect:
            found = function(*a, **k)
            part = getattr(found, when)
            larger = dataclasses.replace(part, **{field: 1.02 * getattr(part, field)})
            return dataclasses.replace(found, **{when: larger})

        return mutant

    return mutate


def _clips_trainable_only(function: Calculator) -> Calculator:
    """Ignores the frozen norms, as if freezing changed nothing."""
    return lambda trainable, frozen_norms, clip: function(trainable, 0.0, clip)


MUTANTS: list[Mutant] = [
    (freezing, "norm_growth", scaled),
    (freezing, "norm_growth", wrong_where(lambda kept, frozen, clip: clip == 20)),
    (freezing, "biased_signal", scaled),
    (freezing, "biased_signal", _clips_trainable_only),
    *((freezing, "signal_growth", larger_field(field)) for field in ("before", "after", "lower", "upper")),
    (freezing, "bias_angle", scaled),
    *((freezing, "bias_turn", larger_field(field)) for field in ("margin", "limit")),
    (freezing, "expected_angle", scaled),
    (freezing, "expected_angle", wrong_where(lambda dim, snr, bias=0.0: dim == 2)),
    (freezing, "expected_angle", wrong_where(lambda dim, snr, bias=0.0: dim > 2 and bias > math.pi / 2)),
    (freezing, "freezing_effect", larger_field("growth")),
    *((freezing, "freezing_effect", _larger_part(when, field)) for when, field in (
        ("before", "dim"), ("before", "clipped_norm"), ("after", "clipped_norm"), ("before", "snr"), ("after", "snr"),
        ("after", "noise_cos"), ("before", "noise_angle"), ("after", "noise_energy"), ("before", "update_noise"),
    )),
]  # fmt: skip
