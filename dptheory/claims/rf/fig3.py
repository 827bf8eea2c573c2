"""rf.fig3: how often a parameter is frozen."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rf.fig3",
        title="how often a parameter is frozen",
        source=Source("rf", "Fig. 3"),
        statement="Over 100 epochs of the End-to-end CNN the histograms of random and ranked freeze agree; ranking without "
        "noise differs. But see rf.ranked.",
        verdict=Verdict.EMPIRICAL,
        reported=(("random against ranked", "equivalent"), ("epochs", "100")),
        figure="measured_counts",
    )
)
