from fractions import Fraction

from dptheory.claims._row import Sides, Source, Verdict, new_row
from dptheory.claims.rs.more_parameters import _gain_and_dim

row = new_row(
    id="rs.small_epsilon",
    source=Source("rs", "section 6.2, Table 2, gains by epsilon"),
    verdict=Verdict.HOLDS,
)


def _surplus(dataset: str, network: str) -> Fraction:
    """By how many points the gain at epsilon = 1 is above that at epsilon = 3."""
    return _gain_and_dim(dataset, network, "1.0")[0] - _gain_and_dim(dataset, network, "3.0")[0]


_SURPLUS = {
    ("CIFAR10", "H-CNN"): Fraction("0.5"),
    ("CIFAR10", "DP-CNN"): Fraction("1.1"),
    ("SVHN", "H-CNN"): Fraction("0.6"),
    ("SVHN", "DP-CNN"): Fraction("2.0"),
    ("FMNIST", "H-CNN"): Fraction("0.9"),
    ("FMNIST", "DP-CNN"): Fraction("0.5"),
}


@row.equal(lambda: list(_SURPLUS))
def _(dataset: str, network: str) -> Sides:
    """gain at epsilon = 1 less gain at epsilon = 3, in the table"""
    return _SURPLUS[dataset, network], lambda: _surplus(dataset, network), Fraction(0)
