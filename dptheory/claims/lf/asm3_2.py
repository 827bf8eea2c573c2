"""lf.asm3.2: freezing changes the clipped set, by little."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="lf.asm3.2",
        title="freezing changes the clipped set, by little",
        source=Source("lf", "Assumption 3.2, appendix E"),
        statement="Assumption 3.2, that freezing changes no gradient from clipped to unclipped, is generally not true: a small "
        "number changes. Proposition 3.1 is stated under it.",
        verdict=Verdict.EMPIRICAL,
        reported=(
            ("in the paper's words (appendix E)", "generally not true"),
            ("gradients that change status", "a small number"),
        ),
        figure="measured_status",
    )
)
