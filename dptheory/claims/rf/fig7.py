"""rf.fig7: clip and momentum, epsilon = 7.53."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rf.fig7",
        title="clip and momentum, epsilon = 7.53",
        source=Source("rf", "Fig. 7"),
        statement="As Fig. 4 at epsilon = 7.53: accuracy is kept along C/(1 - momentum) = 1. But see rf.scaling.",
        verdict=Verdict.EMPIRICAL,
        reported=(("given optimum", "C = 0.1, momentum 0.9"),),
    )
)
