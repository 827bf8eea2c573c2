"""Wrong calculators of the convergence bound of layer freezing."""

from dptheory import convergence, freezing_bound
from mutants.mutators import Calculator, Mutant, larger_field, scaled


def _noise_of_all_layers(function: Calculator) -> Calculator:
    """The comparison forgets that frozen layers get no noise."""

    def mutant(sizes, frozen, *a, **k):  # type: ignore[no-untyped-def]
        return function(sizes, 0, *a, **k)

    return mutant


MUTANTS: list[Mutant] = [
    *(
        (convergence, "layer_freezing_bound", larger_field(field))
        for field in ("optimization", "clipping", "noise", "bias")
    ),
    (freezing_bound, "freezing_bounds", _noise_of_all_layers),
    (freezing_bound, "private_second_moment", scaled),
]
