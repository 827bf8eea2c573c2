from fractions import Fraction

from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.lf import _privacy


def _change_of_spread(setting: str) -> Fraction:
    """-1, 0 or 1: smaller, equal or larger as printed with freezing."""
    before, after = (cell.spread() for cell in _privacy.TABLE_1[setting])
    assert before is not None and after is not None
    if before == after:
        return Fraction(0)
    return Fraction(-1 if float(after) < float(before) else 1)


_EQUAL_SPREAD = tuple(
    f"{data}, CNN, epsilon {epsilon}"
    for data, epsilon in (("MNIST", 2), ("MNIST", 3), ("FashionMNIST", 1), ("FashionMNIST", 3))
)
_WITH_SPREAD = tuple(name for name, (cell, _) in _privacy.TABLE_1.items() if cell.spread())


row = new_row(
    id="lf.spread",
    source=Source("lf", "Section 4, Table 1"),
    verdict=Verdict.LOOSE,
)


@row.equal(lambda: [(name,) for name in _WITH_SPREAD])
def _(name: str) -> Sides:
    """standard deviations of Table 1"""
    smaller_everywhere = Fraction(-1)
    return Fraction(0 if name in _EQUAL_SPREAD else -1), _change_of_spread(name), smaller_everywhere
