"""rf.fig4: clip and momentum, epsilon = 3."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rf.fig4",
        title="clip and momentum, epsilon = 3",
        source=Source("rf", "Fig. 4"),
        statement="End-to-end CNN: accuracy is kept along C/(1 - momentum) = 1 and falls when only one of the two is moved; "
        "no momentum is best. But see rf.scaling.",
        verdict=Verdict.EMPIRICAL,
        reported=(("given optimum", "C = 0.1, momentum 0.9"), ("best", "momentum 0")),
    )
)
