"""rs.more_parameters: larger gains for more parameters."""

from fractions import Fraction

from dptheory import papers
from dptheory.claims._row import Claim, Kind, Row, Sides, Source, Verdict

row = Row(
    Claim(
        id="rs.more_parameters",
        title="larger gains for more parameters",
        source=Source("rs", "section 6.2, Table 2"),
        statement=r'"DP-CNN generally gains more from RS, as it has comparatively more parameters and $\Delta_\sigma$ scales with the '
        r'gradient dimension $d$."',
        verdict=Verdict.CONDITIONAL,
        summary="true of CIFAR10 and SVHN; of Table 2 as a whole it gains more in each of six settings, but on FMNIST DP-CNN/S "
        "has fewer parameters than H-CNN/S, 26K against 33K.",
        conditions=(
            "CIFAR10 and SVHN, or: FMNIST, whose networks are called DP-CNN/S and H-CNN/S, is not meant. The text makes no such "
            "exception.",
            "Held against the paper's own Table 2, as transcribed in `dptheory/papers/rs.toml`: differences of means of five "
            "runs. This page does not say whether they can be reproduced, nor whether the parameters are the reason.",
        ),
        correction=r"""On CIFAR10 and SVHN DP-CNN has 550K parameters against 187K, and gains 0.2 to 1.8 points more. On FMNIST it has 26K against 33K, and gains
0.5 points more at $\epsilon = 3$ and 0.1 at $\epsilon = 1$. $\Delta_\sigma$ scales with $d\sigma^2C^2/B^2$, as Remark 3 says.""",
        proved=True,
    )
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


@row.equal(
    lambda: [(*where, what) for where in _MORE_GAIN for what in ("gain", "parameters")], kind=Kind.COUNTEREXAMPLE
)
def _(dataset: str, epsilon: str, what: str) -> Sides:
    """what DP-CNN has more than H-CNN, in the table: gain and parameters"""
    parameters = Fraction(-7 if dataset == "FMNIST" else 363)
    stated = _MORE_GAIN[dataset, epsilon] if what == "gain" else parameters
    return stated, lambda: _more(dataset, epsilon, what), abs(stated) + 1
