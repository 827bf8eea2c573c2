import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from dptheory import pruning
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.gip._gaussian import CHANCES, response


def _response_is_private(chance: Fraction, distance: int, epsilon: float) -> bool:
    first, second = (False,) * distance, (True,) * distance
    p, q = response(first, chance), response(second, chance)
    return all(
        (b > 0 or a == 0) and (a == 0 or math.log(a) - math.log(b) <= epsilon + 1e-12)
        for out in p
        for a, b in ((p[out], q[out]),)
    )


def printed_response_condition(probability: float, distance: int, epsilon: float) -> bool:
    """Equation 26 as printed: p <= e^(epsilon/C_1) / (1 + e^(epsilon/C_1)), with no lower bound on p."""
    return probability <= pruning.randomized_response_probability(epsilon=epsilon, distance=distance)


def _response_cases() -> Iterator[tuple[Fraction, int, float]]:
    yield from itertools.product(CHANCES, (1, 2, 4), (0.5, 3.0))


row = new_row(
    id="gip.prop3",
    source=Source("gip", "Proposition 3", (25, 26)),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_response_condition,
    calculators=(pruning.randomized_response_epsilon, pruning.randomized_response_probability),
)


@row.equal(_response_cases, kind=Kind.COUNTEREXAMPLE)
def _(chance: Fraction, distance: int, epsilon: float) -> Sides:
    """private or not, by enumeration"""
    return (
        max(float(chance), 1 - float(chance))
        <= pruning.randomized_response_probability(epsilon=epsilon, distance=distance),
        lambda: _response_is_private(chance, distance, epsilon),
        printed_response_condition(float(chance), distance, epsilon),
    )


@row.equal(lambda: [(p, m) for p in CHANCES[1:] for m in (1, 3, 5)], tolerance=1e-12)
def _(chance: Fraction, distance: int) -> Sides:
    """exact loss"""
    return (
        pruning.randomized_response_epsilon(probability=float(chance), distance=distance),
        lambda: max(
            abs(math.log(a) - math.log(b))
            for a, b in zip(
                response((False,) * distance, chance).values(),
                response((True,) * distance, chance).values(),
                strict=True,
            )
        ),
        pruning.randomized_response_epsilon(probability=float(chance), distance=1),
    )


@row.equal(lambda: [(eps, m) for eps in (0.1, 1.0, 8.0) for m in (1, 2, 52)], tolerance=1e-12)
def _(budget: float, distance: int) -> Sides:
    """the largest probability spends the budget"""
    return (
        pruning.randomized_response_epsilon(
            probability=pruning.randomized_response_probability(epsilon=budget, distance=distance), distance=distance
        ),
        budget,
        pruning.randomized_response_epsilon(
            probability=pruning.randomized_response_probability(epsilon=budget, distance=1), distance=distance
        ),
    )
