"""Wrong accountants."""

from dptheory import accounting
from mutants.mutators import Mutant, larger_field, scaled

MUTANTS: list[Mutant] = [
    (accounting, "noise_multiplier", scaled),
    (accounting, "steps", scaled),
    *((accounting, "epsilon", larger_field(field)) for field in ("lower", "estimate", "upper")),
]
