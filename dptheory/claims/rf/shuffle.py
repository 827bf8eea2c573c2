import itertools
import math
from fractions import Fraction

from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

Law = dict[tuple[int, ...], Fraction]


def shuffled_law(records: tuple[int, ...], truthful: Fraction) -> Law:
    """Law of the outputs when the records are shuffled and each is sent through randomised response, batches of one."""
    law: Law = {}
    orders = list(itertools.permutations(records))
    for order, outputs in itertools.product(orders, itertools.product((0, 1), repeat=len(records))):
        chance = math.prod(
            (truthful if x == y else 1 - truthful for x, y in zip(order, outputs, strict=True)), start=Fraction(1)
        )
        law[outputs] = law.get(outputs, Fraction(0)) + chance / len(orders)
    return law


def largest_ratio(truthful: Fraction, size: int, given_history: bool) -> Fraction:
    """Largest ratio of the last output's probabilities between {0, 1, ..., 1} and {1, ..., 1}, given the earlier outputs or not."""
    ones = (1,) * (size - 1)
    laws = [shuffled_law((first, *ones), truthful) for first in (0, 1)]

    def chance(law: Law, last: int, history: tuple[int, ...] | None) -> Fraction:
        chosen = {o: p for o, p in law.items() if history is None or o[:-1] == history}
        return sum((p for o, p in chosen.items() if o[-1] == last), Fraction(0)) / sum(chosen.values())

    histories = list(itertools.product((0, 1), repeat=size - 1)) if given_history else [None]
    pairs = ((chance(laws[0], y, h), chance(laws[1], y, h)) for h in histories for y in (0, 1))
    return max(max(a / b, b / a) for a, b in pairs)


def amplified(truthful: Fraction, size: int) -> Fraction:
    """1 + q (e^epsilon - 1) for q = 1/size and randomised response with e^epsilon = truthful / (1 - truthful)."""
    return 1 + (truthful / (1 - truthful) - 1) / size


row = new_row(
    id="rf.shuffle",
    source=Source("rf", "section 4, Privacy budget; RS, section 6 and Appendix K"),
    verdict=Verdict.CONDITIONAL,
    kernel_theorems=("reading_is_false", "correction_holds"),
)


@row.equal(
    (Fraction(3, 4), 2, True),
    (Fraction(3, 4), 3, True),
    (Fraction(3, 4), 2, False),
    (Fraction(2, 3), 3, False),
    kind=Kind.COUNTEREXAMPLE,
)
def _(truthful: Fraction, size: int, history: bool) -> Sides:
    """each iteration is amplified given the earlier ones"""
    return not history, lambda: largest_ratio(truthful, size, history) <= amplified(truthful, size), True


@row.equal((Fraction(3, 4), 2), kind=Kind.COUNTEREXAMPLE)
def _(truthful: Fraction, size: int) -> Sides:
    """two records, e^epsilon = 3: the ratio is 5/2"""
    return (
        (truthful**2 + (1 - truthful) ** 2) / (1 - truthful),
        lambda: largest_ratio(truthful, size, True),
        amplified(truthful, size),
    )
