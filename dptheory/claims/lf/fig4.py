"""lf.fig4: clipping angle after freezing."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="lf.fig4",
        title="clipping angle after freezing",
        source=Source("lf", "Fig. 4"),
        statement=(
            "CIFAR10, 5-layer CNN, layers 1 to 3 frozen at step 5000: the angle gamma^UB between the unclipped "
            "and the clipped mean gradient falls in layers 4 and 5. It stands in for gamma^B and is not defined."
        ),
        verdict=Verdict.EMPIRICAL,
        reported=(("gamma^UB, layers 4 and 5", "falls"),),
        figure="measured_angles",
    )
)
