"""gip.fig4: cosine over training, ablations."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gip.fig4",
        title="cosine over training, ablations",
        source=Source("gip", "Fig. 4"),
        statement="(a) cosine with the unperturbed gradient, CIFAR-10, ResNet18: GIP > Jax-Privacy > Random-0.5 overall, all "
        "falling; (b, c) best k of GIP: 0.05 (WRN-16-4), 0.1 (ResNet18), of random-k 0.5 (WRN-16-4).",
        verdict=Verdict.EMPIRICAL,
        reported=(
            ("order of the cosines", "GIP > Jax-Privacy > Random-0.5"),
            ("best k of GIP, WRN-16-4, epsilon 4", "0.05"),
            ("best k of GIP, ResNet18, epsilon 4", "0.1"),
            ("best k of Random-k, WRN-16-4, epsilon 4", "0.5"),
        ),
        figure="measured_cosines",
    )
)
