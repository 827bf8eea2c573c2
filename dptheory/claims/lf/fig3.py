"""lf.fig3: signal after freezing."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="lf.fig3",
        title="signal after freezing",
        source=Source("lf", "Fig. 3"),
        statement="CIFAR10, 5-layer CNN, layers 1 to 3 frozen at step 5000: the median of |s^B| of layers 4 and 5 "
        "rises. But see lf.lem3.2b.",
        verdict=Verdict.EMPIRICAL,
        reported=(
            ("median of |s^B|, layers 4 and 5", "rises"),
            ("accuracy at the last step, epsilon = 7", "around 0.64"),
        ),
        figure="measured_signals",
    )
)
