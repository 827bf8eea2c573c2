"""gep.fig6: accuracy over k."""

from dptheory.claims._row import Claim, Row, Source, Verdict

row = Row(
    Claim(
        id="gep.fig6",
        title="accuracy over k",
        source=Source("gep", "Fig. 6, section 4"),
        statement="GEP significantly outperforms B-GEP for all $k$, is less sensitive to $k$, and gains less from it the "
        "larger it is.",
        verdict=Verdict.EMPIRICAL,
        reported=(("GEP against B-GEP", "significantly better for all k"), ("GEP over k", "not that sensitive")),
    )
)
