"""Wrong calculators of gep release."""

import dataclasses
from typing import Any

from dptheory.embedding import clipping_bias, groups, mse, release
from mutants.mutators import Calculator, Mutant, larger_field, scaled, wrong_where


def _proportional(function: Calculator) -> Calculator:
    """Shares in proportion to the sizes."""
    return lambda sizes, k: [k * size / sum(sizes) for size in sizes]


def _twisted(field: str, factor: float) -> Any:
    """One noise larger, the energy as before."""

    def mutate(function: Calculator) -> Calculator:
        def mutant(*a: Any, **k: Any) -> Any:
            found = function(*a, **k)
            return dataclasses.replace(found, **{field: factor * getattr(found, field)})

        return mutant

    return mutate


MUTANTS: list[Mutant] = [
    (release, "split_noise", larger_field("energy")),
    (release, "split_noise", _twisted("embedding_std", 0.9)),
    (release, "split_noise", _twisted("residual_std", 0.9)),
    (release, "joint_clip", larger_field("energy")),
    (release, "joint_clip", _twisted("embedding_std", 0.9)),
    (release, "joint_clip", _twisted("residual_std", 0.9)),
    *((mse, name, larger_field(field)) for name in ("gep_mse", "clipped_gep_mse") for field in (
        "plain", "embedding_only", "published", "published_sum", "optimal", "joint",
    )),
    *((mse, "largest_residual_ratio", larger_field(field)) for field in ("published", "published_sum", "optimal", "joint")),
    *((mse, "least_residual_energy", larger_field(field)) for field in (
        "plain", "published", "published_sum", "optimal", "joint",
    )),
    (clipping_bias, "clipping_bias", larger_field("square")),
    (clipping_bias, "clipping_bias", larger_field("embedding")),
    (clipping_bias, "clipping_bias", larger_field("residual")),
    (clipping_bias, "joint_clipping_bias", larger_field("square")),
    (groups, "grouping_cost_ratio", scaled),
    (groups, "grouping_cost_ratio", wrong_where(lambda sizes, basis: len(sizes) > 2)),
    (groups, "square_root_allocation", _proportional),
    (groups, "square_root_allocation", scaled),
]  # fmt: skip
