"""gip.table6: accuracy against handcrafted features."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gip.table6",
        title="accuracy against handcrafted features",
        source=Source("gip", "Table 6"),
        statement="GIP on WRN-16-4, CIFAR-10, against Tramer & Boneh and Papernot et al.",
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("gip.table6").quoted(),
    )
)
