from fractions import Fraction

from dptheory.claims._draws import all_masks
from dptheory.claims._row import Sides, Source, Verdict, new_row

row = new_row(
    id="rf.inverse_kappa",
    source=Source("rf", "section 2.1, text after equation 5, on kappa"),
    verdict=Verdict.HOLDS,
)


def _inverse(dim: int, keep: int) -> Fraction:
    """1 / kappa of the gradient (5, 0, ..., 0) without deviation, C = 4, by enumeration of the masks."""
    masks = list(all_masks(dim, keep))
    masked = [Fraction(5 * mask[0]) for mask in masks]
    return (
        5 * min(Fraction(5), Fraction(3)) / (sum((v * min(v, Fraction(3)) for v in masked), Fraction(0)) / len(masks))
    )


@row.equal((10, 1), (10, 5), (4, 3), (7, 2))
def _(dim: int, keep: int) -> Sides:
    """one entry: 1 / kappa = 1 / (1 - r)"""
    return Fraction(dim, keep), lambda: _inverse(dim, keep), Fraction(1)
