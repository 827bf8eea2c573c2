"""rs.fig5: reconstruction by inverting gradients."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rs.fig5",
        title="reconstruction by inverting gradients",
        source=Source("rs", "Fig. 5"),
        statement="The error of the reconstruction grows with the rate (ResNet34, noise N(0, 1e-3), 200 images of CIFAR10).",
        verdict=Verdict.EMPIRICAL,
        reported=(("MSE without noise and mask", "0.02 ± 0.02"),),
        figure="measured_inversion",
    )
)
