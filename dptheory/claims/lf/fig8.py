"""lf.fig8: gradients that change status."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="lf.fig8",
        title="gradients that change status",
        source=Source("lf", "Fig. 8, appendix E"),
        statement="Freezing the first 3 layers turns a small number of clipped gradients into unclipped ones; the "
        "directions of the two sums hardly change.",
        verdict=Verdict.EMPIRICAL,
        reported=papers.table("lf.fig8").quoted(),
        figure="measured_status",
    )
)
