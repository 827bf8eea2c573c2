import itertools
from fractions import Fraction

from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

row = new_row(
    id="rf.principal",
    source=Source("rf", "section 3.3, second reason"),
    verdict=Verdict.CONDITIONAL,
)


def _held_by_entries(dim: int, keep: int) -> Fraction:
    """The largest share of the energy of g = +-(1, ..., 1) that keep entries hold, by enumeration."""
    gradients = ((1,) * dim, (-1,) * dim)
    energy = sum(entry**2 for g in gradients for entry in g)
    sets = itertools.combinations(range(dim), keep)
    return max(Fraction(sum(g[j] ** 2 for g in gradients for j in kept), energy) for kept in sets)


@row.equal((2, 1), (5, 2), (8, 7), kind=Kind.COUNTEREXAMPLE)
def _(dim: int, keep: int) -> Sides:
    """share of the energy that entries hold, where one component holds all"""
    return Fraction(keep, dim), lambda: _held_by_entries(dim, keep), Fraction(1)
