"""gip.assumption1: Gaussian gradients."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gip.assumption1",
        title="Gaussian gradients",
        source=Source("gip", "Assumption 1"),
        statement=r"The entries of the batch gradient, a sum of unclipped ones, are $N(0, \sigma_g^2)$. "
        "`dptheory probe` measures how far the clipped sum of Algorithm 2 is from it.",
        verdict=Verdict.EMPIRICAL,
        reported=(("law of an entry", "N(0, sigma_g^2)"),),
        figure="measured_entries",
    )
)
