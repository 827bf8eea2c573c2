"""Wrong calculators of the convergence bound of layer freezing."""

import dataclasses
from collections.abc import Callable
from typing import Any

from dptheory import convergence, freezing_bound
from mutants.mutators import Calculator, Mutant, larger_field, scaled
from mutants.rs_descent import moved


def _noise_of_all_layers(function: Calculator) -> Calculator:
    """The comparison forgets that frozen layers get no noise."""

    def mutant(sizes, frozen, *a, **k):  # type: ignore[no-untyped-def]
        return function(sizes, 0, *a, **k)

    return mutant


def _part(side: str, field: str, factor: float) -> Callable[[Calculator], Calculator]:
    """One term of one of the two bounds is wrong."""

    def mutate(function: Calculator) -> Calculator:
        def mutant(*a: Any, **k: Any) -> Any:
            found = function(*a, **k)
            part = getattr(found, side)
            changed = dataclasses.replace(part, **{field: factor * getattr(part, field)})
            return dataclasses.replace(found, **{side: changed})

        return mutant

    return mutate


MUTANTS: list[Mutant] = [
    *(
        (convergence, "layer_freezing_bound", larger_field(field))
        for field in ("optimization", "clipping", "noise", "bias")
    ),
    *(
        (convergence, "layer_freezing_bound", moved(field, factor))
        for field in ("optimization", "clipping", "noise", "bias")
        for factor in (0.99, 1.01)
    ),
    *(
        (freezing_bound, "freezing_bounds", _part(side, field, factor))
        for side in ("full", "frozen")
        for field in ("optimization", "clipping", "noise", "bias")
        for factor in (0.99, 1.01)
    ),
    *((freezing_bound, "freezing_bounds", moved(field, 1.01)) for field in ("dim", "trainable_dim")),
    (freezing_bound, "freezing_bounds", _noise_of_all_layers),
    (freezing_bound, "private_second_moment", scaled),
]
