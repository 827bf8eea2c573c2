"""rs.fig3: no gain without noise or without clipping."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rs.fig3",
        title="no gain without noise or without clipping",
        source=Source("rs", "Fig. 3"),
        statement="With clipping alone (C in {1/4, 1/2, 1}) or noise alone (sigma in {1, 2, 4}) RS only lowers the train "
        "accuracy.",
        verdict=Verdict.EMPIRICAL,
        reported=(
            ("clipped SGD", "accuracy falls with the rate"),
            ("noisy SGD", "accuracy falls, faster at high rates"),
        ),
    )
)
