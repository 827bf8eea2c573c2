from fractions import Fraction

from dptheory import papers
from dptheory.claims._row import Kind, Sides, Source, Verdict, new_row

more_parameters = new_row(
    id="rs.more_parameters",
    source=Source("rs", "section 6.2, Table 2"),
    verdict=Verdict.CONDITIONAL,
)


def _gain_and_dim(dataset: str, network: str, epsilon: str) -> tuple[Fraction, int]:
    """Gain of a kind of network ("DP-CNN", "H-CNN") in Table 2, in points, and its parameters in thousands."""
    (cell,) = (
        cell
        for cell in papers.table("rs.table2").cells
        if cell.key("dataset") == dataset
        and cell.key("approach").removesuffix("/S") == network
        and cell.key("epsilon") == epsilon
        and cell.name.endswith("difference")
    )
    return cell.number(), int(cell.key("dim").removesuffix("K"))


def _more(dataset: str, epsilon: str, what: str) -> Fraction:
    """What DP-CNN has more than H-CNN: gain in points, or parameters in thousands."""
    (gain, dim), (other_gain, other_dim) = (_gain_and_dim(dataset, network, epsilon) for network in ("DP-CNN", "H-CNN"))
    return gain - other_gain if what == "gain" else Fraction(dim - other_dim)


_MORE_GAIN = {
    ("CIFAR10", "3.0"): Fraction("1.2"),
    ("CIFAR10", "1.0"): Fraction("1.8"),
    ("SVHN", "3.0"): Fraction("0.2"),
    ("SVHN", "1.0"): Fraction("1.6"),
    ("FMNIST", "3.0"): Fraction("0.5"),
    ("FMNIST", "1.0"): Fraction("0.1"),
}


@more_parameters.equal(
    lambda: [(*where, what) for where in _MORE_GAIN for what in ("gain", "parameters")], kind=Kind.COUNTEREXAMPLE
)
def _(dataset: str, epsilon: str, what: str) -> Sides:
    """what DP-CNN has more than H-CNN, in the table: gain and parameters"""
    parameters = Fraction(-7 if dataset == "FMNIST" else 363)
    stated = _MORE_GAIN[dataset, epsilon] if what == "gain" else parameters
    return stated, lambda: _more(dataset, epsilon, what), abs(stated) + 1


small_epsilon = new_row(
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


@small_epsilon.equal(lambda: list(_SURPLUS))
def _(dataset: str, network: str) -> Sides:
    """gain at epsilon = 1 less gain at epsilon = 3, in the table"""
    return _SURPLUS[dataset, network], lambda: _surplus(dataset, network), Fraction(0)
