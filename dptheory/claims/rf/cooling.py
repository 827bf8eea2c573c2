"""rf.cooling: a constant rate against gradual cooling."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="rf.cooling",
        title="a constant rate against gradual cooling",
        source=Source("rf", "section 3.1; RS, section 4.1"),
        statement='With a constant (RS: "constant large") rate from the start the network converges slowly and performs '
        "poorly; so the rate rises linearly from 0.",
        verdict=Verdict.EMPIRICAL,
        reported=(("constant rate", "converges slowly and performs poorly"),),
    )
)
