import math

from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.gip import _finite


def swap_count(dim: int, keep: int, swaps: int) -> int:
    """Equation 21: number of k-subsets at Hamming distance 2 * swaps from a given one."""
    return math.comb(keep, swaps) * math.comb(dim - keep, swaps)


row = new_row(
    id="gip.eq21",
    source=Source("gip", "Appendix A.3", (20, 21)),
    verdict=Verdict.HOLDS,
)


@row.equal(lambda: [(*size, i) for size in _finite.SIZES for i in range(size[0] + 1)])
def _(dim: int, keep: int, i: int) -> Sides:
    """count by enumeration"""
    return (
        swap_count(dim, keep, i),
        lambda: sum(_finite.hamming(_finite.subsets(dim, keep)[0], s) == 2 * i for s in _finite.subsets(dim, keep)),
        math.comb(keep, i) * math.comb(dim, i),
    )
