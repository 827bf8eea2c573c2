"""lf.fig5: noise angle after freezing."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="lf.fig5",
        title="noise angle after freezing",
        source=Source("lf", "Fig. 5"),
        statement=(
            "CIFAR10, 5-layer CNN, layers 1 to 3 frozen at step 5000: the angle gamma^BP (gamma^UB in the "
            "caption) of clipped and private mean gradient falls in layers 4 and 5, and is larger than gamma^UB."
        ),
        verdict=Verdict.EMPIRICAL,
        reported=(("gamma^BP, layers 4 and 5", "falls"), ("gamma^BP against gamma^UB", "larger")),
        figure="measured_angles",
    )
)
