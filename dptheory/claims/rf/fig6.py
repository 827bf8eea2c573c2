"""rf.fig6: accuracy over the privacy loss."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rf.fig6",
        title="accuracy over the privacy loss",
        source=Source("rf", "Fig. 6"),
        statement="Mean of five runs: random freeze is above the baseline and the adjusted baseline at all high privacy "
        "levels.",
        verdict=Verdict.EMPIRICAL,
        reported=(("order", "random freeze above both others"),),
    )
)
