"""gep.fig1: noise norm against gradient norm."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gep.fig1",
        title="noise norm against gradient norm",
        source=Source("gep", "Fig. 1"),
        statement="ResNet20 at initialisation, noise for $(5, 10^{-5})$-DP after 90 epochs: as the model grows, the "
        "gradient is submerged in noise.",
        verdict=Verdict.EMPIRICAL,
        reported=(("as the model becomes larger", "the gradient would be submerged in the added noise"),),
    )
)
