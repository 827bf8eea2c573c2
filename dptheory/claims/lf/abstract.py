from fractions import Fraction

from dptheory.claims._row import Severity, Sides, Source, Verdict, new_row
from dptheory.claims.lf import _privacy


def _gain(setting: str) -> Fraction:
    """Percentage points that freezing adds to the median."""
    without, frozen = (cell.number() for cell in _privacy.TABLE_1[setting])
    return 100 * (frozen - without)


row = new_row(
    id="lf.abstract",
    source=Source("lf", "Section 1, against Table 1"),
    verdict=Verdict.FALSE,
    severity=Severity.SLIP,
    kernel_theorems=("printed_is_false", "correction_holds"),
)


@row.equal(())
def _() -> Sides:
    """largest difference in Table 1"""
    return Fraction("1.5"), max(map(_gain, _privacy.TABLE_1)), Fraction("1.3")


@row.equal(("more",), ("none",))
def _(which: str) -> Sides:
    """settings that gain more than 1.3 points, and none"""
    return (
        Fraction({"more": 3, "none": 1}[which]),
        Fraction(
            sum(gain > Fraction("1.3") if which == "more" else gain == 0 for gain in map(_gain, _privacy.TABLE_1))
        ),
        Fraction(0),
    )
