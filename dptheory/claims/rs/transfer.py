"""rs.transfer: random sparsification of transfer learning."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rs.transfer",
        title="random sparsification of transfer learning",
        source=Source("rs", "Appendix J"),
        statement="With DP transfer learning no significant improvement was observed at high rates; Fig. 4 has one framework "
        "of it at the same performance up to a final rate of 0.7 or 0.9.",
        verdict=Verdict.EMPIRICAL,
        reported=(("high sparsification rates", "not observed significant performance improvement"),),
    )
)
