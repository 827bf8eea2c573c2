"""lf.table1: accuracy with layer freezing."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="lf.table1",
        title="accuracy with layer freezing",
        source=Source("lf", "Table 1"),
        statement="Layer freezing raises the median test accuracy of five runs (WRN, epsilon 2: one) in all settings but one, "
        "delta = 1e-5. The WRN's standard deviations can only be percent. See lf.abstract, lf.spread.",
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("lf.table1").quoted(),
    )
)
