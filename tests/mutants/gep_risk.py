"""Wrong calculators of the excess risk."""

from typing import Any

from dptheory.embedding import risk
from mutants.mutators import Calculator, Mutant, larger_field, scaled, wrong_where


def _one_more_step(function: Calculator) -> Calculator:
    """The risk one step beyond the best number of steps."""

    def mutant(*a: Any, **k: Any) -> risk.ExcessRisk:
        return function(*a, **{**k, "steps": function(*a, **k).steps + 1})  # type: ignore[no-any-return]

    return mutant


MUTANTS: list[Mutant] = [
    *((risk, "noisy_descent_risk", larger_field(field)) for field in ("optimization", "noise")),
    (risk, "least_risk", scaled),
    (risk, "least_risk", wrong_where(lambda smoothness, distance, steps, lipschitz=1.0: steps > 2)),
    *(
        (risk, name, larger_field(field))
        for name in ("excess_risk", "excess_risk_as_published")
        for field in ("optimization", "noise")
    ),
    *((risk, name, _one_more_step) for name in ("excess_risk", "excess_risk_as_published")),
]
