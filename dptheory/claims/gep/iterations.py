"""gep.iterations: more power iterations than one."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gep.iterations",
        title="more power iterations than one",
        source=Source("gep", "section 4, implementation details"),
        statement='The number of power iterations is 1, as "more iterations do not improve the performance for GEP and B-GEP".',
        verdict=Verdict.EMPIRICAL,
        reported=(("more iterations than 1", "do not improve the performance"),),
    )
)
