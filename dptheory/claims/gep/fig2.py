"""gep.fig2: stable rank of the gradients."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gep.fig2",
        title="stable rank of the gradients",
        source=Source("gep", "Fig. 2"),
        statement="ResNet20 on CIFAR-10: the stable rank of the matrix of batch gradients is small in every group, "
        "throughout training.",
        verdict=Verdict.EMPIRICAL,
        reported=(("stable rank", "small throughout training"),),
        figure="measured_ranks",
    )
)
