"""lf.asm3.1: clipped gradients are aligned better."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="lf.asm3.1",
        title="clipped gradients are aligned better",
        source=Source("lf", "Assumption 3.1, appendix E"),
        statement="The mean of the gradients with norm above C has a smaller angle to the true gradient than that of "
        "the others.",
        verdict=Verdict.EMPIRICAL,
        reported=(("in the paper's words (appendix E)", "generally well-supported empirically"),),
        figure="measured_alignment",
    )
)
