"""GIP: randomised response beside the Mallows mechanism, and per-example pruning."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

from dptheory import pruning
from dptheory.checks import ExactCheck, Kind
from dptheory.claims._claim import Claim, Source, Verdict
from dptheory.claims.gip import _finite

_CHANCES = (Fraction(0), Fraction(1, 10), Fraction(1, 2), Fraction(3, 5), Fraction(9, 10))


def _response(reference: tuple[bool, ...], chance: Fraction) -> dict[tuple[bool, ...], Fraction]:
    """Randomised response on every bit, by enumeration of the outputs."""
    outputs = itertools.product((False, True), repeat=len(reference))
    return {
        out: math.prod(
            (chance if a == b else 1 - chance for a, b in zip(out, reference, strict=True)), start=Fraction(1)
        )
        for out in outputs
    }


def _response_is_private(chance: Fraction, distance: int, epsilon: float) -> bool:
    first, second = (False,) * distance, (True,) * distance
    p, q = _response(first, chance), _response(second, chance)
    return all(
        (b > 0 or a == 0) and (a == 0 or math.log(a) - math.log(b) <= epsilon + 1e-12)
        for out in p
        for a, b in ((p[out], q[out]),)
    )


def printed_response_condition(probability: float, distance: int, epsilon: float) -> bool:
    """Equation 26 as printed: p <= e^(epsilon/C_1) / (1 + e^(epsilon/C_1)), with no lower bound on p."""
    return probability <= pruning.randomized_response_probability(epsilon, distance)


def _response_cases() -> Iterator[tuple[Fraction, int, float]]:
    yield from itertools.product(_CHANCES, (1, 2, 4), (0.5, 3.0))


_PROP3 = Claim(
    id="gip.prop3",
    title="randomised response",
    source=Source("gip", "Proposition 3", (25, 26)),
    statement=r"Keeping each bit with probability $p$ is $\epsilon_2$-DP if "
    r"$p \le e^{\epsilon_2/C_1}/(1+e^{\epsilon_2/C_1})$.",
    verdict=Verdict.CONDITIONAL,
    conditions=("p >= 1/2", "for the converse, C_1 is the attained sensitivity"),
    correction=r"$\epsilon_2$-DP if and only if $\max(p, 1-p) \le e^{\epsilon_2/C_1}/(1+e^{\epsilon_2/C_1})$; the exact loss at "
    r"distance $C_1$ is $C_1|\log\frac{p}{1-p}|$.",
    printed=printed_response_condition,
    calculators=(pruning.randomized_response_epsilon, pruning.randomized_response_probability),
    checks=(
        ExactCheck(
            name="private or not, by enumeration",
            cases=_response_cases,
            truth=_response_is_private,
            statement=lambda chance, distance, epsilon: (
                max(float(chance), 1 - float(chance)) <= pruning.randomized_response_probability(epsilon, distance)
            ),
            wrong=lambda chance, distance, epsilon: printed_response_condition(float(chance), distance, epsilon),
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="exact loss",
            cases=lambda: [(p, m) for p in _CHANCES[1:] for m in (1, 3, 5)],
            truth=lambda chance, distance: max(
                abs(math.log(a) - math.log(b))
                for a, b in zip(
                    _response((False,) * distance, chance).values(),
                    _response((True,) * distance, chance).values(),
                    strict=True,
                )
            ),
            statement=lambda chance, distance: pruning.randomized_response_epsilon(float(chance), distance),
            wrong=lambda chance, distance: pruning.randomized_response_epsilon(float(chance), 1),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="the largest probability spends the budget",
            cases=lambda: [(eps, m) for eps in (0.1, 1.0, 8.0) for m in (1, 2, 52)],
            truth=lambda budget, distance: budget,
            statement=lambda budget, distance: pruning.randomized_response_epsilon(
                pruning.randomized_response_probability(budget, distance), distance
            ),
            wrong=lambda budget, distance: pruning.randomized_response_epsilon(
                pruning.randomized_response_probability(budget, 1), distance
            ),
            tolerance=1e-12,
        ),
    ),
    proved=True,
)


def _conditioned_swap_law(dim: int, keep: int, chance: Fraction, swaps: int) -> float:
    """P(i swapped pairs | K ones) under randomised response, by enumeration."""
    reference = tuple(j < keep for j in range(dim))
    law = {out: p for out, p in _response(reference, chance).items() if sum(out) == keep}
    at = sum(p for out, p in law.items() if _finite.hamming(out, reference) == 2 * swaps)
    return float(at / sum(law.values()))


def _conditioned_cases() -> Iterator[tuple[int, int, Fraction, int]]:
    for dim, keep in _finite.SIZES:
        for chance in _CHANCES[2:]:
            for swaps in range(min(keep, dim - keep) + 1):
                yield dim, keep, chance, swaps


def _expected_ones(dim: int, keep: int, chance: Fraction) -> Fraction:
    law = _response(tuple(j < keep for j in range(dim)), chance)
    return sum((p * sum(out) for out, p in law.items()), Fraction(0))


_A4 = Claim(
    id="gip.a4",
    title="Mallows against randomised response",
    source=Source("gip", "Appendix A.4"),
    statement=r"At the same budget and sensitivity randomised response says nearly nothing of the index, "
    r"and the Mallows mechanism is better.",
    verdict=Verdict.FALSE,
    conditions=("as a comparison of privacy or information at equal sensitivity C_1",),
    correction=r"Randomised response is exactly $\theta C_1$-DP with $\theta = \log\frac{p}{1-p}$, the same $\theta$ as Mallows at "
    r"the same budget, and given $|I| = K$ it is the Mallows law. The true part: its output has "
    r"$pK + (1-p)(d-K)$ ones on average, not $K$. Which of the two says more of the index depends on $d$, $K$, "
    r"$\theta$ and the measure.",
    calculators=(pruning.mallows_theta, pruning.randomized_response_epsilon, pruning.SubsetMallows.epsilon),
    checks=(
        ExactCheck(
            name="given K ones it is Mallows",
            cases=_conditioned_cases,
            truth=_conditioned_swap_law,
            statement=lambda dim, keep, chance, swaps: float(
                pruning.SubsetMallows(dim, keep, pruning.mallows_theta(float(chance))).swap_pmf()[swaps]
            ),
            wrong=lambda dim, keep, chance, swaps: float(
                pruning.SubsetMallows(dim, keep, pruning.mallows_theta(float(chance)) / 2).swap_pmf()[swaps]
            ),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="the same epsilon at every distance",
            cases=lambda: [(float(p), m) for p in _CHANCES[2:] for m in (2, 4, 8)],
            truth=lambda probability, distance: pruning.randomized_response_epsilon(probability, distance),
            statement=lambda probability, distance: pruning.SubsetMallows(
                8, 4, pruning.mallows_theta(probability)
            ).epsilon(distance),
            # The appendix's reading: for the same epsilon Mallows may follow the top-k set twice as closely.
            wrong=lambda probability, distance: pruning.SubsetMallows(
                8, 4, 2 * pruning.mallows_theta(probability)
            ).epsilon(distance),
            tolerance=1e-12,
        ),
        ExactCheck(
            name="number of ones is lost",
            cases=lambda: [(6, keep, p) for keep in range(1, 6) for p in _CHANCES],
            truth=_expected_ones,
            statement=lambda dim, keep, chance: chance * keep + (1 - chance) * (dim - keep),
            wrong=lambda dim, keep, chance: Fraction(keep),
        ),
    ),
    proved=True,
)


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

_A4_SENSITIVITY = Claim(
    id="gip.a4.sensitivity",
    title="sensitivity by per-example pruning",
    source=Source("gip", "Appendix A.4, text after Proposition 3"),
    statement=r"Pruning each example's gradient to 1 % of $d = 10^6$ entries bounds the index sensitivity by "
    r"$C_1 = 2 \times 10^4$.",
    verdict=Verdict.CONDITIONAL,
    conditions=(
        "the index set is the support of the summed gradient",
        "neighbours replace one example; under add/remove the bound is half, 10^4",
        "the support has then up to |B| K ones: it is not a k-subset, and the gradient is not pruned to 1 %",
    ),
    correction=r"The support of the sum moves in at most $K$ places under add/remove and $2K$ under replacement. It has up to "
    r"$\min(d, |B|K)$ ones. If the index set is the top-$k$ set of the sum with the same $K$, per-example pruning changes "
    r"nothing: Definition 3 gives $2K$ with or without it.",
    calculators=(pruning.index_sensitivity,),
    checks=(
        ExactCheck(
            name="support of the sum, replace one",
            cases=lambda: [(*size, 1, True) for size in ((2, 1), (3, 1), (3, 2), (4, 2))],
            truth=_support_sensitivity,
            statement=lambda dim, keep, others, replaced: min(2 * keep, dim),
            wrong=lambda dim, keep, others, replaced: keep,
        ),
        ExactCheck(
            name="support of the sum, add or remove one",
            cases=lambda: [(*size, others, False) for size in ((2, 1), (4, 1), (5, 2)) for others in (1, 2)],
            truth=_support_sensitivity,
            statement=lambda dim, keep, others, replaced: keep,
            wrong=lambda dim, keep, others, replaced: 2 * keep,
            kind=Kind.COUNTEREXAMPLE,
        ),
        ExactCheck(
            name="the sum is not K-sparse",
            cases=lambda: [(*size, batch) for size in _SPARSE for batch in (1, 2, 3)],
            truth=_largest_support,
            statement=lambda dim, keep, batch: min(dim, batch * keep),
            wrong=lambda dim, keep, batch: keep,
            kind=Kind.COUNTEREXAMPLE,
        ),
    ),
    proved=True,
)

CLAIMS = (_PROP3, _A4, _A4_SENSITIVITY)
