"""gip.table6: accuracy against handcrafted features."""

from dptheory.claims._row import Claim, Row, Source, Verdict
from dptheory.claims.gip import _tables

row = Row(
    Claim(
        id="gip.table6",
        title="accuracy against handcrafted features",
        source=Source("gip", "Table 6"),
        statement="GIP on WRN-16-4, CIFAR-10, against Tramer & Boneh and Papernot et al.",
        verdict=Verdict.EMPIRICAL,
        reported=tuple(
            (f"{method}, epsilon {epsilon}", f"{value} %")
            for method, cells in _tables.TABLE_6.items()
            for epsilon, value in cells.items()
        ),
    )
)
