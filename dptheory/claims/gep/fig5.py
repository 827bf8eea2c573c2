"""gep.fig5: stable rank of the residuals."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gep.fig5",
        title="stable rank of the residuals",
        source=Source("gep", "Fig. 5, section 3.2"),
        statement="ResNet20, $k = 1000$, full batch: the stable rank of the residual gradients is an order of magnitude "
        "above that of the gradients.",
        verdict=Verdict.EMPIRICAL,
        reported=(("residual over original", "an order of magnitude"),),
        figure="measured_ranks",
    )
)
