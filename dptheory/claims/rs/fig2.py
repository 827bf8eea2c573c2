"""rs.fig2: accuracy over the final rate, nine noise levels."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rs.fig2",
        title="accuracy over the final rate, nine noise levels",
        source=Source("rs", "Fig. 2"),
        statement="DP-CNN, batch size 1000, 100 epochs, sigma in {1, 2, 4}, C in {1/4, 1/2, 1}: as sigma rises more RS is "
        "preferred, as C rises more can be gained, by sigma^2 C^2; at 4 and 1 training breaks down.",
        verdict=Verdict.EMPIRICAL,
        reported=(
            ("gain at sigma^2 C^2 = 4 (Fig. 2f, 2h)", "more than 4 %"),
            ("at sigma^2 C^2 = 1 (Fig. 2c, 2e, 2g)", "performance kept, or slightly increased"),
        ),
    )
)
