"""rf.fig2: law of the gradient norm."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rf.fig2",
        title="law of the gradient norm",
        source=Source("rf", "Fig. 2"),
        statement="With random freeze fewer per-example gradients have large norms, and fewer small ones, in later epochs.",
        verdict=Verdict.EMPIRICAL,
        reported=(
            ("freeze rate at epoch 20", "0.45"),
            ("freeze rate at epoch 40", "0.9"),
            ("first epoch", "the two laws overlap"),
        ),
        figure="measured_norms",
    )
)
