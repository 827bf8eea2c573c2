import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from dptheory import pruning
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite
from dptheory.claims.gip._finite import CHANCES, response


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


prop3 = new_row(
    id="gip.prop3",
    source=Source("gip", "Proposition 3", (25, 26)),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("printed_is_false", "correction_holds"),
    printed=printed_response_condition,
    calculators=(pruning.randomized_response_epsilon, pruning.randomized_response_probability),
)


@prop3.equal(lambda: itertools.product(CHANCES, (1, 2, 4), (0.5, 3.0)), kind=Kind.COUNTEREXAMPLE)
def _(chance: Fraction, distance: int, epsilon: float) -> Sides:
    """private or not, by enumeration"""
    return (
        max(float(chance), 1 - float(chance))
        <= pruning.randomized_response_probability(epsilon=epsilon, distance=distance),
        lambda: _response_is_private(chance, distance, epsilon),
        printed_response_condition(float(chance), distance, epsilon),
    )


@prop3.equal(lambda: [(p, m) for p in CHANCES[1:] for m in (1, 3, 5)], tolerance=1e-12)
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


@prop3.equal(lambda: [(eps, m) for eps in (0.1, 1.0, 8.0) for m in (1, 2, 52)], tolerance=1e-12)
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


a4 = new_row(
    id="gip.a4",
    source=Source("gip", "Appendix A.4"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
    calculators=(pruning.mallows_theta, pruning.randomized_response_epsilon, pruning.SubsetMallows.epsilon),
)


@a4.equal(_conditioned_cases, tolerance=1e-12)
def _(dim: int, keep: int, chance: Fraction, swaps: int) -> Sides:
    """given K ones it is Mallows"""
    return (
        pruning.SubsetMallows(dim, keep, theta=pruning.mallows_theta(float(chance))).swap_pmf()[swaps],
        lambda: _conditioned_swap_law(dim, keep, chance, swaps),
        pruning.SubsetMallows(dim, keep, theta=pruning.mallows_theta(float(chance)) / 2).swap_pmf()[swaps],
    )


@a4.equal(lambda: [(float(p), m) for p in CHANCES[2:] for m in (2, 4, 8)], tolerance=1e-12)
def _(probability: float, distance: int) -> Sides:
    """the same epsilon at every distance"""
    return (
        pruning.SubsetMallows(8, 4, theta=pruning.mallows_theta(probability)).epsilon(distance),
        lambda: pruning.randomized_response_epsilon(probability=probability, distance=distance),
        # the appendix's reading: for the same epsilon Mallows may follow the top-k set twice as closely
        pruning.SubsetMallows(8, 4, theta=2 * pruning.mallows_theta(probability)).epsilon(distance),
    )


@a4.equal(lambda: [(6, keep, p) for keep in range(1, 6) for p in CHANCES])
def _(dim: int, keep: int, chance: Fraction) -> Sides:
    """number of ones is lost"""
    return chance * keep + (1 - chance) * (dim - keep), lambda: _expected_ones(dim, keep, chance), Fraction(keep)


def _support_sensitivity(dim: int, keep: int, others: int, replaced: bool) -> int:
    """Largest move of the support of a sum of keep-sparse gradients, entries -1, 0, 1, when one leaves or is replaced."""
    examples = [
        tuple(next(one) if stays else 0 for stays in kept)
        for kept in _finite.subsets(dim, keep)
        for signs in itertools.product((-1, 1), repeat=keep)
        for one in (iter(signs),)
    ]
    bases = {tuple(map(sum, zip(*chosen, strict=True))) for chosen in itertools.product(examples, repeat=others)}
    outs = list(itertools.product(examples, examples)) if replaced else [(e, (0,) * dim) for e in examples]
    return max(
        _finite.hamming(_support(base, first), _support(base, second)) for base in bases for first, second in outs
    )


def _support(base: tuple[int, ...], example: tuple[int, ...]) -> tuple[bool, ...]:
    return tuple(a + b != 0 for a, b in zip(base, example, strict=True))


def _largest_support(dim: int, keep: int, batch: int) -> int:
    chosen = itertools.product(_finite.subsets(dim, keep), repeat=batch)
    return max(sum(any(bits) for bits in zip(*one, strict=True)) for one in chosen)


_SPARSE = ((5, 1), (6, 1), (6, 2), (7, 2))


a4_sensitivity = new_row(
    id="gip.a4.sensitivity",
    source=Source("gip", "Appendix A.4, text after Proposition 3"),
    verdict=Verdict.HOLDS,
    kernel_theorems=("printed_holds", "reading_is_false", "correction_holds"),
    calculators=(pruning.index_sensitivity,),
)


@a4_sensitivity.equal(lambda: [(*size, 1, True) for size in ((2, 1), (3, 1), (3, 2), (4, 2))])
def _(dim: int, keep: int, others: int, replaced: bool) -> Sides:
    """support of the sum, replace one"""
    return min(2 * keep, dim), lambda: _support_sensitivity(dim, keep, others, replaced), keep


@a4_sensitivity.equal(
    lambda: [(*size, others, False) for size in ((2, 1), (4, 1), (5, 2)) for others in (1, 2)], kind=Kind.COUNTEREXAMPLE
)
def _(dim: int, keep: int, others: int, replaced: bool) -> Sides:
    """support of the sum, add or remove one"""
    return keep, lambda: _support_sensitivity(dim, keep, others, replaced), 2 * keep


@a4_sensitivity.equal(lambda: [(*size, batch) for size in _SPARSE for batch in (1, 2, 3)], kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int, batch: int) -> Sides:
    """the sum is not K-sparse"""
    return min(dim, batch * keep), lambda: _largest_support(dim, keep, batch), keep
