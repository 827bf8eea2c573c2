import itertools
import math
from fractions import Fraction

from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite

row = new_row(
    id="gip.grouping",
    source=Source("gip", "section 4.2, groups"),
    verdict=Verdict.HOLDS,
)


Group = tuple[int, int, Fraction]
"""(entries, ones, e^-theta)."""


def _largest_ratio(groups: tuple[Group, ...]) -> Fraction:
    """The largest ratio of the chances of one outcome under two references, over all pairs and outcomes, by enumeration."""
    laws = [
        [_finite.mallows(reference, weight) for reference in _finite.subsets(dim, keep)] for dim, keep, weight in groups
    ]
    outcomes = list(itertools.product(*(list(group[0]) for group in laws)))
    chances = [
        [
            math.prod((law[part] for law, part in zip(chosen, outcome, strict=True)), start=Fraction(1))
            for outcome in outcomes
        ]
        for chosen in itertools.product(*laws)
    ]
    return max(a / b for one, other in itertools.product(chances, repeat=2) for a, b in zip(one, other, strict=True))


@row.equal(
    (((2, 1, Fraction(1, 2)), (3, 1, Fraction(2, 3))),),
    (((3, 1, Fraction(1, 2)), (3, 2, Fraction(1, 3))),),
    (((2, 1, Fraction(1, 5)), (2, 1, Fraction(1, 2)), (2, 1, Fraction(3, 4))),),
)
def _(groups: tuple[Group, ...]) -> Sides:
    """the largest likelihood ratio of all groups together"""
    each = [weight ** -_finite.diameter(dim, keep) for dim, keep, weight in groups]
    return math.prod(each, start=Fraction(1)), lambda: _largest_ratio(groups), max(each)
