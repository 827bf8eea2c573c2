"""gep.fig4: projection error over k."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gep.fig4",
        title="projection error over k",
        source=Source("gep", "Fig. 4, section 3.2"),
        statement="ResNet20, CIFAR-10, $m = 2000$: the relative projection error is small, decreases with $k$, and the "
        "more slowly the larger $k$ is; ImageNet with random labels is comparable to test data.",
        verdict=Verdict.EMPIRICAL,
        reported=(
            ("error over k", "decreases, with diminishing benefit"),
            ("ImageNet, random labels", "comparable to test samples with correct labels"),
        ),
        figure="measured_projections",
    )
)
