from fractions import Fraction

from dptheory import embedding
from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gep import _subspace_bounds


def _affine_line_rank(anchors: int) -> bool:
    """Points (t, 1): on a flat with probability 1, on no line through 0 twice."""
    return _subspace_bounds.rank([(t, 1) for t in range(1, anchors + 1)]) == 2


row = new_row(
    id="gep.thmD.1",
    source=Source("gep", "Theorem D.1"),
    verdict=Verdict.HOLDS,
    calculators=(embedding.recovery_probability,),
)


@row.equal(lambda: [(p, n) for p in (1, 2, 3, 4) for n in (1, 2, 3, 4, 6)])
def _(p: int, n: int) -> Sides:
    """general position spans, exact ranks"""
    return (
        embedding.recovery_probability(rank=p, anchors=n),
        Fraction(int(_subspace_bounds.rank(_subspace_bounds.moment_curve(n, p)) == p)),
        Fraction(int(n > p)),
    )


@row.equal(lambda: [(n,) for n in (2, 3, 5)])
def _(n: int) -> Sides:
    """a law on a line that misses 0: flats have mass, subspaces have none"""
    return n >= 2, lambda: _affine_line_rank(n), False
