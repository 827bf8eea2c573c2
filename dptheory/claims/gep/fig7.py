"""gep.fig7: projection error of a random basis."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gep.fig7",
        title="projection error of a random basis",
        source=Source("gep", "Fig. 7, Appendix C"),
        statement="CIFAR-10 and SVHN: the relative projection error of Gaussian random basis vectors stays above 95 % "
        "throughout training.",
        verdict=Verdict.EMPIRICAL,
        reported=(("projection error", "> 95 %"),),
        figure="measured_projections",
    )
)
