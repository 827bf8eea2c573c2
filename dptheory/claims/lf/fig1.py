"""lf.fig1: lower layers converge first."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="lf.fig1",
        title="lower layers converge first",
        source=Source("lf", "Fig. 1, section 3.2"),
        statement="CIFAR10, 5-layer CNN, C = 3, sigma = 1, one layer and the last trained on after epsilon = 3: layer 1 "
        "gains least. By PWCCA only layer 1 shows a weak sign of convergence.",
        verdict=Verdict.EMPIRICAL,
        reported=(
            ("accuracy of the full model at the last step", "around 0.63"),
            ("epsilon at the last step", "around 7"),
            ("least gain when trained alone", "layer 1"),
            ("weak sign of convergence (PWCCA)", "layer 1 only, of layers 1 to 4"),
        ),
    )
)
