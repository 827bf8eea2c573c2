"""Wrong calculators of the privacy of masks."""

import math
from typing import Any

from dptheory import mask_privacy
from mutants.mutators import Calculator, Mutant, scaled, wrong_where


def _never_infinite(function: Calculator) -> Calculator:
    def mutant(*a: Any, **k: Any) -> float:
        found = function(*a, **k)
        return 1e3 if math.isinf(found) else found

    return mutant


def _one_size_more(function: Calculator) -> Calculator:
    return lambda epsilon, size, other, kept: function(epsilon, size, other + 1, kept)


def _one_example_more(function: Calculator) -> Calculator:
    return lambda epsilon, examples, rate, shift: function(epsilon, examples + 1, rate, shift)


MUTANTS: list[Mutant] = [
    (mask_privacy, "masked_sensitivity", scaled),
    (
        mask_privacy,
        "masked_sensitivity",
        wrong_where(lambda rows, clip, mask=None, adjacency="": adjacency == "replace"),
    ),
    (mask_privacy, "masked_sensitivity", wrong_where(lambda rows, clip, mask=None, adjacency="": mask is not None)),
    (mask_privacy, "average_sensitivity", scaled),
    (mask_privacy, "divisor_kl", scaled),
    (mask_privacy, "divisor_kl", wrong_where(lambda size, other, kept: other < size)),
    (mask_privacy, "divisor_renyi", scaled),
    (mask_privacy, "divisor_renyi", _never_infinite),
    (mask_privacy, "divisor_delta", scaled),
    (mask_privacy, "divisor_delta", _one_size_more),
    (mask_privacy, "divisor_delta", wrong_where(lambda epsilon, size, other, kept: epsilon > 1)),
    (mask_privacy, "published_size_delta", scaled),
    (mask_privacy, "published_size_delta", _one_example_more),
    (mask_privacy, "published_size_delta", wrong_where(lambda epsilon, n, q, shift: shift == 0)),
    (mask_privacy, "published_size_delta", wrong_where(lambda epsilon, n, q, shift: q > 0.5 and shift > 0)),
    (mask_privacy, "combined_multiplier", scaled),
]
