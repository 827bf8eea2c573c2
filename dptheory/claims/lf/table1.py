"""lf.table1: accuracy with layer freezing."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="lf.table1",
        title="accuracy with layer freezing",
        source=Source("lf", "Table 1"),
        statement=(
            "Layer freezing raises the median test accuracy of five runs in all settings but one, at delta = "
            "1e-5. The Wide-ResNet's standard deviations can only be percent. But see lf.abstract and lf.spread."
        ),
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("lf.table1").quoted(),
    )
)
