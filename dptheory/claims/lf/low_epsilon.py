from fractions import Fraction

from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.lf import _privacy

row = new_row(
    id="lf.low_epsilon",
    source=Source("lf", "Section 1, on low epsilon"),
    verdict=Verdict.NOT_SHOWN,
)


_LOWEST_AND_HIGHEST = {
    "MNIST, CNN": (1, 3, Fraction(1, 1000)),
    "FashionMNIST, CNN": (1, 3, Fraction(1, 1000)),
    "CIFAR10, CNN": (3, 7, Fraction(1, 1000)),
    "CIFAR10, Wide-ResNet": (1, 2, Fraction(2, 1000)),
}
"""Budgets of each row of Table 1, and by how much the gain at the lower one is above that at the higher one."""


def _gain(setting: str) -> Fraction:
    before, after = (cell.number() for cell in _privacy.TABLE_1[setting])
    return Fraction(after) - Fraction(before)


@row.equal(lambda: [(name, low, high) for name, (low, high, _) in _LOWEST_AND_HIGHEST.items()])
def _(name: str, low: int, high: int) -> Sides:
    """gain at the lowest budget less gain at the highest, in the table"""
    found = _LOWEST_AND_HIGHEST[name][2]
    return found, lambda: _gain(f"{name}, epsilon {low}") - _gain(f"{name}, epsilon {high}"), 2 * found
