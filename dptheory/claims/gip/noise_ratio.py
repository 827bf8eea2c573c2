"""gip.noise_ratio: gradient against noise."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gip.noise_ratio",
        title="gradient against noise",
        source=Source("gip", "section 1, Appendix B.1"),
        statement=r"On CIFAR-10, WRN-16-4: $\sigma_g^2/\sigma^2 \approx 10^{-4}$; gradient norm over noise norm about 0.01 all along.",
        verdict=Verdict.EMPIRICAL,
        reported=(("sigma_g^2 / sigma^2", "0.0001"), ("gradient norm / noise norm", "0.01")),
    )
)
