"""rs.fig12: how often a parameter is masked out."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rs.fig12",
        title="how often a parameter is masked out",
        source=Source("rs", "Fig. 12"),
        statement="Over 100 epochs the histograms of random and ranked sparsification mostly overlap; ranking without noise "
        "differs. But see rf.ranked.",
        verdict=Verdict.EMPIRICAL,
        reported=(("random against ranked", "mostly overlap"), ("epochs", "100")),
        figure="measured_counts",
    )
)
