"""lf.asm3.2: freezing leaves the clipped set as it is."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="lf.asm3.2",
        title="freezing leaves the clipped set as it is",
        source=Source("lf", "Assumption 3.2, appendix E"),
        statement="Freezing changes no gradient from clipped to unclipped. The paper itself finds that it does; "
        "Proposition 3.1 is stated under it.",
        verdict=Verdict.EMPIRICAL,
        reported=(
            ("in the paper's words (appendix E)", "generally not true"),
            ("gradients that change status", "a small number"),
        ),
        figure="measured_status",
    )
)
