import itertools

from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite

row = new_row(
    id="gip.unrestricted",
    source=Source("gip", "section 4.1, after Definition 3"),
    verdict=Verdict.HOLDS,
)


def _farthest(dim: int) -> int:
    """The largest L1 distance of two index sets of any size, by enumeration."""
    sets = list(itertools.product((False, True), repeat=dim))
    return max(_finite.hamming(one, other) for one in sets for other in sets)


@row.equal((3,), (5,), (6,))
def _(dim: int) -> Sides:
    """distance of index sets of any size, against those with one entry kept"""
    return dim, lambda: _farthest(dim), _finite.diameter(dim, 1)
