"""rs.fig4: accuracy over the final rate, plugged in."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rs.fig4",
        title="accuracy over the final rate, plugged in",
        source=Source("rs", "Fig. 4"),
        statement="DP-CNN, H-CNN (epsilon = 3), DP-TL (epsilon = 2), GEP (epsilon = 8) at the dense runs' hyperparameters keep "
        "their accuracy.",
        verdict=Verdict.EMPIRICAL,
        reported=(("final rate without loss", "up to 0.7 or 0.9"), ("average sparsity", "0.35 or 0.45")),
    )
)
