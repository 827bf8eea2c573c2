from collections.abc import Iterator
from fractions import Fraction

from dptheory import pruning
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._gaussian import CHANCES, response


def _conditioned_swap_law(dim: int, keep: int, chance: Fraction, swaps: int) -> float:
    """P(i swapped pairs | K ones) under randomised response, by enumeration."""
    reference = tuple(j < keep for j in range(dim))
    law = {out: p for out, p in response(reference, chance).items() if sum(out) == keep}
    at = sum(p for out, p in law.items() if _finite.hamming(out, reference) == 2 * swaps)
    return float(at / sum(law.values()))


def _conditioned_cases() -> Iterator[tuple[int, int, Fraction, int]]:
    for dim, keep in _finite.SIZES:
        for chance in CHANCES[2:]:
            for swaps in range(min(keep, dim - keep) + 1):
                yield dim, keep, chance, swaps


def _expected_ones(dim: int, keep: int, chance: Fraction) -> Fraction:
    law = response(tuple(j < keep for j in range(dim)), chance)
    return sum((p * sum(out) for out, p in law.items()), Fraction(0))


row = new_row(
    id="gip.a4",
    source=Source("gip", "Appendix A.4"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    calculators=(pruning.mallows_theta, pruning.randomized_response_epsilon, pruning.SubsetMallows.epsilon),
)


@row.equal(_conditioned_cases, tolerance=1e-12)
def _(dim: int, keep: int, chance: Fraction, swaps: int) -> Sides:
    """given K ones it is Mallows"""
    return (
        pruning.SubsetMallows(dim, keep, theta=pruning.mallows_theta(float(chance))).swap_pmf()[swaps],
        lambda: _conditioned_swap_law(dim, keep, chance, swaps),
        pruning.SubsetMallows(dim, keep, theta=pruning.mallows_theta(float(chance)) / 2).swap_pmf()[swaps],
    )


@row.equal(lambda: [(float(p), m) for p in CHANCES[2:] for m in (2, 4, 8)], tolerance=1e-12)
def _(probability: float, distance: int) -> Sides:
    """the same epsilon at every distance"""
    return (
        pruning.SubsetMallows(8, 4, theta=pruning.mallows_theta(probability)).epsilon(distance),
        lambda: pruning.randomized_response_epsilon(probability=probability, distance=distance),
        # the appendix's reading: for the same epsilon Mallows may follow the top-k set twice as closely
        pruning.SubsetMallows(8, 4, theta=2 * pruning.mallows_theta(probability)).epsilon(distance),
    )


@row.equal(lambda: [(6, keep, p) for keep in range(1, 6) for p in CHANCES])
def _(dim: int, keep: int, chance: Fraction) -> Sides:
    """number of ones is lost"""
    return chance * keep + (1 - chance) * (dim - keep), lambda: _expected_ones(dim, keep, chance), Fraction(keep)
