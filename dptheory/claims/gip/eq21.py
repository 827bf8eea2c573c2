"""gip.eq21: number of index sets at a distance."""

import math

from dptheory.claims._row import Claim, Row, Sides, Source, Verdict
from dptheory.claims.gip import _finite


def swap_count(dim: int, keep: int, swaps: int) -> int:
    """Equation 21: number of k-subsets at Hamming distance 2 * swaps from a given one."""
    return math.comb(keep, swaps) * math.comb(dim - keep, swaps)


row = Row(
    Claim(
        id="gip.eq21",
        title="number of index sets at a distance",
        source=Source("gip", "Appendix A.3", (20, 21)),
        statement=r"""Let $I_t$ be an index set with $K = kd$ of $d$ ones. For index sets $I$ with $K$ ones the L1 distance $h(I, I_t)$ is $2i$,
where $i$ is the number of ones of $I_t$ that are zeros of $I$, and the number of $I$ with $h(I, I_t) = 2i$ is
$\binom Ki\binom{d-K}i$.""",
        verdict=Verdict.HOLDS,
        summary=(
            r"$\binom{K}{i}\binom{d-K}{i}$ index sets with $K$ ones lie at L1 distance $2i$ from a given one, and none lie at "
            "an odd distance."
        ),
        conditions=(
            r"$I$ and $I_t$ have the same number $K$ of ones, $0 \le K \le d$.",
            (
                r"$i$ runs from 0 to $\min(K, d-K)$. The printed upper end $kd$ is harmless: a binomial coefficient "
                r"$\binom{d-K}{i}$ with $i > d-K$ is zero."
            ),
        ),
        proved=True,
    )
)


@row.equal(lambda: [(*size, i) for size in _finite.SIZES for i in range(size[0] + 1)])
def _(dim: int, keep: int, i: int) -> Sides:
    """count by enumeration"""
    return (
        swap_count(dim, keep, i),
        lambda: sum(_finite.hamming(_finite.subsets(dim, keep)[0], s) == 2 * i for s in _finite.subsets(dim, keep)),
        math.comb(keep, i) * math.comb(dim, i),
    )
