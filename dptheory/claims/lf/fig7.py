"""lf.fig7: alignment of clipped and unclipped gradients."""

from dptheory import papers
from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="lf.fig7",
        title="alignment of clipped and unclipped gradients",
        source=Source("lf", "Fig. 7, appendix E"),
        statement="CIFAR10, sigma = 1.0, B = 512, learning rate 0.15: in general the sum of the clipped gradients has a smaller "
        "angle to the true gradient than that of the unclipped ones, for C in {0.1, 1, 5, 10}.",
        verdict=Verdict.EMPIRICAL,
        reported=(
            *papers.table("lf.fig7").quoted(),
            ("epsilon at the end", "7.0"),
            ("smaller angle", "clipped gradients, in general, for different C"),
        ),
        figure="measured_alignment",
    )
)
