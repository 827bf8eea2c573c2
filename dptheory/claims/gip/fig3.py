"""gip.fig3: accuracy curves."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gip.fig3",
        title="accuracy curves",
        source=Source("gip", "Fig. 3"),
        statement="Test accuracy over epsilon for each method; the numbers are those of Table 5.",
        verdict=Verdict.EMPIRICAL,
        reported=(("numbers", "as Table 5"),),
    )
)
